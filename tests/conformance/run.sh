#!/usr/bin/env bash
# Runs the conformance suite of the Model Context Protocol and its Inspector against a cluster of three
# nodes. Fails if a scenario that baseline.yml does not name fails, or one that it names passes.
#
#   run.sh CACHE BINARY
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
modules=$1/conformance/node_modules
export PATH=$(echo "$1"/node-*/bin):$PATH
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait || true; rm -rf "$work"' EXIT

# Prints the first line of a file, once it has one.
first_line() {
    for _ in $(seq 600); do
        if [ -s "$1" ]; then head -n 1 "$1"; return; fi
        sleep 0.1
    done
    echo "no line in $1 within a minute" >&2
    return 1
}

"$2" dev --json --http --nodes 3 --base-port 0 --embedder hashing --data "$work/cluster" > "$work/dev" &
pids+=($!)
info=$(first_line "$work/dev")
read -r url key < <(python3 -c 'import json, sys
info = json.loads(sys.argv[1])
print(info["nodes"][1]["url"], info["key"])' "$info")
node "$here/bridge.mjs" "$url" "$key" > "$work/bridge" &
pids+=($!)
bridge=$(first_line "$work/bridge")

cd "$work"
for scenario in server-initialize tools-list caching dns-rebinding-protection http-header-validation; do
    echo "conformance: $scenario"
    node "$modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$bridge/mcp" \
        --scenario "$scenario" --expected-failures "$here/baseline.yml" > "$work/$scenario.log" 2>&1 ||
        { cat "$work/$scenario.log"; exit 1; }
done

for era in legacy modern; do
    echo "conformance: Inspector, $era"
    tools=$(node "$modules/.bin/mcp-inspector" --cli --server-url "$url/mcp" --transport http \
        --header "Authorization: Bearer $key" --protocol-era "$era" --method tools/list)
    grep -q sulcus_remember <<< "$tools" || { echo "$tools"; exit 1; }
done
echo 'conformance: passed'
