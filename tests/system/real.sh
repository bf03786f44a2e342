#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the gpu platform with the real NCCL and CUDA libraries of PREFIX on a machine without
# a GPU: it reports what is missing, names the libraries, and breaks nothing.
#
#	real.sh COHORT LIB [PREFIX]

set -u

cohort=$1
lib=$2
prefix=${3:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

folder=
for place in lib lib64; do
	if [ -e "$prefix/$place/libnccl.so.2" ] &&
		ls "$prefix/$place"/libcudart.so.1[23] >/dev/null 2>&1; then
		folder=$(realpath "$prefix/$place")
	fi
done
if [ -z "$prefix" ] || [ -z "$folder" ]; then
	echo "there are no real libraries of NCCL and CUDA"
	exit 77
fi
for file in /dev/nvidiactl /dev/nvhost-ctrl-gpu \
	/usr/lib/wsl/lib/libcuda.so.1; do
	if [ -e "$file" ]; then
		echo "there is a GPU"
		exit 77
	fi
done

unset COHORT_PLATFORM COHORT_GPU_LIBRARIES LD_LIBRARY_PATH

# told NAME VARIABLE=VALUE - check cohort info if the libraries are found in this way
told() {
	if ! env "$2" "$cohort" info >"$scratch/text" ||
		! env "$2" "$cohort" info --json >"$scratch/json"; then
		echo "$1: cohort info failed"
		failed=1
	fi
	for pattern in "^gpu  *not usable: cudaGetDeviceCount: " \
		"^  *$folder/libnccl.so.2, NCCL 2\.[0-9.]*$" \
		"^  *$folder/libcudart.so.1[23], CUDA 1[23]\.[0-9]$" \
		"^default  *host$"; do
		grep -q "$pattern" "$scratch/text" && continue
		echo "$1: no \"$pattern\" in:"
		cat "$scratch/text"
		failed=1
	done
	# The status must be COHORT_NO_DEVICE.
	grep -q '"name":"gpu","usable":false,"status":-9,' "$scratch/json" &&
		return
	echo "$1: not status -9:"
	cat "$scratch/json"
	failed=1
}

told "in the loader's path" LD_LIBRARY_PATH="$folder"
told "in the folder" COHORT_GPU_LIBRARIES="$folder"

${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/real.c \
	-o "$scratch/real" -L"$lib" -lcohort || exit 1

# refused VARIABLE=VALUE... - fail unless a group on the gpu platform is refused
refused() {
	env LD_LIBRARY_PATH="$lib" COHORT_GPU_LIBRARIES="$folder" "$@" \
		timeout 300 "$scratch/real" >"$scratch/out" 2>&1
	rc=$?
	[ "$rc" -eq 0 ] && [ "$(cat "$scratch/out")" = OK ] && return
	echo "a group, $*: exit status $rc"
	cat "$scratch/out"
	failed=1
}

refused REAL_PLATFORM=gpu
refused COHORT_PLATFORM=gpu

COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$folder "$cohort" demo \
	>"$scratch/out" 2>&1
rc=$?
if [ "$rc" -ne 1 ] || ! grep -q "cudaGetDeviceCount: " "$scratch/out"; then
	echo "cohort demo: exit status $rc"
	cat "$scratch/out"
	failed=1
fi
exit "$failed"
