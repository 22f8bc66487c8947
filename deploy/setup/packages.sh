#!/usr/bin/env bash
# Installs the Debian packages that a build needs, or packaging, or tests in a browser, or tests with
# containers. Does nothing if they are installed. The built binary needs none of them.
#
#   deploy/setup/packages.sh [build | packaging | browser | containers]
set -euo pipefail

missing=()
has() { command -v "$1" >/dev/null; }
case ${1:-build} in
    build)
        has clang || missing+=(clang) # compiles RocksDB in half the time of g++
        ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1 || missing+=(libclang-dev) # bindgen
        [ -f "/usr/lib/$(uname -m)-linux-gnu/libjemalloc_pic.a" ] || missing+=(libjemalloc-dev) # the allocator
        has python3 || missing+=(python3)
        python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
        has curl || missing+=(curl)
        has ip || missing+=(iproute2) # tests in a network of their own
        ;;
    packaging)
        has dh || missing+=(debhelper) # makes the Debian package
        has lintian || missing+=(lintian) # checks it
        has minisign || missing+=(minisign) # signs a release
        ;;
    browser)
        has chromium || missing+=(chromium fonts-liberation fonts-noto-color-emoji)
        ;;
    containers)
        has podman || missing+=(podman)
        has catatonit || missing+=(catatonit) # the first process of a pod
        has buildah || missing+=(buildah)
        has runc || missing+=(runc) # crun does not run in all cgroups
        [ -x /usr/lib/podman/netavark ] || missing+=(netavark)
        [ -x /usr/lib/podman/aardvark-dns ] || missing+=(aardvark-dns) # names of containers
        has iptables || missing+=(iptables) # netavark calls it
        has pgrep || missing+=(procps)
        has debootstrap || missing+=(debootstrap) # base of images and of machines
        has systemd-nspawn || missing+=(systemd-container) # machines with systemd
        ;;
esac

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
# apt-get does not wait for another one.
exec 9> "${TMPDIR:-/tmp}/hearth-packages-$(id -u).lock"
flock 9
echo "setup: installing Debian packages: ${missing[*]}"
if ! "${as_root[@]}" apt-get update -qq || ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; then
    echo 'setup: apt-get failed. Check the network and the settings of apt. Then run the same command again.' >&2
    exit 1
fi
