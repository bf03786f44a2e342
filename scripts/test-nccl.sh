#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run the tests with NVIDIA's own NCCL on the simulator's devices (cohort run --nccl auto):
# in one mode all of them, and in the others those that the mode can change.
#
#	scripts/test-nccl.sh OUT TESTS [MODE]...
#
# OUT has the command and its libraries, TESTS the programs of tests/.  MODEs are those
# below; all if none is named.  What needs a suite that was not built is left out, and
# named.  Tests that NVIDIA's NCCL cannot pass are skipped and say why.
#
#	connected   ranks are connected when they open (NCCL_RUNTIME_CONNECT=0 and
#	            COHORT_CONNECT=all): all tests
#	default     the library connects them for collectives; NCCL chooses between rings and
#	            trees, the protocol, and up to four channels; and memory functions wait
#	            for all devices
#	lazy        nobody does: NCCL connects as it is called (COHORT_CONNECT=none)
#	shm         through shared memory (NCCL_P2P_DISABLE=1)
#	sockets     through sockets (NCCL_SHM_DISABLE=1, too)
#	cudamalloc  without virtual memory (NCCL_CUMEM_ENABLE=0)
#	processes   ranks in several processes
#	scenes      what NVIDIA's NCCL and the simulator's own do in many small scenes, and
#	            random calls, aborts and ends of several communicators at once
#
# TEST_PLATFORM: which tests of the platform suite hold; all if unset.
# TEST_JOBS: programs at a time, 6 if unset, because they wait for NCCL most of the time.
# TEST_TIMEOUT: as for run-tests.sh.
#
# A line "MODE: N passed, N failed, N skipped" ends each mode.  The last line adds them
# up, "N passed, N failed, N skipped"; the exit status is 1 if anything failed, and 77
# with one line if there is no NCCL of a known version.

set -u

out=$1
tests=$2
shift 2
cohort=$out/cohort
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
export TEST_JOBS=${TEST_JOBS:-6} TEST_NCCL=nvidia
unset COHORT_FAULTS COHORT_HOST_STRICT

# AddressSanitizer's dlopen() does not look where the loader's RUNPATH says.  What NCCL's own
# functions allocate and leak is NCCL's.
sanitize=
if [[ $out == */asan ]]; then
	sanitize=-fsanitize=address
	LD_LIBRARY_PATH=$PWD/$out/lib/drop-in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	printf 'leak:%s\n' __cudaRegisterFatBinary ncclCallocDebug commAlloc \
		>"$scratch/leaks"
	export LD_LIBRARY_PATH
	export LSAN_OPTIONS="suppressions=$scratch/leaks:print_suppressions=0"
fi

# Any other reason is a failure.
absent='there is no libnccl.so.2\|on x86-64 alone\|is not known to the simulator'
if ! "$cohort" run --nccl auto -- "$cohort" info >"$log" 2>&1 ||
	! grep -q "NVIDIA's NCCL on Cohort's drop-in libraries" "$log"; then
	grep -m 1 "$absent" "$log" && exit 77
	cat "$log"
	exit 1
fi
grep -m 1 'libnccl' "$log"

# The variables of the mode, and its commands.
connected='NCCL_RUNTIME_CONNECT=0 COHORT_CONNECT=all'
variables=
commands=()

# program WORD... - a program on eight devices
program() {
	commands+=("env TEST_PAIR=1 $variables $cohort run -n 8 --nccl auto -- $*")
}

# suite NAME PATTERN... - a suite that is built, one program for each pattern of its tests
suite() {
	local pattern path=$tests/$1/$1

	shift
	if [ ! -x "$path" ]; then
		echo "left out: $path, which needs Criterion"
		return
	fi
	for pattern; do
		program "$path --jobs=1 --verbose --filter $pattern"
	done
}

# programs RING NAME... - programs of tests/RING, those of stress for some seconds
programs() {
	local ring=$1 name much=

	shift
	[ "$ring" != stress ] || much=' 3'
	for name; do
		program "$tests/$ring/$name$much"
	done
}

