#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run the tests with NVIDIA's own NCCL on the simulator's devices (cohort run --nccl auto): all
# tests in one mode, and in each other mode the tests that the mode can affect.
#
#	scripts/test-nccl.sh [MODE]...
#
# MODE is one of the modes below, whose commands are in tests/matrix.txt; the default is all modes.
# Tests that NVIDIA's NCCL cannot pass are skipped with a reason.  The environment is that of
# scripts/matrix.sh.
#
#	connected   ranks are connected when they open (NCCL_RUNTIME_CONNECT=0 and
#	            COHORT_CONNECT=all): all tests
#	default     the library connects ranks for collectives; NCCL chooses between rings and
#	            trees, the protocol, and up to four channels; memory functions wait for all
#	            devices
#	lazy        NCCL's calls connect ranks (COHORT_CONNECT=none)
#	shm         through shared memory (NCCL_P2P_DISABLE=1)
#	sockets     through sockets (NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1)
#	cudamalloc  without virtual memory (NCCL_CUMEM_ENABLE=0)
#	processes   ranks in several processes
#	scenes      many small scenes on NVIDIA's NCCL and the simulator's own, and random
#	            calls, aborts and ends of several communicators at the same time
#
# TEST_JOBS is the number of programs at a time; default 8, because they mostly wait for
# NCCL.  TEST_TIMEOUT is as for run-tests.sh.
#
# A line "MODE: N passed, N failed, N skipped" ends each mode.  The last line adds these up.  The
# exit status is 1 if a test failed, and 77 with one line if there is no supported NCCL.

set -u

: "${OUT:=build}"
cohort=$OUT/cohort
scratch=$(mktemp -d)
log=$scratch/log
begin=$scratch/begin
: >"$begin"

sweep() {
	scripts/sweep-nccl.sh "$begin"
}

trap 'kill $(jobs -p) 2>/dev/null; sweep; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

modes=("$@")
[ $# -gt 0 ] || modes=(connected default lazy shm sockets cudamalloc processes scenes)
export TEST_JOBS=${TEST_JOBS:-8} TEST_NCCL=nvidia
unset COHORT_FAULTS COHORT_HOST_STRICT

# AddressSanitizer's dlopen() ignores the RUNPATH, so set the path.  Ignore memory that
# NCCL's own functions allocate and leak.
sanitize=
if [[ $OUT == */asan ]]; then
	sanitize=-fsanitize=address
	LD_LIBRARY_PATH=$PWD/$OUT/lib/drop-in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	printf 'leak:%s\n' __cudaRegisterFatBinary ncclCallocDebug commAlloc \
		>"$scratch/leaks"
	export LD_LIBRARY_PATH
	export LSAN_OPTIONS="suppressions=$scratch/leaks:print_suppressions=0"
fi

# If NCCL is missing for one of these reasons, skip the tests; any other reason is a failure.
absent='no libnccl.so.2\|works on x86-64 only\|is not supported by the simulator'
if ! "$cohort" run --nccl auto -- "$cohort" info >"$log" 2>&1 ||
	! grep -q "NVIDIA's NCCL on Cohort's drop-in libraries" "$log"; then
	grep -m 1 "$absent" "$log" && exit 77
	cat "$log"
	exit 1
fi
grep -m 1 'libnccl' "$log"

passed=0 failed=0 skipped=0

# add_up MODE - print the counts of the output of run-tests.sh in $log
add_up() {
	local p f s

	read -r p f s < <(sed -nE \
		'$s/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' \
		"$log"; echo 0 1 0)
	echo "$1: $p passed, $f failed, $s skipped"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

export PROCESSES=$scratch/processes
# Link the program with the drop-in libraries, like any NCCL program.
if [[ " ${modes[*]} " == *" processes "* ]] &&
	! ${CC:-cc} -std=gnu11 -O1 $sanitize -Isrc -Isrc/sim/include \
		tests/system/programs/processes.c -o "$PROCESSES" \
		-L"$OUT/lib/drop-in" -lnccl -lcudart -pthread; then
	exit 1
fi

for mode in "${modes[@]}"; do
	echo "== $mode"
	if [ "$mode" = scenes ] && [ -n "$sanitize" ]; then
		echo "left out: its programs are built without AddressSanitizer"
		continue
	fi
	scripts/matrix.sh "$mode" >"$scratch/commands" || exit
	scripts/run-tests.sh <"$scratch/commands" >"$log" 2>&1 &
	wait $!
	sed '$d' "$log"
	add_up "$mode"
	sweep
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
