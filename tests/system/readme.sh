#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Try what README.md, CONTRIBUTING.md and the pages in docs/ show, on the host platform, with
# the shared library in directory $1.
#
#  ```c    A block with main() is a program, which is compiled and run.  Any other block
#          is a fragment, which is compiled inside a function that defines the names below.
#  ```sh   Each line is a command, which is run once, even if several pages have it.
#          A command that ends in "# needs WHAT" is skipped and counted, because this
#          machine may lack WHAT.  Commands that are tests themselves, or that measure
#          for minutes, are left out.
#  ```text printed-by: COMMAND
#          Part of the output of COMMAND, which some page must have.  Numbers may differ,
#          and so may what only some systems report about a thread.  A line "..." stands
#          for any number of lines.

set -eu

lib=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export COHORT_PLATFORM=host
pages=(README.md CONTRIBUTING.md docs/*.md)
programs=0 fragments=0 count=0 run=0 printed=0
rm -f build/threads # left by an earlier run

# Write each block to its own file, whose first line says where it is from.
for page in "${pages[@]}"; do
	name=${page//\//.}
	awk -v base="$scratch/block.$name." -v page="$page" '
		!inside && /^```(c|sh|text)( .*)?$/ {
			split(substr($0, 4), words, " ")
			inside = words[1]
			file = sprintf("%s%03d.%s", base, ++n, inside)
			print page ":" NR > file
			if (sub(/^```text printed-by: /, ""))
				print > (file ".by")
			next
		}
		/^```/ { inside = "" }
		inside { print > file }' "$page"
done

fail() {
	echo "$*"
	exit 1
}

# ---- C ------------------------------------------------------------------------

# Names that fragments may use.
cat >"$scratch/names.h" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cohort/cohort.h>
#include <cohort/reducer.h>
#include <cohort/sim.h>
#define SECOND UINT64_C(1000000000)
END
names='struct cohort_comm *comm, struct cohort_group *group, struct cohort_reducer *reducer,
	struct cohort_group_options options, struct cohort_deadlines deadlines,
	struct cohort_cause cause, const struct cohort_verdict *verdict, void *stream,
	void *buffer, void *old, double *losses, size_t n, size_t i, uint64_t ticket, int rc,
	int lost[], int n_lost, struct cohort_unique_id id'

for block in "$scratch"/block.*.c; do
	where=$(head -n 1 "$block")
	sed -i 1d "$block"
	if grep -q 'int main(' "$block"; then
		# shellcheck disable=SC2086 # compiler with options
		${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude "$block" \
			-o "$scratch/program" -L"$lib" -lcohort -pthread
		LD_LIBRARY_PATH=$lib "$scratch/program" >"$scratch/out" ||
			fail "$where: the program has failed"
		programs=$((programs + 1))
		[[ $where != README.md:* ]] || cp "$block" "$scratch/program.c"
		if [[ $where == README.md:* ]]; then
			for rank in 0 1 2 3 4 5 6 7; do
				echo "rank $rank: 4.5"
			done | diff - <(sort "$scratch/out") || exit 1
		fi
	else
		{
			cat "$scratch/names.h"
			echo "int fragment($names);"
			echo "int fragment($names)"
			echo "{"
			cat "$block"
			echo "return rc; }"
		} >"$scratch/fragment.c"
		# shellcheck disable=SC2086
		${CC:-cc} -std=c11 -Wall -Wno-unused -Werror -Iinclude \
			-fsyntax-only "$scratch/fragment.c" ||
			fail "$where: this does not compile"
		fragments=$((fragments + 1))
	fi
done
[ -e "$scratch/program.c" ] || fail "README.md has no C program"

# ---- commands -----------------------------------------------------------------

# Set the flags with which a program is compiled after make install, without installing.
sed -e "s|@includedir@|$PWD/include|" -e "s|@libdir@|$PWD/$lib|" \
	-e 's|@prefix@||; s|@version@|0|; s|@libs@||' src/cohort.pc.in >"$scratch/cohort.pc"
mkdir "$scratch/lib"
ln -s "$PWD/$lib" "$scratch/lib/cohort"
sed -e "s|@includedir@|$scratch/include|" -e "s|@libdir@|$scratch/lib|; s|@version@|0|" \
	src/cohort-simulator.pc.in >"$scratch/cohort-simulator.pc"

declare -A seen
# plain TEXT - print TEXT as one line, without numbers, and without details of threads that only
# some systems report
plain() {
	sed '/^ *where  [^ ]/,/^ *since /{/^ *since /!d}' | tr -s '[:space:]' ' ' |
		sed 's/): asleep in [a-z_]*;/);/
			s/\(thread [0-9]* "[^"]*"\) is [^;(]* since /\1 since /
			s/[0-9][0-9.]*/N/g; s/^ //; s/ $//'
}

