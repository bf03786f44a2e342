#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check the symbols of the libraries in directory $1.
#
# - libcohort must export exactly the functions that the headers declare; src/cohort.map and
#   bindings/cohort_abi.json must list the same functions.  If clang is installed, everything
#   else in bindings/cohort_abi.json must match the headers too.
# - The drop-in libraries must export the functions in their lists.  The drop-in libraries for
#   CUDA must export what CUDA's libraries export; if prefix $2 has the real libraries, those
#   are compared as well.

set -eu

lib=$1
real=${2:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C

# The word before the first parenthesis after each COHORT_API.
cat include/cohort/*.h | tr '\n\t' '  ' |
	grep -o 'COHORT_API [^(;]*(' | grep -o 'cohort_[a-z_0-9]*($' | tr -d '(' |
	sort -u >"$scratch/headers"
sed -n 's/^[[:space:]]*\(cohort_[a-z_0-9]*\);$/\1/p' src/cohort.map |
	sort >"$scratch/map"
# Names of versions are absolute symbols (A), not functions.
nm -D --defined-only "$lib/libcohort.so" | awk '$2 != "A" { print $3 }' |
	sed 's/@.*//' | sort >"$scratch/shared"
nm -g --defined-only "$lib/libcohort.a" | awk 'NF == 3 { print $3 }' |
	sort >"$scratch/archive"
sed -n '/^"functions"/,$ s/^ {"name": "\(cohort_[a-z_0-9]*\)".*/\1/p' \
	bindings/cohort_abi.json | sort >"$scratch/abi"

# same LABEL WANTED GOT - compare two sorted lists
same() {
	diff -U0 --label "$1" --label exported "$2" "$3" || differ=1
}

differ=0
for other in map shared archive abi; do
	diff -U0 --label headers --label "$other" \
		"$scratch/headers" "$scratch/$other" || differ=1
done
[ -s "$scratch/headers" ] || differ=1
rc=0
if command -v python3 >/dev/null; then
	scripts/abi.py --check || rc=$?
	[ $rc -eq 0 ] || [ $rc -eq 77 ] || differ=1
fi

# names TEXT - print the names in TEXT after preprocessing, as a sorted list
names() {
	printf '%s\n' '#include "platform/functions.h"' \
		'#include "sim/nccl_exports.h"' \
		'@' \
		'#define LISTED(since, result, name, parameters, arguments) name' "$1" |
		${CC:-cc} -E -P -Isrc -Iinclude -x c - | sed '1,/^@/d' |
		tr -s '[:space:]' '\n' | grep . | sort -u
}

# exports LIBRARY - print its functions, without the names of versions
exports() {
	nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort
}

drop_in=$lib/drop-in
exports "$drop_in/libcohort-host.so" >"$scratch/host"
printf '%s\n' cohort_host_calls cohort_host_knobs cohort_host_may_use \
	cohort_host_set_launcher |
	same "the host's functions" - "$scratch/host"

names 'NCCL_EXPORTS(LISTED)' >"$scratch/listed"
sed 'p; s/^/p/' "$scratch/listed" | sort - <(echo cohort_drop_in) >"$scratch/nccl"
exports "$drop_in/libnccl.so.2" >"$scratch/got"
same "NCCL's functions" "$scratch/nccl" "$scratch/got"

exports "$lib/watch/libnccl.so.2" | comm -23 - "$scratch/listed" |
	same "functions of cohort watch that NCCL lacks" /dev/null -
exports "$lib/watch/libcohort-audit.so" | same "the loader's hook" - <(printf '%s\n' la_objsearch \
	la_version)

exports "$drop_in/libnvidia-ml.so.1" | grep -v '^nvml[A-Z]' |
	same "functions that are not NVML's" <(echo cohort_drop_in) -

# cuda LIBRARY REAL SUM - check that the sorted names that LIBRARY exports have the cksum SUM and,
# if CUDA's library REAL exists, equal the names that it exports.  Each name is in a list of
# functions or in a list of absent functions; the linker refuses a name that is in both.
cuda() {
	exports "$drop_in/$1" | grep -vx cohort_drop_in >"$scratch/got"
	if [ "$(cksum <"$scratch/got")" != "$3" ]; then
		echo "$1 exports $(wc -l <"$scratch/got") names with cksum" \
			"'$(cksum <"$scratch/got")', not '$3' as CUDA's does:"
		tr '\n' ' ' <"$scratch/got"
		differ=1
	fi
	[ ! -e "$2" ] || exports "$2" | same "the real $1" - "$scratch/got"
}
cuda libcuda.so.1 "$real/lib/stubs/libcuda.so" '1794709882 14160'
cuda libcudart.so.13 "$real/lib/libcudart.so.13" '2337893388 10705'
cuda libcudart.so.12 "$real/lib/libcudart.so.12" '715888009 11559'
if [ -e "$real/lib/libnccl.so.2" ]; then
	exports "$real/lib/libnccl.so.2" >"$scratch/real"
	names 'NCCL_FUNCTIONS(LISTED)' | comm -23 - "$scratch/real" |
		same "functions that NCCL lacks" /dev/null -
	comm -13 "$scratch/nccl" "$scratch/real" |
		same "functions of NCCL that libnccl.so.2 lacks" /dev/null -
fi
echo "$(wc -l <"$scratch/headers") functions"
exit $differ
