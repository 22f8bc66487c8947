#!/usr/bin/env bash
# Builds the dashboard into dist: checks its types against docs/openapi.json, then bundles it.
#
#   build.sh CACHE
set -euo pipefail

cd "$(dirname "$0")"
export PATH=$(echo "$1"/node-*/bin):$PATH
# Node.js looks for packages in the folders above a file only.
ln -sfn "$1/dashboard/node_modules" node_modules
node node_modules/openapi-typescript/bin/cli.js ../../docs/openapi.json --default-non-nullable=false \
    --output src/schema.d.ts >/dev/null
node node_modules/typescript/bin/tsc
node node_modules/vite/bin/vite.js build --logLevel warn
