#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check what the compiler of a release build does not.  $1 is the directory with the
# built libraries, $2 a prefix with the real NCCL and CUDA, if there is one; CC and FLAGS
# are what the Makefile compiles with, SOURCES what it compiles, OBJECTS the folder of
# the objects of a debug build.  Prints one line per check; a check whose tool is not
# installed is skipped, and says so.

# Functions are called by check().
# shellcheck disable=SC2016,SC2317

set -u

lib=${1:-build/lib}
real=${2:-}
: "${CC:=cc}"
: "${FLAGS:=-std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -Wall -Wextra}"
read -ra flags <<<"$FLAGS"
read -ra compiler <<<"$CC"
failed=0

# All files that are committed, or could be.
if git rev-parse --git-dir >/dev/null 2>&1; then
	mapfile -t files < <(git ls-files -co --exclude-standard --deduplicate |
		while read -r file; do [ -f "$file" ] && echo "$file"; done)
else
	mapfile -t files < <(find . -path ./build -prune -o -type f -print |
		sed 's|^\./||' | sort)
fi

# pick PATTERN - those files whose path matches
pick() {
	printf '%s\n' "${files[@]}" | grep -E "$1"
}

# check NAME FUNCTION - the function prints what is wrong; it returns 77 if it is skipped
check() {
	local output rc

	output=$($2 2>&1)
	rc=$?
	if [ $rc -eq 77 ]; then
		echo "skip  $1: $output"
	elif [ $rc -ne 0 ] || [ -n "$output" ]; then
		echo "FAIL  $1"
		printf '%s\n' "$output" | head -n 100 | sed 's/^/    /'
		failed=1
	else
		echo "ok    $1"
	fi
}

# need COMMAND - false, with the reason to skip the check, if it is not installed
need() {
	command -v "$1" >/dev/null && return 0
	echo "$1 is not installed"
	return 1
}

layout() {
	need clang-format || return 77
	pick '^(include|src|tests|bench|examples)/.*\.([ch]|cc|hpp)$' |
		xargs clang-format --dry-run 2>&1 |
		sed -n 's/^\([^ :]*\):[0-9].* warning: .*/\1: run clang-format -i/p' |
		sort -u
}

spaces() {
	pick '' | grep -v '^LICENSE$' | xargs grep -nIE '[[:blank:]]+$'
	return 0
}

# The variables that programs read must be those that environment.c knows.
variables() {
	local read known

	read=$(pick '^(src|tests)/.*\.[ch]$' |
		xargs grep -hoE 'getenv\("COHORT_[A-Z0-9_]*"' |
		grep -oE 'COHORT_[A-Z0-9_]*'
		pick '^scripts/.*\.sh$' | xargs grep -hoE '\$\{?COHORT_[A-Z0-9_]*' |
			grep -oE 'COHORT_[A-Z0-9_]*'
		pick '\.py$' | xargs grep -hoE \
			'(environ(\.get)?[[(]|getenv\()"COHORT_[A-Z0-9_]*"' |
			grep -oE 'COHORT_[A-Z0-9_]*'
		pick '\.rs$' | xargs grep -hoE 'var_os\("COHORT_[A-Z0-9_]*"' |
			grep -oE 'COHORT_[A-Z0-9_]*')
	known=$(grep -v getenv src/base/environment.c |
		grep -oE '"COHORT_[A-Z0-9_]+"' | tr -d '"')
	diff <(sort -u <<<"$read") <(sort <<<"$known") |
		sed -n 's/^[<>] \(.*\)/\1: read, or known to environment.c, not both/p'
}

licences() {
	local file

	for file in $(pick '(\.([chS]|cc|hpp|sh|py|rs|toml|map|in|mk)|Makefile|/run)$'); do
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
			echo "$file: no SPDX line"
	done
}

# No file may name a folder of the machine that it was written on.
places() {
	pick '' | xargs grep -nIE '(^|[^[:alnum:]_.~-])[/](work|home|root)/'
	return 0
}

# The rest of the library asks for a platform's properties, not for its name.
platforms() {
	# names.c names all constants.
	pick '^src/(api|base|core|dump|processes|reducer|watch)/.*\.[ch]$' | grep -vx src/api/names.c |
		xargs grep -En 'COHORT_PLATFORM_(HOST|GPU)|"(platform/gpu|sim)/'
	pick '^src/platform/.*\.[ch]$' | xargs grep -En '"sim/'
	pick '^src/sim/exec/.*\.[ch]$' |
		xargs grep -En '\bcuda[A-Z]\w+|cuda_abi|"sim/(cuda|nccl|driver)/'
	return 0
}

# Each known version of NVIDIA's NCCL has a table, and a wheel that deps-nvidia.sh
# brings.
versions() {
	local known

	known=$(sed -nE 's/^\s*X\([0-9]+, ([0-9]+), ([0-9]+), ([0-9]+)\).*/\1.\2.\3/p' \
		src/sim/nvidia/kernel/nccl_version.h)
	diff <(echo "$known") <(sed -n 's/^\([0-9.]*\) sha256:.*/\1/p' scripts/nccl.txt) |
		sed -n 's/^[<>] \(.*\)/\1: in nccl_version.h or nccl.txt, not both/p'
	diff <(echo "$known") <(sed -nE 's/^\s*VERSION\((.*), (.*), (.*)\),/\1.\2.\3/p' \
		src/sim/nvidia/kernel/nccl_version.c) |
		sed -n 's/^[<>] \(.*\)/\1: in nccl_version.h or with a table, not both/p'
}

