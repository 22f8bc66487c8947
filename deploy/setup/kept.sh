#!/usr/bin/env bash
# Builds the binary under test of the kept commit, from which tests/it/upgrade.rs upgrades. Does nothing
# if it is there. It shares the built dependencies of the present commit. Without the history of the
# repository the tests of upgrades are left out.
#   kept.sh REPOSITORY CACHE
set -euo pipefail

commit=$(cat "$1/tests/kept_commit")
target=$2/kept/$commit
[ -x "$target" ] && exit 0
if ! git -C "$1" cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "kept.sh: no commit $commit here, so upgrades are not tested: run \`git fetch --unshallow\`" >&2
    exit 0
fi
mkdir -p "$2/kept"
work=$(mktemp -d -p "$2/kept")
trap 'rm -rf "$work"' EXIT
git -C "$1" archive "$commit" | tar -x -C "$work"
echo "kept.sh: building the binary of commit $commit"
cargo build --quiet --locked --manifest-path "$work/Cargo.toml" \
    -p tests --features failpoints --bin hearth-under-test
# Moved: the present commit links its own to this name.
mv "${CARGO_TARGET_DIR:-$work/target}/debug/hearth-under-test" "$target"
