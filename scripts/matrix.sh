#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Print the commands of a run of tests/matrix.txt, one per line, or the words of a list.
#
#	scripts/matrix.sh RUN
#	scripts/matrix.sh @LIST
#
# Uses the environment variables that make sets.

set -euo pipefail

: "${OUT:=build}" "${DIR:=build/release}" "${CUDA:=}" "${LENGTH:=1}" "${SOAK:=60 1}" "${GPU:=}"
for suite in unit api sim; do
	declare "${suite^^}=$DIR/tests/$suite/$suite --jobs=1 --verbose"
done
declare -A words

# commands SETTINGS COMMAND - print the command, or one command per word of its list
commands() {
	local variables="" setting word list

	for setting in ${1//[,-]/ }; do
		variables+="${words[$setting]} "
	done
	if [[ $2 =~ @([a-z][a-z0-9_]*) ]]; then
		list=${BASH_REMATCH[1]}
		for word in ${words[$list]}; do
			echo "${variables:+env $variables}${2/@$list/$word}"
		done
	else
		echo "${variables:+env $variables}$2"
	fi
}

# names PATTERN - print the names of files, without directory and ".c"
names() (
	set +f
	shopt -s nullglob
	# shellcheck disable=SC2206 # a pattern
	files=($1)
	[ ${#files[@]} -eq 0 ] || basename -as .c "${files[@]}"
)

# Disable globbing, because test patterns are not file names.
set -f
found=
# shellcheck disable=SC2162 # a backslash continues a line
while read -a line; do
	first=${line[0]-} second=${line[1]-} rest=${line[*]:2}
	case $first:$second in
	: | '#'*) ;;
	*:=) eval "words[$first]=\"$rest\"" ;;
	*:'<') words[$first]=$(names "$rest") ;;
	*)
		[[ ,$first, == *,$1,* ]] || continue
		found=1
		eval "commands $second \"$rest\""
		;;
	esac
done <tests/matrix.txt
# shellcheck disable=SC2086 # words of a list
case $1 in
@*) printf '%s\n' ${words[${1#@}]} ;;
*) [ -n "$found" ] || { echo "matrix.sh: no run $1 in tests/matrix.txt" >&2 && exit 1; } ;;
esac
