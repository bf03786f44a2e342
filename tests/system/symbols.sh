#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The libraries in directory $1 must export what the headers declare and src/cohort.map
# and bindings/cohort_abi.json list, no more and no less; if clang is installed, all of
# that file must be what the headers say.  The drop-in libraries must export the functions
# in their lists, and those for CUDA's libraries what these export, which is also compared
# with the libraries in prefix $2, if it has them.

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
# The names of versions are absolute symbols (A), not functions.
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

# names TEXT - TEXT after the preprocessor, a sorted list of names
names() {
	printf '%s\n' '#include "platform/functions.h"' \
		'#include "sim/dropin/nvml_abi.h"' \
		'@' \
		'#define NVML(name, ...) name' \
		'#define LISTED(since, result, name, parameters, arguments) name' "$1" |
		${CC:-cc} -E -P -Isrc -Iinclude -x c - | sed '1,/^@/d' |
		tr -s '[:space:]' '\n' | grep . | sort -u
}

# exports LIBRARY - its functions, without the names of versions
exports() {
	nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort
}

drop_in=$lib/drop-in
exports "$drop_in/libcohort-host.so" >"$scratch/host"
printf '%s\n' cohort_host_calls cohort_host_knobs cohort_host_may_use \
	cohort_host_set_launcher |
	same "the host's functions" - "$scratch/host"

names 'NCCL_FUNCTIONS(LISTED) ncclResetDebugInit' >"$scratch/listed"
sed 'p; s/^/p/' "$scratch/listed" | sort - <(echo cohort_drop_in) >"$scratch/nccl"
exports "$drop_in/libnccl.so.2" >"$scratch/got"
same "NCCL's functions" "$scratch/nccl" "$scratch/got"

names 'NVML_FUNCTIONS(NVML) NVML_OLDER_NAMES(NVML)' |
	sort - <(printf '%s\n' cohort_drop_in nvmlErrorString) >"$scratch/nvml"
exports "$drop_in/libnvidia-ml.so.1" >"$scratch/got"
same "NVML's functions" "$scratch/nvml" "$scratch/got"

# cuda LIBRARY REAL SUM - LIBRARY exports what CUDA's does: the file REAL, or as cksum says
# of its sorted names.  Each of them is in a list of functions or in one of absent names; the
# linker refuses one that is in both.
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
	grep -vx cohort_drop_in "$scratch/nccl" | comm -23 - "$scratch/real" |
		same "functions that NCCL lacks" /dev/null -
fi
echo "$(wc -l <"$scratch/headers") functions"
exit $differ
