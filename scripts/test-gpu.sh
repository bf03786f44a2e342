#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the gpu platform of this machine, with the libraries that are installed: the api
# and platform suites, the programs of tests/gpu, and what a call costs beside the bare
# calls (bench/walk).
#
#	scripts/test-gpu.sh COHORT SUITES PROGRAMS WALK
#
# SUITES and PROGRAMS are lists, one argument each; a line names each suite that was not
# built.  WALK is a command, whose table is shown.  COHORT_GPU_LIBRARIES says where the
# libraries are.  Tests that need more devices than the machine has, or that are about
# the host platform, are skipped and named.  The last line and the exit status are those
# of run-tests.sh.  Without a usable GPU the script ends with one line and exit status 1.

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
	echo "test-gpu: $cohort info does not mention a gpu platform"
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
		echo "left out: $suite, which needs Criterion"
	fi
done
# One program after the other: only the process that lost a GPU has lost it.
TEST_JOBS=1 exec scripts/run-tests.sh "${programs[@]}" "${commands[@]}" "$walk"
