#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Compile each program in examples/ as an outside user would, with the shared library in
# directory $1, run it, and compare its output.

set -euo pipefail

lib=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

skipped=" "
# lacks TOOL EXAMPLE - true, with a message, if TOOL is not installed
lacks() {
	# Use only the first word, because it may be a compiler with options.
	command -v "${1%% *}" >/dev/null && return 1
	echo "[SKIP] $2: $1 is not installed"
	skipped+="$2 "
}

# compiled NAME - compile the example; false if it is skipped
compiled() {
	local name=$1

	local compile=("${CC:-cc}" -std=c11) source=examples/$name.c

	if [ -e "examples/$name.cc" ]; then
		compile=("${CXX:-c++}" -std=c++17)
		source=examples/$name.cc
	fi
	lacks "${compile[0]}" "$source" && return 1
	"${compile[@]}" -Wall -Wextra -Werror -Iinclude -pthread \
		-o "$scratch/$name" "$source" -L"$lib" -lcohort -lm
}

# prints NAME - compare the example's output with the input, in any order of lines
prints() {
	local name=$1

	compiled "$name" || return 0
	LD_LIBRARY_PATH=$lib timeout 300 "$scratch/$name" | sort >"$scratch/out" ||
		failed=1
	diff --label wanted --label "examples/$name" -u - "$scratch/out" ||
		failed=1
}

prints overlap <<'END'
layer one: 1.000 2.000 3.000, in 6 buckets
END
prints uneven <<'END'
rank 0: 2 steps of its own, 2 joined, w is 2.1146
rank 1: 3 steps of its own, 1 joined, w is 2.1146
rank 2: 4 steps of its own, 0 joined, w is 2.1146
END
prints accumulate <<'END'
rank 0: w is 0.4688 1.4062 2.3438, 1 skipped
rank 1: w is 0.4688 1.4062 2.3438, 1 skipped
END
prints sharded <<'END'
layer one: 1.037 2.074 3.111
rank 0: momentum of 341 weights, not of 1370; the same weights
rank 1: momentum of 341 weights, not of 1370; the same weights
rank 2: momentum of 341 weights, not of 1370; the same weights
rank 3: momentum of 347 weights, not of 1370; the same weights
END
prints average <<'END'
rank 0: 10.0
rank 1: 10.0
rank 2: 10.0
END
prints host_memory <<'END'
rank 0: mean loss 0.010 of 300
rank 1: mean loss 0.010 of 300
rank 2: mean loss 0.010 of 300
END
prints quiet <<'END'
rank 0: 3
rank 1: 3
rank 2: 3
END
prints group_level <<'END'
rank 0: 6
rank 1: 6
rank 2: 6
END
prints manual <<'END'
generation 2: COHORT_OK
the cause is COHORT_ABORTED, of rank -1
END
prints supervisor <<'END'
generation 2, rank 0, which was 0: 56
generation 2, rank 1, which was 2: 56
lost: rank 1 of generation 1
rank 1, busy in the program: end it
rank 1, busy in the program: wait on
END
prints threads <<'END'
10 sums
aborted: rank 1 is in trouble
rank 0: COHORT_ABORTED
rank 0: COHORT_OK
rank 1: COHORT_OK
rank 1: COHORT_OK
rank 2: COHORT_ABORTED
END

# both FEATURE COMMAND... - start two processes of two devices by COMMAND, twice; in the
# second run the second process is killed
cohort=${lib%/lib}/cohort
both() {
	local on=$1 kills

	shift
	for kills in '' die; do
		# shellcheck disable=SC2016,SC2086 # variables of the inner shell
		COHORT_JOB=$$ COHORT_PROCESSES=2 LD_LIBRARY_PATH=$lib timeout 100 "$@" \
			bash -c 'COHORT_PROCESS=1 "$0" 2 "$@" & COHORT_PROCESS=0 "$0" 2 "$@"' \
			"$scratch/processes" $kills 2>/dev/null
	done >"$scratch/out"
	diff --label wanted --label "examples/processes on $on" -u - "$scratch/out" <<'END' ||
generation 1: 4 ranks, 8 steps, the last average is 1.5
generation 2: 2 ranks, 8 steps, the last average is 0.5
END
		failed=1
}
compiled processes
both 'the host platform' env COHORT_PLATFORM=host
both 'the drop-in libraries' "$cohort" run -n 4 --
if "$cohort" run --nccl auto -- "$cohort" info 2>&1 | grep -q "NVIDIA's NCCL on Cohort"; then
	both "NVIDIA's NCCL" "$cohort" run -n 4 --nccl auto --
else
	echo "[SKIP] examples/processes.c on NVIDIA's NCCL: not installed"
fi
if ! lacks python3 examples/average.py; then
	PYTHONPATH=bindings/python PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$lib \
		timeout 300 python3 examples/average.py >"$scratch/out"
	printf 'rank %s: [0.5, 1.5, 2.5]\n' 0 1 |
		diff --label wanted --label examples/average.py -u - "$scratch/out" ||
		failed=1
fi
for file in examples/*.c examples/*.cc; do
	name=$(basename "$file")
	[ -x "$scratch/${name%.*}" ] || [[ $skipped == *" $file "* ]] || {
		echo "$file is not run"
		failed=1
	}
done
exit $failed
