#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test programs into which a CUDA runtime is linked.
#
#	static.sh OUT [PREFIX]
#
# The library libcudart_static.a of PREFIX is linked into the programs.

set -u

out=$1
prefix=${2:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

archive=
for place in lib lib64; do
	[ ! -e "$prefix/$place/libcudart_static.a" ] || archive=$prefix/$place/libcudart_static.a
done
if [ -z "$archive" ] || [ ! -e "$out/lib/drop-in/libcohort-static.so" ]; then
	echo "there is no libcudart_static.a, or the machine is not x86-64"
	exit 77
fi
unset COHORT_PLATFORM COHORT_GPU_LIBRARIES LD_LIBRARY_PATH LD_PRELOAD
unset COHORT_HOST_DEVICES COHORT_HOST_STRICT COHORT_HOST_SYNC COHORT_FAULTS

# expect NAME STATUS OUTPUT COMMAND... - run a command; standard input is what it must write
# to stderr, and OUTPUT what it must print
expect() {
	local name=$1 status=$2 output=$3 rc=0
	shift 3
	timeout 120 "$out/cohort" run -n 2 -- "$@" >"$scratch/out" 2>"$scratch/err" || rc=$?
	if [ $rc -ne "$status" ] || [ "$(cat "$scratch/out")" != "$output" ] ||
		! diff - "$scratch/err"; then
		echo "$name: exit status $rc"
		cat "$scratch/out" "$scratch/err"
		failed=1
	fi
}

cat >"$scratch/main.c" <<'END'
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of the program that only looks like one of the runtime. */
__attribute__((noinline)) static int cudaCheck(cudaError_t error)
{
	return error != cudaSuccess;
}

extern void **__cudaRegisterFatBinary(void *binary);
extern void __cudaRegisterFunction(void **handle, const char *host, char *device,
                                   const char *name, int limit, void *tid, void *bid,
                                   void *block, void *grid, int *size);
static void kernel(void)
{
}

int main(int argc, char **argv)
{
	static char binary;
	int devices = 0;

	/* The second process loads the library as well. */
	if (argc > 1 && strcmp(argv[1], "again") == 0)
		return system(argv[0]);
	__cudaRegisterFunction(__cudaRegisterFatBinary(&binary), (const char *)kernel,
	                       "scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
	if (cudaCheck(cudaGetDeviceCount(&devices))) {
		puts(cudaGetErrorString(cudaGetLastError()));
		return 1;
	}
	cudaLaunchKernel((const void *)kernel, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, NULL, 0,
	                 NULL);
	printf("%d devices, %s\n", devices, cudaGetErrorString(cudaGetLastError()));
	return 0;
}
END
${CC:-cc} -std=gnu11 "$scratch/main.c" -isystem "$prefix/include" -o "$scratch/main" "$archive" \
	-ldl -lrt -pthread || exit 1
refusal="cohort: scale: the host platform cannot run kernels"
printed="2 devices, operation not supported"
expect program 0 "$printed" "$scratch/main" <<<"$refusal"
expect "a program of a program" 0 "$printed" "$scratch/main" again <<<"$refusal"
LD_PRELOAD=libm.so.6 expect "another library that is preloaded" 0 "$printed" "$scratch/main" \
	<<<"$refusal"

cp "$scratch/main" "$scratch/stripped"
strip "$scratch/stripped"
cause="has a CUDA runtime linked in, which accepts only NVIDIA's driver; use a build with libcudart.so"
expect "a stripped program" 1 "CUDA driver is a stub library" "$scratch/stripped" <<END
cohort run: $scratch/stripped seems to have a CUDA runtime of its own, which needs a GPU (do not strip it, or build it with nvcc -cudart shared)
cohort: $scratch/stripped $cause
END

exit $failed
