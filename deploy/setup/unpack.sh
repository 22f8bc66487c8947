#!/usr/bin/env bash
# Unpacks a Debian package into the folder NAME of the given cache folder, for tests and benches. Does
# nothing if it is there. It is not installed: that would start a service.
#   unpack.sh CACHE NAME PACKAGE
set -euo pipefail

target=$1/$2
[ -d "$target" ] && exit 0
mkdir -p "$1"
# On the file system of the target, so that the rename below is atomic.
work=$(mktemp -d -p "$1")
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root "$3"
dpkg-deb --extract "$3"_*.deb unpacked
mv unpacked "$target"
