#!/usr/bin/env bash
# Installs the PyPI packages that NAME.txt lists into a virtual environment of the cache. Every file is
# checked by its hash. Does nothing if they are there.
#
#   deploy/setup/pypi.sh CACHE clients|deny|packaging|deploying|peers|frameworks
set -euo pipefail

packages="$(dirname "$0")/$2.txt"
folder="$1/$2"
wanted="$(python3 --version) $(sha256sum < "$packages")"

[ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ] && exit 0
echo "setup: installing packages of PyPI: $2"
rm -rf "$folder"
# Without its own pip: Debian's python3 has no ensurepip.
python3 -m venv --without-pip "$folder"
python3 -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check \
    --require-hashes --requirement "$packages"
echo "$wanted" > "$folder/installed"
