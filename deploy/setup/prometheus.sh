#!/usr/bin/env bash
# Unpacks Debian's Prometheus with promtool into the given cache folder, for the tests of the alerts.
# Does nothing if it is there. It is not installed: that would start a service.
set -euo pipefail

target=$1/prometheus
[ -x "$target/usr/bin/promtool" ] && exit 0
mkdir -p "$1"
# On the file system of the target, so that the rename below is atomic.
work=$(mktemp -d -p "$1")
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root prometheus
dpkg-deb --extract prometheus_*.deb unpacked
rm -rf "$target"
mv unpacked "$target"
