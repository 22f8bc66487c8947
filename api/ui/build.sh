#!/usr/bin/env bash
# Builds the dashboard into dist: checks its types against the OpenAPI documents, then bundles it.
#
#   build.sh CACHE
set -euo pipefail

cd "$(dirname "$0")"
export PATH=$(echo "$1"/node-*/bin):$PATH
# Node.js looks for packages in the folders above a file only.
ln -sfn "$1/dashboard/node_modules" node_modules
types() {
    node node_modules/openapi-typescript/bin/cli.js "../../docs/$1.json" --default-non-nullable=false \
        --output "src/$2.d.ts" >/dev/null
}
types openapi schema
types openapi-operator schema-operator
node node_modules/typescript/bin/tsc
node node_modules/vite/bin/vite.js build --logLevel warn
