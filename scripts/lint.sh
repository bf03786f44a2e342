#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run all checks that the compiler of a release build does not perform.  $1 is the directory with
# the built libraries, and $2 a prefix with the real NCCL and CUDA, if there is one.  CC and FLAGS
# are the Makefile's compiler and flags, SOURCES its sources, and OBJECTS the directory with the
# objects of a debug build.  Prints one line per check.  A check whose tool is not installed is
# skipped, with a message.

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

# All files that git tracks or does not ignore.
if git rev-parse --git-dir >/dev/null 2>&1; then
	mapfile -t files < <(git ls-files -co --exclude-standard --deduplicate |
		while read -r file; do [ -f "$file" ] && echo "$file"; done)
else
	mapfile -t files < <(find . -path ./build -prune -o -type f -print |
		sed 's|^\./||' | sort)
fi

# pick PATTERN - print the files whose path matches PATTERN
pick() {
	printf '%s\n' "${files[@]}" | grep -E "$1"
}

# check NAME FUNCTION - run a check, which prints problems, or returns 77 if it is skipped
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

# need COMMAND - return false, with the reason for a skip, if COMMAND is not installed
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

# Compare the variables that programs read with the list in environment.c.
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

	for file in $(pick '(\.([chS]|cc|hpp|sh|py|rs|toml|map|in|mk|yml)|Makefile|/run)$'); do
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
			echo "$file: no SPDX line"
	done
}

# No file may contain a path of the machine on which it was written.
paths() {
	pick '' | xargs grep -nIE '(^|[^[:alnum:]_.~-])[/](work|home|root)/'
	return 0
}

# Outside of the platforms, the library must test a platform's properties, not its name.
platforms() {
	# names.c lists all constants.
	pick '^src/(api|base|core|dump|processes|reducer|watch)/.*\.[ch]$' | grep -vx src/api/names.c |
		xargs grep -En 'COHORT_PLATFORM_(HOST|GPU)|"(platform/gpu|sim)/'
	pick '^src/platform/.*\.[ch]$' | xargs grep -En '"sim/'
	pick '^src/sim/exec/.*\.[ch]$' |
		xargs grep -En '\bcuda[A-Z]\w+|cuda_abi|"sim/(cuda|nccl|driver)/'
	return 0
}

# The api suite may include only the public headers and tests/support.
promises() {
	pick '^tests/api/.*\.[ch]$' | xargs grep -n '#include "' | grep -v '"support/'
	return 0
}

# The name of a test has at most 60 characters.
names() {
	pick '^tests/(unit|api|sim)/.*\.c$' |
		xargs grep -noE '^(Parameterized)?Test\(\w+, *\w{61,}'
	return 0
}

# Each known version of NVIDIA's NCCL must have a table, and a wheel that deps-nvidia.sh downloads.
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

# The first #ifndef must be followed by its #define, and no two headers may share a guard.
guards() {
	local file guard twice

	for file in $(pick '\.h(pp)?$'); do
		guard=$(awk '/^#ifndef/ { print $2; exit }' "$file")
		grep -A 1 "^#ifndef $guard\$" "$file" |
			grep -q "^#define $guard\$" || echo "$file: no include guard"
	done
	twice='FNR == 1 { first = 1 }
		first && /^#ifndef/ {
			first = 0
			if (seen[$2]++)
				print FILENAME ": " $2 " is used elsewhere too"
		}'
	pick '\.h(pp)?$' | xargs awk "$twice"
}

# with_criterion - succeed if files that use Criterion can be compiled
with_criterion() {
	echo '#include <criterion/criterion.h>' |
		$CC -x c -fsyntax-only - 2>/dev/null
}

# c_files PATTERN - print the files that can be compiled without special options
c_files() {
	local without='^tests/system/(abi/|programs/|differ/|include/|[^/]*$)|^src/sim/include/'

	without="$without|^bench/((average_)?peer\.c|hang/mpi\.c)$"

	with_criterion || without="$without|^tests/(unit|api|sim)/"
	pick "$1" | grep -vE "$without"
}

# compile COMMAND... - check files on all cores, several per run; print errors with file names
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

# Check the hosting site's files by their schemas, and workflows by actionlint.
hosting() {
	need check-jsonschema || return 77
	schema dependabot .github/dependabot.yml
	schema github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	schema github-workflows .github/workflows/*.yml
}

# schema NAME FILE... - print how files differ from a schema of check-jsonschema
schema() {
	local output

	output=$(check-jsonschema --builtin-schema "vendor.$1" "${@:2}" 2>&1) || echo "$output"
}

workflows() {
	need actionlint || return 77
	actionlint
}

types() {
	need mypy || return 77
	mypy --config-file bindings/python/pyproject.toml --no-error-summary --cache-dir /dev/null bindings/python/cohort \
		bindings/python/generate.py bindings/python/cohort_wheel.py
}

# Each source file must be in a source list of mk/: make ignores folders that are not listed.
listed() {
	local file

	[ -n "${SOURCES:-}" ] || { echo "SOURCES is not set; run make lint" && return 77; }
	for file in $(pick '^(src|tests|bench)/.*\.[cS]$' |
		grep -vE '^tests/system/(abi/|programs/|differ/|include/|[^/]*$)' |
		grep -vE '^bench/((average_)?peer\.c$|hang/)'); do
		[[ " $SOURCES " = *" $file "* ]] || echo "$file: not in a source list of mk/; add it"
	done
}

# Each place of the drill must be in the list of places in tests/matrix.txt.
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

# Objects of a build without link-time optimization show which source calls which.
circles() {
	need python3 || return 77
	[ -n "${OBJECTS:-}" ] || { echo "OBJECTS is not set; run make lint" && return 77; }
	scripts/circles.py "$OBJECTS"
}

same_versions() {
	scripts/release.sh --check
}

# Check links, anchors, tables, and names in the Markdown pages.
pages() {
	need python3 || return 77
	scripts/check-docs.py
}

# Check the pages that scripts/manual.py generates from the headers and the command.
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
check "no paths of a machine" paths
check "only src/platform asks which platform it is, none knows sim, exec no CUDA" platforms
check "tests/api includes no header of src" promises
check "names of tests are short" names
check "versions of NCCL have tables and wheels" versions
check "include guards" guards
check "headers stand alone" headers
check "no warnings" warnings
check "no warnings of clang, thread annotations" clang_warnings
check "shellcheck" shell
check "files for the hosting site" hosting
check "workflows" workflows
check "types of the Python package" types
check "Markdown" pages
check "manual pages" manual
check "every source is in a list of mk/" listed
check "all places of the drill are in tests/matrix.txt" places
check "no circles of calls between folders, none of five sources" circles
check "exported symbols are the declared ones" symbols
check "one version in all places" same_versions
exit $failed
