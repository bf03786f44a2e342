#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What can be tested on the gpu platform of this machine, on the libraries that are
# there: the api and platform suites, programs of their own, and what the walk of a
# call costs beside the bare calls.
#
#	scripts/test-gpu.sh COHORT SUITES PROGRAMS WALK
#
# SUITES and PROGRAMS are lists, one argument each; a suite that was not built is
# said to be left out.  WALK is a command, which is shown with its table.
# COHORT_GPU_LIBRARIES says where the libraries are.  Tests that need more devices
# than there are, or that are about the host platform, are skipped and named.  The
# last line is that of run-tests.sh, and so is the exit status.  Without a GPU that
# can be used this ends with one line and exit status 1.

set -u

cohort=$1
read -ra suites <<<"$2"
read -ra programs <<<"$3"
walk=$4

export COHORT_PLATFORM=gpu TEST_DEVICES=real TEST_SHOW=$walk
export TEST_TIMEOUT=${TEST_TIMEOUT:-1800}
unset COHORT_FAULTS

found=$("$cohort" info | sed -n '/^gpu/,/^host/p' | sed '$d')
case $found in
"")
	echo "test-gpu: $cohort info says nothing of a gpu platform"
	exit 1
	;;
*"not usable"*)
	echo "test-gpu: no GPU to test on: ${found#*not usable: }" | head -n 1
	exit 1
	;;
esac
echo "$found"

commands=()
for suite in "${suites[@]}"; do
	if [ -x "$suite" ]; then
		commands+=("$suite --jobs=1 --verbose")
	else
		echo "left out: $suite, as there is no Criterion"
	fi
done
# One program after the other: a GPU that was lost is lost to its process only.
TEST_JOBS=1 exec scripts/run-tests.sh "${programs[@]}" "${commands[@]}" "$walk"
