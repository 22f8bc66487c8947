#!/usr/bin/env bash
# Store, search, follow: the interface by curl alone.
#
#   HEARTH_URL=https://127.0.0.1:4200 HEARTH_API_KEY=sk-… HEARTH_CA=cluster/ca.pem ./curl.sh
set -euo pipefail

call() {
    curl --silent --show-error --fail-with-body --cacert "$HEARTH_CA" \
        -H "Authorization: Bearer $HEARTH_API_KEY" -H 'Content-Type: application/json' \
        -X "$1" "$HEARTH_URL/api/v1$2" "${@:3}"
    echo
}

# A write with an idempotency key is done once, however often it is sent.
call POST /agent/nodes -H "Idempotency-Key: curl-example" \
    --data '{"label": "The user prefers metric units.", "memory_type": "preference", "tags": ["units"]}'
call POST /agent/search --data '{"query": "which units should I answer in?", "limit": 3}'
call GET '/agent/nodes?tags=units&page_size=5'
call POST /agent/context --data '{"prompt": "units", "token_budget": 200}'
