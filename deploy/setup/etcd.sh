#!/usr/bin/env bash
# Unpacks Debian's etcd into the given cache folder, for the comparison of `make bench`. Does
# nothing if it is there. It is not installed: that would start a service.
set -euo pipefail

target=$1/etcd
[ -x "$target/usr/bin/etcd" ] && exit 0
mkdir -p "$1"
# On the file system of the target, so that the rename below is atomic.
work=$(mktemp -d -p "$1")
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root etcd-server
dpkg-deb --extract etcd-server_*.deb unpacked
rm -rf "$target"
mv unpacked "$target"
