#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compile $1 with strict warnings, as C11 or C++17, depending on its name, link it with the shared
# library in directory $2, and run it.  Also compile each public header alone in that
# language.

set -eu

source=$1
lib=$2
case $source in
*.c) compiler=${CC:-cc} language=c standard=c11 ;;
*) compiler=${CXX:-c++} language=c++ standard=c++17 ;;
esac
# Use only the first word, because it may be a compiler with options.
if ! command -v "${compiler%% *}" >/dev/null; then
	echo "there is no $compiler"
	exit 77
fi

program=$(mktemp)
trap 'rm -f "$program"' EXIT
strictly="$compiler -std=$standard -pedantic-errors -Wall -Wextra -Wundef -Werror"
strictly="$strictly -Iinclude"
for header in include/cohort/*.h; do
	# Compile the header alone, without help from includes of another one.
	# shellcheck disable=SC2086
	$strictly -fsyntax-only -x $language "$header" || {
		echo "$header does not stand alone"
		exit 1
	}
done
# shellcheck disable=SC2086
$strictly "$source" -o "$program" -L"$lib" -lcohort
LD_LIBRARY_PATH=$lib "$program"
