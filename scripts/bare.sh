#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test README.md's first commands (clone, make demo, make test) on a machine that has only gcc,
# make and git, with the last commit.  The stack in the demo's verdict must have function names,
# and git status must be clean afterwards.
#
#	scripts/bare.sh SUITE
#
# The machine is a root directory of Debian SUITE (scripts/root.sh).  The last line of the output
# is that of make test.

set -euo pipefail

suite=${1:?usage: bare.sh SUITE}
cd "$(dirname "$0")/.."
# shellcheck source=scripts/root.sh
. scripts/root.sh

make_root "$suite" gcc,libc6-dev,make,git
git clone -q "file://$PWD" "$root/root/cohort"
# shellcheck disable=SC2016 # variables of the inner shell
in_root bash -o pipefail -c 'cd cohort
	rc=0
	make demo | tee ../demo || rc=1
	grep -q "train_worker+0x" ../demo || {
		echo "the stack in the verdict names no function"
		rc=1
	}
	make test 2>&1 | tee ../log || rc=1
	left=$(git status --porcelain)
	if [ -n "$left" ]; then
		echo "git status: $left"
		rc=1
	fi
	grep " passed, .* skipped$" ../log | tail -n 1
	exit $rc'
