#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test scripts/test-gpu.sh as far as possible without a GPU: on the drop-in libraries, with
# its programs but without its suites.
#
#	gpu.sh COHORT LIBRARIES WALK PROGRAM...

set -u

cohort=$1
libraries=$2
walk="$3 --gpu --rounds 1"
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

export COHORT_GPU_LIBRARIES=$libraries COHORT_HOST_DEVICES=2 TEST_PAIR=1

# expect STATUS LINE PROGRAMS - check the exit status, and the start of the last line
expect() {
	scripts/test-gpu.sh "$cohort" "" "$3" "$walk" "" >"$scratch/out" 2>&1
	rc=$?
	if [ "$rc" -ne "$1" ] || [[ $(tail -n 1 "$scratch/out") != "$2"* ]]; then
		echo "with $COHORT_GPU_LIBRARIES, $3: exit status $rc, not $1," \
			"or not at last \"$2\":"
		cat "$scratch/out"
		failed=1
	fi
}

# A lost device fails immediately on the simulator's own NCCL, and two devices are too few
# for three processes.
expect 0 "$# passed, 0 failed, 2 skipped" "$*"
grep -q '^ *gpu  *2 ' "$scratch/out" || {
	echo "no line of two ranks of the walk:"
	cat "$scratch/out"
	failed=1
}
if command -v python3 >/dev/null; then
	bench/gpu_call.py --turns 1 "${walk%% *}" >"$scratch/out" 2>&1
	grep -q '^2 ranks  of call and mark' "$scratch/out" || {
		echo "bench/gpu_call.py:"
		cat "$scratch/out"
		failed=1
	}
fi
walk=true expect 1 "1 passed, 1 failed, 0 skipped" false
COHORT_GPU_LIBRARIES=$scratch/none
expect 1 "test-gpu: no GPU to test on: cannot open libcudart.so.13:" true
exit "$failed"
