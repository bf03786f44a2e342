#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the command $1 says of the gpu platform when its libraries are missing,
# broken, incomplete, or have no driver or devices: each state has its own code,
# and the text names what is missing.  Stand-ins are built from loader.c.

set -eu

cohort=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# library DIR FILE OPTION... - build a stand-in
library() {
	local dir=$scratch/$1 file=$2
	shift 2

	mkdir -p "$dir"
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Isrc -shared -fPIC -w "$@" \
		-o "$dir/$file" tests/foreign/loader.c
}

# broken DIR FILE... - files that are no libraries hide those of the system
broken() {
	local dir=$scratch/$1
	shift

	mkdir -p "$dir"
	for file in "$@"; do
		echo "not a library" >"$dir/$file"
	done
}

# expect DIR STATUS TEXT [VARIABLE=VALUE...] - what `cohort info --json` says
expect() {
	local dir=$scratch/$1 status=$2 text=$3 said
	shift 3

	said=$(env "$@" LD_LIBRARY_PATH="$dir" "$cohort" info --json |
		sed 's/.*"name":"gpu"\(.*\)"name":"host".*/\1/')
	case $said in
	*"\"status\":$status,"*"$text"*) ;;
	*)
		echo "in $(basename "$dir"): not status $status and \"$text\":"
		echo "  $said"
		failed=1
		;;
	esac
}

cudart="libcudart.so.13 libcudart.so.12 libcudart.so"
nccl="libnccl.so.2 libnccl.so"

# shellcheck disable=SC2086
{
	broken no-cudart $cudart
	expect no-cudart -7 "cannot open libcudart.so.13"

	library old-cudart libcudart.so.13 -DCUDART -DWITHOUT
	expect old-cudart -8 "libcudart has no symbol cudaEventQuery"

	library no-driver libcudart.so.13 -DCUDART
	expect no-driver -9 "cudaGetDeviceCount: driver too old (35)" \
		LOADER_ERROR=35
	expect no-driver -9 "cudaGetDeviceCount: some text (100)"
	expect no-driver -10 "cudaGetDeviceCount: some text (719)" \
		LOADER_ERROR=719

	library no-nccl libcudart.so.13 -DCUDART
	broken no-nccl $nccl
	expect no-nccl -7 "cannot open libnccl.so.2" LOADER_DEVICES=2

	library old-nccl libcudart.so.13 -DCUDART
	library old-nccl libnccl.so.2 -DNCCL -DWITHOUT
	expect old-nccl -8 "libnccl has no symbol ncclGroupEnd" LOADER_DEVICES=2

	library old-driver libcudart.so.13 -DCUDART
	library old-driver libnccl.so.2 -DNCCL
	expect old-driver -8 "the CUDA driver gives no cuStreamWriteValue32" \
		LOADER_DEVICES=2
}
exit "$failed"
