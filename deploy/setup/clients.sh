#!/usr/bin/env bash
# Installs the published clients that the tests run, in a virtual environment of the cache.
#
#   deploy/setup/clients.sh CACHE
set -euo pipefail

packages=('sulcus[async]==1.0.0' 'langchain-core>=0.3.86,<1' 'sulcus-langchain==0.1.0')
folder="$1/clients"
wanted="$(python3 --version) ${packages[*]}"

if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
echo 'setup: installing the published clients'
rm -rf "$folder"
# Without a pip of its own: Debian's python3 has no ensurepip.
python3 -m venv --without-pip "$folder"
python3 -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check "${packages[@]}"
echo "$wanted" > "$folder/installed"
