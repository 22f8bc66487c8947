#!/usr/bin/env bash
# Builds the RocksDB library once; every profile links it. A new build is needed only when the
# pinned version of the rocksdb crate changes.
# usage: rocksdb.sh REPO TARGET_FOLDER
set -euo pipefail

repo=$1 target=$2
[ -f "$target/librocksdb.a" ] && exit 0
version=$(sed -n 's/^rocksdb = { version = "=\([0-9.]*\)".*/\1/p' "$repo/Cargo.toml")
[ -n "$version" ] || { echo "setup: no pinned rocksdb in Cargo.toml" >&2; exit 1; }

work=$target.build
rm -rf "$work"
mkdir -p "$work/src"
echo 'fn main() {}' >"$work/src/main.rs"
cp "$repo/Cargo.lock" "$repo/rust-toolchain.toml" "$work/"
cat >"$work/Cargo.toml" <<TOML
[package]
name = "rocksdb-build"
version = "0.0.0"
edition = "2024"
[dependencies]
rocksdb = { version = "=$version", default-features = false, features = ["lz4", "bindgen-runtime"] }
[workspace]
TOML

echo "setup: compiling RocksDB (crate $version), once: 7 to 20 minutes on two cores"
start=$SECONDS
mkdir -p "$work/target"
(cd "$work" && exec env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC CARGO_TARGET_DIR="$work/target" \
    CC=clang CXX=clang++ cargo build --quiet --release -p librocksdb-sys) &
build=$!
trap 'kill "$build" 2>/dev/null || true' EXIT
while kill -0 "$build" 2>/dev/null; do
    objects=$(find "$work/target" -name '*.o' 2>/dev/null | wc -l)
    echo "setup:   $objects files compiled, $((SECONDS - start)) s"
    for _ in $(seq 30); do kill -0 "$build" 2>/dev/null && sleep 1; done
done
wait "$build"
trap - EXIT

library=$(find "$work/target/release/build" -name librocksdb.a | head -1)
mkdir -p "$target"
mv "$library" "$target/librocksdb.a.tmp"
mv "$target/librocksdb.a.tmp" "$target/librocksdb.a"
rm -rf "$work"
echo "setup: RocksDB ready after $((SECONDS - start)) s"