# skip WHY - skip this command of this page
skip() {
	echo "[SKIP] $page: $said: $1"
}

for block in "$scratch"/block.*.sh; do
	page=$(head -n 1 "$block")
	page=${page%:*}
	while read -r line; do
		said=${line%%#*}
		said=${said%"${said##*[![:space:]]}"}
		if [ -z "$said" ] || [ -n "${seen[$said]-}" ]; then
			continue
		fi
		count=$((count + 1))
		seen[$said]=$count
		command=$said
		if [[ $line =~ \#\ needs\ (.*) ]]; then
			skip "needs ${BASH_REMATCH[1]}"
			continue
		fi
		case $command in
		'make bench'* | 'make test'* | 'make asan'* | 'make tsan'* | \
			'make aarch64'* | 'make fuzz'* | 'make lint'* | 'make release'* | \
			scripts/drill-load.sh* | bench/peers.py* | \
			'.ci/run'*) continue ;;
		'build/cohort trace'*)
			# The command may have been built without the library that it needs.
			if build/cohort trace /dev/null 2>&1 | grep -q json-c; then
				skip "built without json-c"
				continue
			fi
			;;
		scripts/*.py* | bench/*.py*)
			if ! command -v python3 >/dev/null; then
				skip "python3 is not installed"
				continue
			fi
			;;
		*cohort-simulator*)
			if ! command -v pkg-config >/dev/null || ! command -v python3 >/dev/null; then
				skip "pkg-config or python3 is not installed"
				continue
			fi
			scripts/sim_headers.py "$scratch/include/cohort-simulator"
			command="export PKG_CONFIG_PATH=$scratch
				$command"
			;;
		*pkg-config*)
			if ! command -v pkg-config >/dev/null; then
				skip "pkg-config is not installed"
				continue
			fi
			command="export PKG_CONFIG_PATH=$scratch
				${command//program/"$scratch/program"}"
			;;
		*' build/threads')
			if [ ! -e build/threads ]; then
				skip "build/threads has not been compiled"
				unset "seen[$said]" # a later page may compile it
				continue
			fi
			;;
		'make install'* | 'make uninstall'*)
			command="$command DESTDIR=$scratch/installed"
			;;
		source*)
			if ! command -v python3 >/dev/null; then
				skip "python3 is not installed"
				continue
			fi
			;;
		'scripts/compare-hang.sh '*) command="${command/.sh/.sh --timeout 3}" ;;
		'build/cohort drill'*) command="${command/drill/drill --slack 5000}" ;;
		esac
		if ! bash -ec "$command" >"$scratch/log" 2>&1 </dev/null; then
			echo "$page: $command"
			cat "$scratch/log"
			exit 1
		fi
		run=$((run + 1))
		mv "$scratch/log" "$scratch/log.$count"
	done < <(sed 1d "$block")
done
[ "$run" -ge 20 ] || fail "only $run commands were found"

# ---- output of commands ---------------------------------------------------------

for by in "$scratch"/block.*.by; do
	block=${by%.by}
	where=$(head -n 1 "$block")
	said=$(cat "$by")
	log=$scratch/log.${seen[$said]-none}
	if [ -z "${seen[$said]-}" ]; then
		fail "$where: no page has the command \"$said\""
	elif [ ! -e "$log" ]; then
		echo "[SKIP] $where: printed by $said, which was not run"
		continue
	fi
	rest=$(plain <"$log")
	part=
	while IFS= read -r line; do
		if [ "$line" != ... ]; then
			part+=$line$'\n'
			continue
		fi
		wanted=$(plain <<<"$part")
		part=
		if [[ $rest != *"$wanted"* ]]; then
			echo "$where has"
			echo "$wanted"
			echo "but $said prints"
			cat "$log"
			exit 1
		fi
		rest=${rest#*"$wanted"}
	done < <(sed 1d "$block"; echo ...)
	printed=$((printed + 1))
done

echo "programs: $programs, and parts: $fragments; commands: $run; outputs: $printed"
