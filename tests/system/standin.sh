#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test what the drop-in libraries in $1/drop-in report about what they cannot do, and that
# they work together with libcohort in $1, by tests/system/standin.c; also under the command
# $2.

set -eu

lib=$1
cohort=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -Isrc -Iinclude \
	-Itests/system -Isrc/sim/include tests/system/standin.c \
	-o "$scratch/standin" -L"$lib" -L"$lib/drop-in" -lcohort -lnccl -lcudart \
	-pthread -ldl

# expect CASE [VARIABLE=VALUE...] - run a case, which must succeed and print the input on
# stderr
expect() {
	local name=$1
	shift

	if ! env LD_LIBRARY_PATH="$lib/drop-in:$lib" "$@" timeout 300 \
		"${by[@]}" "$scratch/standin" "$name" >"$scratch/out" 2>"$scratch/err" ||
		[ "$(cat "$scratch/out")" != OK ] ||
		! diff - "$scratch/err"; then
		echo "$name $*:"
		cat "$scratch/out" "$scratch/err"
		failed=1
	fi
}

by=()
unset COHORT_PLATFORM COHORT_GPU_LIBRARIES
unset COHORT_HOST_DEVICES COHORT_HOST_STRICT COHORT_HOST_SYNC COHORT_FAULTS
expect kernels <<END
cohort: _Z5scalePf: the host platform cannot run kernels
cohort: a kernel: the host platform cannot run kernels
END
expect absent <<END
cohort: cudaCreateTextureObject: the host platform has no such function
cohort: ncclCommGrow: the host platform has no such function
cohort: ncclTeamWorld: the host platform has no such function
END
expect refused COHORT_HOST_DEVICES=4x <<END
cohort: cannot open the host platform: COHORT_HOST_DEVICES is "4x", not a number
END
expect refused COHORT_HOST_DEVICES=0 <<END
cohort: cannot open the host platform: COHORT_HOST_DEVICES is 0, not 1 to 1024
END
expect refused COHORT_FAULTS=1@nonsense <<END
cohort: cannot open the host platform: COHORT_FAULTS: "1@nonsense" is not RANK@OPERATION:KIND, such as 2@5:delay=50ms
END
expect forks </dev/null
expect majors </dev/null
expect properties </dev/null
expect front </dev/null
expect beside COHORT_HOST_DEVICES=5 </dev/null
by=("$cohort" run -n 2 --strict --)
expect together LD_LIBRARY_PATH="$lib" </dev/null
expect together LD_LIBRARY_PATH="$lib" COHORT_PLATFORM= \
	COHORT_GPU_LIBRARIES="$scratch" </dev/null
expect apart LD_LIBRARY_PATH="$lib" COHORT_PLATFORM=host </dev/null
exit "$failed"
