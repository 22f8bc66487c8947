#!/usr/bin/env bash
# Makes the archive of a small Debian with systemd, by debootstrap from the mirror of this machine. It is
# the base of images (deploy/container), and of the machines in tests of packages. Does nothing if it
# is there.
#
#   deploy/setup/debian.sh CACHE
set -euo pipefail

target=$1/debian.tar
[ -f "$target" ] && exit 0
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -1)
echo 'setup: making a small Debian'
work=$(mktemp -d -p "$1")
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,python3-minimal \
    bookworm "$work/root" "$mirror" > "$work/log" || { tail -5 "$work/log" >&2; exit 1; }
rm -rf "$work"/root/var/cache/apt/archives/*.deb
tar -C "$work/root" -c . -f "$work/debian.tar"
mv "$work/debian.tar" "$target"
