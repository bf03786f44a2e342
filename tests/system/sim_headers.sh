#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the headers that make install provides for programs of the simulator: they agree with
# the project's own, which tests/system/abi compares with NVIDIA's; every program in
# programs/ compiles with them; and one C and one C++ program run.
#
#	sim_headers.sh OUT

set -eu

out=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! command -v python3 >/dev/null; then
	echo "the headers are made by a script of Python, and python3 is not installed"
	exit 77
fi
scripts/sim_headers.py "$scratch/include"
if grep -n '#include "\|X(' "$scratch"/include/*; then
	echo "this is the project's own"
	exit 1
fi

# shellcheck disable=SC2086 # compilers with options
{
	c=${CC:-cc}
	cxx=${CXX:-c++}
	strict="-Wall -Wextra -Wpedantic -Werror"
	headers="-isystem $scratch/include"

	# Compare constants, sizes, offsets and signatures.
	tests/system/abi/declared.sh src/platform/*_abi.h >"$scratch/declared.h"
	facts="$c -std=gnu11 -DABI_NO_DRIVER -Isrc -I$scratch -c tests/system/abi/facts.c"
	$facts -DABI_OURS -o "$scratch/ours.o"
	$facts -DABI_REAL $headers -o "$scratch/installed.o"
	$c -std=gnu11 tests/system/abi/main.c "$scratch/ours.o" "$scratch/installed.o" \
		-o "$scratch/abi"
	"$scratch/abi"

	# Compile each header alone, and with the other forms of functions.
	for header in "$scratch"/include/*.h; do
		for form in -DNOTHING -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
			$c -std=c11 $strict $form -I"$scratch/include" -fsyntax-only \
				-x c "$header"
			! command -v ${cxx%% *} >/dev/null ||
				$cxx -std=c++11 $strict $form -I"$scratch/include" \
					-fsyntax-only -x c++ "$header"
		done
	done

	for program in tests/system/programs/*.c; do
		! grep -q '<cuda.h>\|driver.h\|"sim/\|<dlfcn.h>' "$program" || continue
		$c -std=gnu11 -Wall -Wextra -Werror $headers -fsyntax-only "$program"
	done

	libraries="-L$out/lib/drop-in -lnccl -lcudart -pthread"
	$c -std=gnu11 tests/system/programs/threads.c $headers $libraries \
		-o "$scratch/program"
	"$out/cohort" run -n 4 --strict -- "$scratch/program" | grep -x OK
	if command -v ${cxx%% *} >/dev/null; then
		for form in -DNOTHING -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
			$cxx -std=c++17 $form tests/system/programs/defaults.cc $headers \
				$libraries -o "$scratch/program"
			"$out/cohort" run -n 2 --strict -- "$scratch/program" | grep -x OK
		done
	else
		echo "[SKIP] C++ programs: $cxx is not installed"
	fi
}
