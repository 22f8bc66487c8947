#!/usr/bin/env bash
# Builds the image, with docker or else with buildah. Compiles everything in it.
#
#   deploy/container/image.sh NAME [OPTION OF THE BUILDER...]
set -euo pipefail

name=$1
cd "$(dirname "$0")/../.."
options=(--file deploy/container/Containerfile --tag "$name")
# buildah builds a stage that another one begins from only if the argument that names it is given.
options+=(--build-arg TREE=built)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
options+=(--build-arg "HEARTH_VERSION=$version")
options+=(--build-arg "HEARTH_COMMIT=$(git describe --always --dirty --abbrev=12 --match nothing)")
options+=(--build-arg "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)" "${@:2}")
if docker info >/dev/null 2>&1; then
    exec docker build "${options[@]}" "${CONTEXT:-.}"
fi
# In this format an image can have a health check.
exec buildah build --format docker --ignorefile deploy/container/Containerfile.dockerignore "${options[@]}" "${CONTEXT:-.}"
