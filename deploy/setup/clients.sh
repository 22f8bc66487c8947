#!/usr/bin/env bash
# Installs the PyPI packages of the tests into a virtual environment of the cache: the published
# clients, schemathesis, and a server of S3. Every file is checked by its hash.
#
#   deploy/setup/clients.sh CACHE
set -euo pipefail

packages="$(dirname "$0")/clients.txt"
folder="$1/clients"
wanted="$(python3 --version) $(sha256sum < "$packages")"

if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
echo 'setup: installing the published clients'
rm -rf "$folder"
# Without its own pip: Debian's python3 has no ensurepip.
python3 -m venv --without-pip "$folder"
python3 -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check \
    --require-hashes --requirement "$packages"
echo "$wanted" > "$folder/installed"
