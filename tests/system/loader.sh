#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test what the command $1 reports about the gpu platform if its libraries are missing,
# broken or incomplete, or find no driver or devices: each state has its own code, and the
# text names what is missing.  loader.c is built into stand-ins for the libraries.

set -eu

cohort=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# library DIR FILE OPTION... - build a stand-in library
library() {
	local dir=$scratch/$1 file=$2
	shift 2

	mkdir -p "$dir"
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Isrc -shared -fPIC -w "$@" \
		-o "$dir/$file" tests/system/loader.c
}

# broken DIR FILE... - create files that are not libraries, and that hide the system's
broken() {
	local dir=$scratch/$1
	shift

	mkdir -p "$dir"
	for file in "$@"; do
		echo "not a library" >"$dir/$file"
	done
}

# expect DIR STATUS TEXT [VARIABLE=VALUE...] - check the output of `cohort info --json`
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

# chosen DIR PATTERN [VARIABLE=VALUE...] - check the reason that it gives for its choice
# nothing DIR PATTERN [VARIABLE=VALUE...] - check that it gives no such reason
chosen() {
	local dir=$scratch/$1 text=$2
	shift 2

	said=$(env -u COHORT_PLATFORM "$@" LD_LIBRARY_PATH="$dir" \
		"$cohort" info --json | sed 's/.*"default":/"default":/')
	# shellcheck disable=SC2053
	[[ $said == '"default":"host"'*$text* ]] || {
		echo "in $(basename "$dir"): not $text:"
		echo "  $said"
		failed=1
	}
}
nothing() {
	local failed_before=$failed

	chosen "$@" >/dev/null
	[ "$failed" = 1 ] || {
		echo "in $1: $said"
		failed_before=1
	}
	failed=$failed_before
}

cudart="libcudart.so.13 libcudart.so.12 libcudart.so"
nccl="libnccl.so.2 libnccl.so"

# cuda DIR [OPTION...], nccl DIR [OPTION...] - build a usable CUDA runtime, or NCCL
cuda() {
	local dir=$1
	shift
	library "$dir" libcudart.so.13 -DCUDART -DVERSION=13000 "$@"
}
nccl() {
	local dir=$1
	shift
	library "$dir" libnccl.so.2 -DNCCL -DVERSION=22809 "$@"
}

# shellcheck disable=SC2086
{
	broken no-cudart $cudart
	expect no-cudart -7 "cannot open libcudart.so.13"

	library old-cuda libcudart.so.13 -DCUDART -DVERSION=11080
	expect old-cuda -6 "old-cuda/libcudart.so.13 is CUDA 11.8; 12.0 or newer"

	cuda part-cudart -DWITHOUT
	expect part-cudart -8 "libcudart has no symbol cudaEventQuery"

	cuda no-driver
	expect no-driver -9 "cudaGetDeviceCount: driver too old (35)" \
		LOADER_ERROR=35
	expect no-driver -9 "cudaGetDeviceCount: some text (100)"
	expect no-driver -10 "cudaGetDeviceCount: some text (719)" \
		LOADER_ERROR=719
	# The other library is named, but not its error.
	library no-driver libnccl.so.2 -DNCCL -DVERSION=21903
	expect no-driver -9 "cudaGetDeviceCount: some text (100)"
	expect no-driver -9 "no-driver/libnccl.so.2"

	cuda no-nccl
	broken no-nccl $nccl
	expect no-nccl -7 "cannot open libnccl.so.2" LOADER_DEVICES=2

	cuda part-nccl
	nccl part-nccl -DWITHOUT
	expect part-nccl -8 "libnccl has no symbol ncclGroupEnd" \
		LOADER_DEVICES=2

	cuda old-nccl
	library old-nccl libnccl.so.2 -DNCCL -DVERSION=21903
	expect old-nccl -6 "is NCCL 2.19.3; 2.26.2 or newer" LOADER_DEVICES=2
	library old-nccl libnccl.so.2 -DNCCL -DVERSION=2804
	expect old-nccl -6 "is NCCL 2.8.4; 2.26.2 or newer" LOADER_DEVICES=2

	cuda rccl
	nccl rccl -DHIP
	expect rccl -6 "is RCCL, for AMD" LOADER_DEVICES=2

	cuda mscclpp
	library mscclpp libnccl.so.2 -DNCCL -DVERSION=700
	expect mscclpp -6 "MSCCL++" LOADER_DEVICES=2

	cuda half-ours
	nccl half-ours -DDROP_IN
	expect half-ours -6 "libnccl.so.2 is a drop-in library" \
		LOADER_DEVICES=2

	cuda old-driver -DOLD_DRIVER
	nccl old-driver
	expect old-driver -8 "the CUDA driver has no cuStreamWriteValue32" LOADER_DEVICES=2

	cuda usable
	nccl usable
	expect usable 0 "Kernels on symmetric windows cannot be aborted" \
		LOADER_DEVICES=2
	note="With several GPUs in one process, memory operations and the first use of"
	note="$note a kernel may wait for kernels on all of them; set"
	note="$note CUDA_MODULE_LOADING=EAGER, and allocate before the collectives begin."
	expect usable 0 "$note" LOADER_DEVICES=2
	nccl usable -DOLDER
	expect usable 0 '"notes":"NCCL has no ncclAlltoAll. ' LOADER_DEVICES=2
	nccl usable -DMSCCL
	expect usable 0 "The NCCL library is MSCCL, a variant" LOADER_DEVICES=2
	cuda usable -DDROP_IN
	nccl usable -DDROP_IN
	expect usable 0 '"drop_in":true' LOADER_DEVICES=2
	# There must be no note about NVIDIA's own NCCL.
	expect usable 0 '"notes":""}' LOADER_DEVICES=2

	# The host platform was not requested, and the machine has a driver.
	if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/nvhost-ctrl-gpu ] &&
		[ ! -e /usr/lib/wsl/lib/libcuda.so.1 ]; then
		detour="NVIDIA's libraries are here"
		missing="/dev/nvidiactl is missing"
		library driver libcuda.so.1
		chosen driver "$detour ($scratch/driver/libcuda.so.1)*$missing"
		nothing driver "$detour" COHORT_PLATFORM=host
		cuda beside
		nccl beside
		chosen beside "$detour ($scratch/beside/libnccl.so.2)*$missing"
		nothing usable "$detour"
	fi

# Only the directory in the environment is searched.
	expect usable -7 "cannot open libcudart.so.13: " \
		COHORT_GPU_LIBRARIES="$scratch/no-such"
	expect usable -6 "old-cuda/libcudart.so.13 is CUDA 11.8" \
		COHORT_GPU_LIBRARIES="$scratch/old-cuda"
}
exit "$failed"
