#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test dumps as a user reads them: of a demo with a rank that stalls, of all kinds of calls,
# and of a process that is killed while it writes.
#
# usage: dump.sh COHORT LIB       exit status 0 passed, 1 failed, 77 skipped

set -eu

cohort=${1:?usage: dump.sh COHORT LIB}
lib=${2:?usage: dump.sh COHORT LIB}
command -v python3 >/dev/null || {
	echo "dump.sh: no python3: skipped"
	exit 77
}
here=tests/system
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export COHORT_PLATFORM=host LD_LIBRARY_PATH=$lib

# A verdict in a program that does not ask for dumps.
COHORT_DUMP_DIR=$scratch/demo "$cohort" demo --json >/dev/null
python3 $here/dump.py "$scratch/demo" 4
grep -q '"stage":"ended"' "$scratch"/demo/fr_demo_g1_*_merged.json

${CC:-cc} -std=c11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude \
	-o "$scratch/dumper" $here/dumper.c -L"$lib" -lcohort
"$scratch/dumper" "$scratch/calls" 4 64 3 >/dev/null
python3 $here/dump.py "$scratch/calls" 4
COHORT_HOST_DEVICES=64 "$scratch/dumper" "$scratch/many" 64 2048 1 >/dev/null
python3 $here/dump.py "$scratch/many" 64
python3 $here/pickles.py "$cohort" "$scratch/calls" \
	"$scratch/pickled"
"$scratch/dumper" "$scratch/few" 4 64 1 10 >/dev/null
python3 $here/pickles.py "$cohort" "$scratch/few" \
	"$scratch/pickled-few"
python3 $here/killed.py "$scratch/dumper" "$scratch/killed" 200