# processes RANKS... - a program whose ranks are processes
processes() {
	local ranks

	for ranks; do
		program "$scratch/processes $ranks"
	done
}

# What a transport may change.
some=('@(abort|batch|list)/*' '@(p2p|respawn|split)/*')

# use_mode MODE - its variables and commands; false if there is no such mode
use_mode() {
	commands=()
	case $1 in
	connected)
		variables="$connected"
		# An abort takes half a second, and a split as long.
		program "$cohort drill --platform gpu --deadline 2000 --slack 1000"
		suite api 'st*/*' 's[!t]*/*' 'g*/*' '[h-o]*/*' '@(re[!d]|r[!e])*/*' '[a-c]*/*' \
			'[t-z]*/*' '[d-f]*/*' '@(p|q|red)*/*'
		suite platform "${TEST_PLATFORM:-*/*}"
		program "$cohort demo --ranks 4"
		programs gpu init lost pair
		programs stress abort generations respawn joins memory
		;;
	default)
		# The command sets what is not set, not even to nothing, for one ring.
		variables='NCCL_ALGO=Ring,Tree NCCL_PROTO= NCCL_P2P_LL_THRESHOLD= NCCL_MAX_NCHANNELS=4 COHORT_HOST_SYNC=device'
		suite api 'split/*' '@(differential|p2p)/*' '@(abort|collective|respawn)/*' \
			'@(agree|batch*|list*|register|together|window)/*'
		program "$cohort drill --platform gpu --ranks 4 --deadline 2000 --slack 1000 --only call"
		program "$cohort demo --ranks 4"
		programs stress abort generations respawn joins memory
		;;
	lazy)
		variables='COHORT_CONNECT=none'
		program "$cohort demo --ranks 4"
		programs stress abort respawn
		;;
	scenes)
		if [ -n "$sanitize" ]; then
			echo "left out: its programs are built without AddressSanitizer"
			return
		fi
		commands+=("python3 tests/foreign/differ.py $out"
			"python3 tests/foreign/differ.py $out --mix 20")
		;;
	processes)
		variables=
		processes 2 4
		program "$cohort demo --processes 2 --kill 1@50"
		program "$cohort drill --platform gpu --processes 2 --deadline 1000 --slack 1000 --only call/process-killed --only call/missing-rank --only call/different-count"
		programs gpu processes
		variables='NCCL_CUMEM_ENABLE=0'
		program "$cohort demo --processes 2 --kill 1@50"
		variables='NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1'
		processes 2 4
		program "$cohort demo --processes 2 --kill 1@50"
		;;
	shm)
		variables="$connected NCCL_P2P_DISABLE=1"
		suite api "${some[@]}"
		programs stress abort generations respawn
		;;
	sockets)
		variables="$connected NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"
		suite api "${some[@]}"
		programs stress abort respawn
		;;
	cudamalloc)
		variables="$connected NCCL_CUMEM_ENABLE=0"
		suite api "${some[@]}"
		programs stress abort respawn
		;;
	*) return 1 ;;
	esac
}

passed=0 failed=0 skipped=0

# add_up MODE - the counts of what run-tests.sh has written to $log
add_up() {
	local p f s

	read -r p f s < <(sed -nE \
		'$s/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' \
		"$log"; echo 0 1 0)
	echo "$1: $p passed, $f failed, $s skipped"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Linked against the drop-in libraries, as any program of NCCL.
if [[ " ${modes[*]} " == *" processes "* ]] &&
	! ${CC:-cc} -std=gnu11 -O1 $sanitize -Isrc -Isrc/sim/include \
		tests/foreign/programs/processes.c -o "$scratch/processes" \
		-L"$out/lib/drop-in" -lnccl -lcudart -pthread; then
	exit 1
fi

for mode in "${modes[@]}"; do
	echo "== $mode"
	if ! use_mode "$mode"; then
		echo "test-nccl: there is no mode $mode"
		exit 1
	fi
	scripts/run-tests.sh "${commands[@]}" >"$log" 2>&1 &
	wait $!
	sed '$d' "$log"
	add_up "$mode"
	sweep
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
