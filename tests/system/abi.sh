#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check that a program compiled with the previous release keeps working.
#
#	tests/system/abi.sh
#	tests/system/abi.sh --write [FILE]    describe the headers of this tree, for a release
#
# tests/system/abi/libcohort.abi.xml is abidw's description of the previous release:
# structures, enumerations, and each function's type and symbol version.  abidiff
# allows additions, including members in reserved words.  Before the first release
# there is no such file; then this only checks that the comparison finds changes.
#
# The headers are compared, not the library: its debugging information lacks the
# enumerations, because arguments are int, and has structures that no program sees.
# tests/system/symbols.sh compares the library's symbols with the headers.

set -eu

reference=tests/system/abi/libcohort.abi.xml
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! command -v abidiff >/dev/null; then
	echo "there is no abidiff (Debian's package abigail-tools)"
	exit 77
fi

# Use all types of the headers, and a pointer to each function, which has its type.
{
	for header in include/cohort/*.h; do
		echo "#include <cohort/${header##*/}>"
	done
	awk '/^COHORT_[0-9.]+ \{$/ { version = $1; gsub(/\./, "_", version) }
		/^\tcohort_[a-z_0-9]+;$/ {
			sub(";", "")
			print "__typeof__(&" $1 ") " version "_" $1 " = &" $1 ";"
		}' src/cohort.map
} >"$scratch/all.c"
# shellcheck disable=SC2086 # compiler with options
${CC:-cc} -g -fno-eliminate-unused-debug-types -ffile-prefix-map="$scratch=." -Iinclude -shared -fPIC \
	"$scratch/all.c" -o "$scratch/all.so"
abidw --load-all-types --headers-dir include --drop-private-types --no-corpus-path \
	--no-comp-dir-path --no-show-locs --no-elf-needed --type-id-style hash \
	--out-file "$scratch/now.abi" "$scratch/all.so"
if [ "${1-}" = --write ]; then
	cp "$scratch/now.abi" "${2-$reference}"
	exit
fi

[ -e "$reference" ] || reference=$scratch/now.abi

# structs FILE - print one line for each structure: its name, its size, and the members
# in front of its reserved words
structs() {
	awk -F "'" '
		/<class-decl name=.cohort_/ && !/is-declaration-only/ {
			line = $2 " " $4
			inside = 1
		}
		/<data-member / { offset = $4 }
		inside && /<var-decl / && $2 != "reserved" {
			line = line " " offset ":" $2 ":" $4
			next
		}
		inside && (/<var-decl / || /<\/class-decl>/) {
			print line
			inside = 0
		}' "$1"
}

# compare REFERENCE - print what has changed since REFERENCE; false if that is not allowed
compare() {
	local name size members now

	# abidiff does not know whether members in reserved words are right, so check that.
	structs "$scratch/now.abi" >"$scratch/now"
	structs "$1" | while read -r name size members; do
		now=$(grep "^$name " "$scratch/now") || continue
		case "$now " in
		"$name $size $members ") ;;
		"$name $size $members "*) printf '[suppress_type]\nname = %s\n' "$name" ;;
		esac
	done >"$scratch/grown"
	abidiff --non-reachable-types --no-added-syms --suppressions "$scratch/grown" \
		"$1" "$scratch/now.abi"
}

if ! compare "$reference"; then
	echo "programs that were compiled with the release before would fail"
	exit 1
fi

# Check that the comparison finds changes.
# after WHAT EXPRESSION - fail unless compare reports a reference changed by sed
after() {
	sed "$2" "$reference" >"$scratch/changed.abi"
	if cmp -s "$reference" "$scratch/changed.abi"; then
		echo "$reference has no $1 to change"
		exit 1
	fi
	! compare "$scratch/changed.abi" >/dev/null
}
for change in "function s/\(COHORT_0_1_cohort_wait\)'/\1s'/" \
	"version s/COHORT_0_1_cohort_wait'/COHORT_0_0_cohort_wait'/" \
	"member /<class-decl name='cohort_cause'/,/name='nccl'/s/bits='96'/bits='160'/" \
	"constant s/name='COHORT_TIMED_OUT' value='/&1/" \
	"size s/\(name='cohort_deadlines' size-in-bits='\)[0-9]*/\164/"; do
	if ! after "${change%% *}" "${change#* }"; then
		echo "abidiff does not see another ${change%% *}"
		exit 1
	fi
done
# A structure that grows into its reserved words.
if after member "/<class-decl name='cohort_deadlines'/,/name='reserved'/ {
	/name='abort_ns'/s/abort_ns/reserved/ }"; then
	echo "a member in reserved words counts as a change"
	exit 1
fi
