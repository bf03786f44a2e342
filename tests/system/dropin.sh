#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run a program for NCCL and the CUDA runtime on the drop-in libraries.
#
#	dropin.sh tests/system/programs/PROGRAM OUT [PREFIX]
#
# The program is compiled against the project's headers and linked with the libraries in
# OUT/lib/drop-in.  If PREFIX has real headers and libraries, it is also compiled and linked
# with those (the CUDA runtime also statically), and must run unchanged with ours.  OUT/cohort
# runs it, with and without strict mode.  It must print OK.

set -eu

source=$1
out=$2
prefix=${3:-}
drop_in=$out/lib/drop-in
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The processes must be able to share memory.
arguments=
case $source in
*/processes.c)
	export COHORT_HOST_SHARED=1
	arguments=4
	;;
*/ipc.c) export COHORT_HOST_SHARED=1 ;;
esac

case $source in
*.c) compiler=${CC:-cc} standard=gnu11 ;;
*) compiler=${CXX:-c++} standard=gnu++17 ;;
esac
# Use only the first word, because it may be a compiler with options.
if ! command -v "${compiler%% *}" >/dev/null; then
	echo "there is no $compiler"
	exit 77
fi

# build OPTION... - build $scratch/program; programs for the driver open it themselves
runtime=-lcudart
build() {
	local libraries="-lnccl $runtime"
	! grep -q '<cuda.h>' "$source" || libraries=
	# shellcheck disable=SC2086
	$compiler -std=$standard -O1 -Wall -Wextra -Werror "$source" \
		-o "$scratch/program" "$@" $libraries -pthread -ldl -lm
}

# try WHAT OPTION... - run the program under cohort run
try() {
	local what=$1
	shift

	# shellcheck disable=SC2086 # split at spaces
	if ! timeout 120 "$out/cohort" run -n 4 "$@" -- "$scratch/program" $arguments \
		>"$scratch/out" 2>"$scratch/err" ||
		grep -qv ': the host platform cannot run kernels$' "$scratch/err" ||
		[ "$(cat "$scratch/out")" != OK ]; then
		echo "$source: $what, cohort run $*:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	fi
}

# both WHAT - run the program with and without strict mode
both() {
	try "$1"
	try "$1" --strict
}

build -Isrc -Isrc/sim/include -Itests/system/include -L"$drop_in"
both "with the project's headers"

# Programs that use only functions that both major versions of CUDA have.
if ! grep -q 'cudaDeviceProp\|<cuda.h>' "$source"; then
	runtime=-l:libcudart.so.12
	build -Isrc -Isrc/sim/include -Itests/system/include -L"$drop_in"
	try "with CUDA 12's library" --strict
	runtime=-lcudart
fi

# version - print the version of the real NCCL header
version() {
	printf '#include <nccl.h>\nNCCL_VERSION_CODE\n' |
		${CC:-cc} -E -P -I"$prefix/include" -x c - | tail -n 1
}

# Skip older headers: the functions that the programs use appeared in 2.28.7.
if [ -z "$prefix" ] || [ "$(($(version)))" -lt 22807 ]; then
	exit 0
fi
real=$drop_in
for place in lib lib64; do
	if [ -e "$prefix/$place/libnccl.so" ] &&
		[ -e "$prefix/$place/libcudart.so" ]; then
		real=$prefix/$place
	fi
done
build -isystem "$prefix/include" -L"$real"
both "with the real headers"
build -isystem "$prefix/include" -L"$real" -DCUDA_API_PER_THREAD_DEFAULT_STREAM
try "with a default stream per thread" --strict

# A statically linked runtime exports nothing to programs that look up functions.
if [ -e "$real/libcudart_static.a" ] && [ -e "$drop_in/libcohort-static.so" ] &&
	! grep -q '<cuda.h>\|RTLD_DEFAULT' "$source"; then
	runtime='-l:libcudart_static.a -lrt'
	build -isystem "$prefix/include" -L"$real"
	both "with a runtime that is linked in"
fi
