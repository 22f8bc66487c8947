#!/usr/bin/env bash
# Unpacks Debian's etcd into the cache folder given, for the bench beside it, and nothing
# when it is there. It is not installed: that would start a service.
set -euo pipefail

target=$1/etcd
[ -x "$target/usr/bin/etcd" ] && exit 0
mkdir -p "$1"
# Beside the target, so that the rename below is one.
work=$(mktemp -d -p "$1")
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root etcd-server
dpkg-deb --extract etcd-server_*.deb unpacked
rm -rf "$target"
mv unpacked "$target"
