#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Compile the first complete C program of README.md against the shared library
# in directory $1, and run it on the host platform.

set -eu

lib=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Each block into a file of its own; the first that has a main() is it.
awk -v base="$scratch/block" '
	/^```c$/ { n++; inside = 1; next }
	/^```/   { inside = 0 }
	inside   { print >(base n ".c") }' README.md
program=$(grep -l 'int main(' "$scratch"/block*.c | head -n 1) || true
if [ -z "$program" ]; then
	echo "README.md has no C program"
	exit 1
fi

# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude "$program" \
	-o "$scratch/program" -L"$lib" -lcohort
COHORT_PLATFORM=host LD_LIBRARY_PATH=$lib "$scratch/program"