# The first #ifndef must be followed by its #define; no two headers share a guard.
guards() {
	local file guard twice

	for file in $(pick '\.h(pp)?$'); do
		guard=$(awk '/^#ifndef/ { print $2; exit }' "$file")
		grep -A 1 "^#ifndef $guard\$" "$file" |
			grep -q "^#define $guard\$" || echo "$file: no guard"
	done
	twice='FNR == 1 { first = 1 }
		first && /^#ifndef/ {
			first = 0
			if (seen[$2]++)
				print FILENAME ": " $2 " is used elsewhere too"
		}'
	pick '\.h(pp)?$' | xargs awk "$twice"
}

# with_criterion - 0 if files that use it can be compiled
with_criterion() {
	echo '#include <criterion/criterion.h>' |
		$CC -x c -fsyntax-only - 2>/dev/null
}

# c_files PATTERN - the files that can be compiled without special options
c_files() {
	local without='^tests/system/(abi/|programs/|differ/|include/|[^/]*$)|^src/sim/include/'

	without="$without|^bench/((average_)?peer\.c|hang/mpi\.c)$"

	with_criterion || without="$without|^tests/(unit|api|sim)/"
	pick "$1" | grep -vE "$without"
}

# compile COMMAND... - check files, some at a time on each core; what is wrong names them
compile() {
	xargs -P "$(nproc)" -n 8 "$@" "${flags[@]}" -Itests -Werror -fsyntax-only
	return 0
}

headers() {
	c_files '\.h$' | compile "${compiler[@]}" -Wno-unused-function -x c
}

warnings() {
	c_files '\.c$' | compile "${compiler[@]}"
}

clang_warnings() {
	need clang || return 77
	c_files '\.c$' | compile clang -Wthread-safety
}

shell() {
	need shellcheck || return 77
	pick '(\.sh|^\.ci/run)$' | xargs shellcheck -x
}

types() {
	need mypy || return 77
	mypy --strict --no-error-summary --cache-dir /dev/null bindings/python/cohort \
		bindings/python/generate.py bindings/python/cohort_wheel.py
}

# A folder that is in no source list of mk/ would be left out silently.
listed() {
	local file

	[ -n "${SOURCES:-}" ] || { echo "make lint sets SOURCES" && return 77; }
	for file in $(pick '^(src|tests|bench)/.*\.[cS]$' |
		grep -vE '^tests/system/(abi/|programs/|differ/|include/|[^/]*$)' |
		grep -vE '^bench/((average_)?peer\.c$|hang/)'); do
		[[ " $SOURCES " = *" $file "* ]] || echo "$file: in no source list of mk/"
	done
}

# A place that the list lacks would not be tried on NVIDIA's NCCL.
places() {
	local command=${lib%/*}/cohort

	[ -x "$command" ] || { echo "$command is not built" && return 77; }
	diff <("$command" drill --list | cut -c 1-10 | sed 's/ *$//; y/ /-/' | sort -u) \
		<(scripts/matrix.sh @places | sort)
}

symbols() {
	local output

	output=$(tests/system/symbols.sh "$lib" "$real" 2>&1) || echo "$output"
}

# Objects of a build without link-time optimisation show which source calls which.
circles() {
	need python3 || return 77
	[ -n "${OBJECTS:-}" ] || { echo "make lint sets OBJECTS" && return 77; }
	scripts/circles.py "$OBJECTS"
}

level() {
	local map header

	map=$(sed -n 's/^COHORT_\([0-9.]*\) {$/\1/p' src/cohort.map | tail -n 1)
	header=$(awk '$2 == "COHORT_VERSION_MAJOR" { major = $3 }
		$2 == "COHORT_VERSION_MINOR" { print major "." $3 }' \
		include/cohort/version.h)
	[ "$map" = "$header" ] ||
		echo "src/cohort.map ends with $map, version.h says $header"
}

# Links, anchors, tables, and the names in the pages.
pages() {
	need python3 || return 77
	scripts/check-docs.py
}

# The pages that scripts/manual.py makes of the headers and the command.
manual() {
	local command=${lib%/*}/cohort scratch

	need mandoc || return 77
	need python3 || return 77
	[ -x "$command" ] || { echo "$command is not built" && return 77; }
	scratch=$(mktemp -d)
	scripts/manual.py "$command" "$scratch"
	(cd "$scratch" && find . -type f -exec mandoc -T lint -W warning {} +)
	rm -r "$scratch"
}

check "clang-format" layout
check "no space at the end of a line" spaces
check "environment variables are known" variables
check "licence lines" licences
check "no paths of a machine" places
check "only src/platform asks which platform it is, none knows sim, exec no CUDA" platforms
check "versions of NCCL have tables and wheels" versions
check "include guards" guards
check "headers stand alone" headers
check "no warnings" warnings
check "no warnings of clang, thread annotations" clang_warnings
check "shellcheck" shell
check "types of the Python package" types
check "Markdown" pages
check "manual pages" manual
check "every source is in a list of mk/" listed
check "all places of the drill are in tests/matrix.txt" places
check "no circles of calls between folders, none of five sources" circles
check "exported symbols are the declared ones" symbols
check "version of the symbol map" level
exit $failed
