#!/usr/bin/env bash
# Builds the optimised binary and its packages, with what a release has beside them: a list of its parts
# (SBOM, CycloneDX), sums, and a signature if MINISIGN_KEY names a secret key. The binary contains the list
# of its crates (cargo auditable). It has no path of this machine.
#
#   deploy/package/release.sh CACHE FOLDER
set -euo pipefail

cache=$1 dist=$2 root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
deploy/setup/packages.sh packaging
deploy/setup/pypi.sh "$cache" packaging

tools=$cache/tools
install_tool() {
    grep -qs "\"$1 $2 " "$tools/.crates2.json" && return
    echo "setup: compiling $1"
    cargo install --quiet --locked --root "$tools" --version "$2" "$1"
}
install_tool cargo-auditable 0.7.7
install_tool cargo-cyclonedx 0.5.9

if [ -n "$(git status --porcelain)" ]; then
    echo 'release: the working tree has changes: commit them first' >&2
    exit 1
fi
# A copy of the commit in one fixed folder: cargo makes names of symbols from it, so any other folder gives
# another binary. The files are new (tar -m): cargo compares their times with those of its last build.
work=/tmp/hearth-release
mkdir "$work"
trap 'rm -rf "$work"' EXIT
git archive HEAD | tar -C "$work" -xm
# In a folder of its own: flags are part of what cargo compiles anew for.
export CARGO_TARGET_DIR=$cache/target-release HEARTH_COMMIT=$(git rev-parse --short=12 HEAD)
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$work=/hearth --remap-path-prefix=$CARGO_TARGET_DIR=/target"
cd "$work"
PATH=$tools/bin:$PATH cargo auditable build --release --locked -p node --bin hearth
# It writes beside each manifest.
PATH=$tools/bin:$PATH cargo cyclonedx --quiet --manifest-path node/Cargo.toml --format json \
    --spec-version 1.5 --no-build-deps --override-filename parts
cd "$root"
binary=$CARGO_TARGET_DIR/hearth
strip -o "$binary" "$CARGO_TARGET_DIR/release/hearth"

rm -rf "$dist"
mkdir -p "$dist"
python3 deploy/package/dist.py sbom "$work/node/parts.json" "$dist"
python3 deploy/package/dist.py dist "$binary" "$dist"
if [ -n "${MINISIGN_KEY:-}" ]; then
    minisign -S -s "$MINISIGN_KEY" -m "$dist/SHA256SUMS"
fi
