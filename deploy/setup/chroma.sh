#!/usr/bin/env bash
# Unpacks the PyPI package of Chroma into the given cache folder, for the comparison of
# `make bench-large`. Does nothing if it is there. Its server needs no other package.
set -euo pipefail

target=$1/chroma-1.5.9
[ -d "$target" ] && exit 0
mkdir -p "$1"
# On the file system of the target, so that the rename below is atomic.
work=$(mktemp -d -p "$1")
trap 'rm -rf "$work"' EXIT
cat > "$work/requirements.txt" <<'PINS'
chromadb==1.5.9 \
    --hash=sha256:cc09b3df76e5a5cb386aed2715a2eea152e3949f9e1ba93c7119505377749929 \
    --hash=sha256:9192d111bd662241625867962333d99369a00769a50f8b2f58cb388731274d7e
PINS
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check \
    --no-deps --only-binary :all: --require-hashes --requirement "$work/requirements.txt" --target "$work/unpacked"
mv "$work/unpacked" "$target"
