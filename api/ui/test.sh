#!/usr/bin/env bash
# Runs the tests of the dashboard in Chromium. Fails if dist is not what the sources build: the binary
# would contain another dashboard than the one that is tested.
#
#   test.sh CACHE BINARY
set -euo pipefail

cd "$(dirname "$0")"
bundle() { find dist -type f -exec sha256sum {} + | sort; }
before=$(bundle)
./build.sh "$1"
[ "$(bundle)" = "$before" ] || { echo 'api/ui/dist was not built from its sources: it is now' >&2; exit 1; }

export PATH=$(echo "$1"/node-*/bin):$PATH
export HEARTH_BINARY=$2 HEARTH_PYTHON=$1/clients/bin/python
exec node --test --test-concurrency=1 --test-reporter=spec tests/*.test.mjs
