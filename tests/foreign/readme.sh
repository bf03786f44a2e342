#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Do what README.md says: compile its first complete C program against the shared
# library in directory $1 and run it on the host platform, then run the commands
# of its sh blocks, but for those that are about the tests themselves or that measure
# for minutes.  The verdict that it opens with is what the comparison prints, but for
# numbers.

set -eu

lib=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export COHORT_PLATFORM=host

# Each block into a file of its own.
awk -v base="$scratch/block" '
	/^```(c|sh|text)$/ { n++; inside = substr($0, 4); next }
	/^```/        { inside = "" }
	inside        { print >(base n "." inside) }' README.md

program=$(grep -l 'int main(' "$scratch"/block*.c | head -n 1) || true
if [ -z "$program" ]; then
	echo "README.md has no C program"
	exit 1
fi
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude "$program" \
	-o "$scratch/program" -L"$lib" -lcohort
LD_LIBRARY_PATH=$lib "$scratch/program" | sort >"$scratch/out"
for rank in 0 1 2 3 4 5 6 7; do
	echo "rank $rank: 4.5"
done | diff - "$scratch/out"

run=0
while read -r line; do
	command=${line%%#*}
	case $command in
	'' | 'make bench-peers'* | 'make test'* | 'make asan'* | 'make tsan'* | \
		'make fuzz'* | 'make lint'* | 'make model'* | 'make soak'* | \
		'make drill-load'*) continue ;;
	'build/cohort trace'*)
		# It may have been built without what it needs.
		if build/cohort trace /dev/null 2>&1 | grep -q json-c; then
			echo "[SKIP] $command: built without json-c"
			continue
		fi
		;;
	scripts/*.py*)
		if ! command -v python3 >/dev/null; then
			echo "[SKIP] $command: there is no python3"
			continue
		fi
		;;
	'make install'*) command="$command DESTDIR=$scratch/installed" ;;
	'scripts/compare-hang.sh '*) command="${command/.sh/.sh --timeout 3}" ;;
	'build/cohort drill'*) command="${command/drill/drill --slack 5000}" ;;
	esac
	if ! bash -ec "$command" >"$scratch/log" 2>&1 </dev/null; then
		echo "README.md: $command"
		cat "$scratch/log"
		exit 1
	fi
	run=$((run + 1))
	[[ $command != scripts/compare-hang.sh* ]] || cp "$scratch/log" "$scratch/hang"
done < <(cat "$scratch"/block*.sh)
# plain FILE - as one line, without its numbers, and without what not every system
# tells of a thread
plain() {
	tr -s '[:space:]' ' ' <"$1" |
		sed 's/[0-9][0-9.]*/N/g; s/; its thread is.*//; s/ $//'
}
verdict=$(find "$scratch" -name 'block*.text' | sort -V | head -n 1)
if [[ $(plain "$scratch/hang") != *"$(plain "$verdict")"* ]]; then
	echo "README.md opens with"
	cat "$verdict"
	echo "but the comparison says"
	cat "$scratch/hang"
	exit 1
fi

if [ "$run" -lt 6 ]; then
	echo "README.md: only $run commands were found"
	exit 1
fi
echo "the program and $run commands"
