#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the libraries in directory $1 export is what the headers declare and
# what src/cohort.map lists, no more and no less.

set -eu

lib=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C

# The word before the first parenthesis after each COHORT_API.
cat include/cohort/*.h | tr '\n\t' '  ' |
	grep -o 'COHORT_API [^(;]*(' | grep -o 'cohort_[a-z_0-9]*($' | tr -d '(' |
	sort -u >"$scratch/headers"
sed -n 's/^[[:space:]]*\(cohort_[a-z_0-9]*\);$/\1/p' src/cohort.map |
	sort >"$scratch/map"
# The names of versions are absolute symbols (A), not functions.
nm -D --defined-only "$lib/libcohort.so" | awk '$2 != "A" { print $3 }' |
	sed 's/@.*//' | sort >"$scratch/shared"
nm -g --defined-only "$lib/libcohort.a" | awk 'NF == 3 { print $3 }' |
	sort >"$scratch/archive"

differ=0
for other in map shared archive; do
	diff -U0 --label headers --label "$other" \
		"$scratch/headers" "$scratch/$other" || differ=1
done
[ -s "$scratch/headers" ] || differ=1
echo "$(wc -l <"$scratch/headers") functions"
exit $differ
