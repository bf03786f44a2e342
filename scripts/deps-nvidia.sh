#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Download NVIDIA's NCCL and the CUDA runtime's headers from PyPI, each checked by its hash,
# for a machine without CUDA.  Neither needs a GPU or a driver.
#
#	deps-nvidia.sh [VERSION]...
#
# Without an argument, downloads each version in nccl.txt to build/nccl-VERSION, where cohort run
# --nccl auto finds it.  Puts the runtime, and the headers of the newest NCCL, into build/wheels,
# in the layout of NVIDIA's installers; the Makefile finds them there.

set -euo pipefail

cd "$(dirname "$0")/.."
wheels=build/wheels

# install FOLDER - install the requirements on standard input, in the format of pip
install() {
	local list
	list=$(mktemp)
	cat >"$list"
	python3 -m pip install --quiet --disable-pip-version-check \
		--root-user-action=ignore --no-deps --require-hashes \
		--only-binary=:all: --platform manylinux2014_x86_64 \
		--platform manylinux_2_18_x86_64 --platform manylinux_2_27_x86_64 \
		--upgrade --target "$1" --requirement "$list"
	rm -f "$list"
}

# bring VERSION HASH - download this NCCL, unless it already exists
bring() {
	local folder=build/nccl-$1

	if [ ! -e "$folder/nvidia/nccl/lib/libnccl.so.2" ]; then
		echo "nvidia-nccl-cu13==$1 --hash=$2" | install "$folder"
	fi
	echo "NCCL $1 is in $folder"
}

brought=0
while read -r version hash; do
	if [ "$version" != '#' ] && { [ $# = 0 ] || [[ " $* " = *" $version "* ]]; }; then
		bring "$version" "$hash"
		brought=$((brought + 1))
	fi
done <scripts/nccl.txt
if [ "$brought" = 0 ]; then
	echo "deps-nvidia: version $* is not in scripts/nccl.txt; use one of those, or add it with its hash" >&2
	exit 1
fi

install "$wheels" <scripts/nvidia.txt
newest=$(printf '%s\n' build/nccl-* | sort -V | tail -1)
mkdir -p "$wheels/include" "$wheels/lib64"
(cd "$wheels/include" && ln -sf ../nvidia/cu13/include/* \
	"../../${newest#build/}"/nvidia/nccl/include/* .)
(cd "$wheels/lib64" && ln -sf ../nvidia/cu13/lib/*.so* ../nvidia/cu13/lib/*.a \
	"../../${newest#build/}"/nvidia/nccl/lib/*.so* .)
echo "CUDA's headers, and those of ${newest#build/}, are in $wheels"
