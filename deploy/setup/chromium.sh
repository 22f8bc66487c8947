#!/usr/bin/env bash
# Installs Debian's Chromium and fonts for the tests of the dashboard. Does nothing if it is installed.
set -euo pipefail

command -v chromium >/dev/null && exit 0
echo 'setup: installing Debian packages: chromium and fonts'
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    chromium fonts-liberation fonts-noto-color-emoji >/dev/null
