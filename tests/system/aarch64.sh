#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check that the command refuses NVIDIA's NCCL on AArch64, and says why.
#
#	aarch64.sh OUT

set -u

out=$1
unset "${!COHORT_@}"

said=$("$out/cohort" run --nccl auto -- true 2>&1)
status=$?
if [ $status != 1 ] || [ "$said" != "cohort run: --nccl works on x86-64 only" ]; then
	echo "exit $status: $said"
	exit 1
fi
