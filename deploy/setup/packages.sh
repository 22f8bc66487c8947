#!/usr/bin/env bash
# Installs the Debian packages that a build needs. Does nothing if they are installed. The
# built binary needs none of them.
set -euo pipefail

missing=()
command -v clang >/dev/null || missing+=(clang) # compiles RocksDB in half the time of g++
ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1 || missing+=(libclang-dev) # bindgen
[ -f "/usr/lib/$(uname -m)-linux-gnu/libjemalloc_pic.a" ] || missing+=(libjemalloc-dev) # the allocator
command -v python3 >/dev/null || missing+=(python3)
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
command -v curl >/dev/null || missing+=(curl)
command -v ip >/dev/null || missing+=(iproute2) # tests in a network of their own

[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian or Ubuntu: install what these packages contain: ${missing[*]}" >&2
    exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    echo "setup: as root, run: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "setup: installing Debian packages: ${missing[*]}"
if ! "${as_root[@]}" apt-get update -qq || ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; then
    echo 'setup: apt-get failed. Check the network and the settings of apt. Then run the same command again.' >&2
    exit 1
fi
