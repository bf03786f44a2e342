#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Bring NVIDIA's NCCL and the CUDA runtime's headers, for a machine that has no CUDA:
# the packages of PyPI that nvidia.txt names, each checked by its hash, into
# build/wheels.  There the Makefile finds the headers, and cohort run --nccl auto finds
# NCCL.  Nothing of them needs a GPU or a driver.

set -euo pipefail

cd "$(dirname "$0")/.."
wheels=build/wheels

python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	--no-deps --require-hashes --only-binary=:all: --platform manylinux2014_x86_64 \
	--platform manylinux_2_18_x86_64 --upgrade --target "$wheels" \
	--requirement scripts/nvidia.txt

# One prefix, as NVIDIA's own installers make it.
mkdir -p "$wheels/include" "$wheels/lib64"
(cd "$wheels/include" && ln -sf ../nvidia/{cu13,nccl}/include/* .)
(cd "$wheels/lib64" && ln -sf ../nvidia/{cu13,nccl}/lib/*.so* .)
echo "NVIDIA's libraries and headers are in $wheels"
