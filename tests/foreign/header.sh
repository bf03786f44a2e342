#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compile $1 strictly, as C11 or C++17 by its name, link it with the shared
# library in directory $2, and run it.

set -eu

source=$1
lib=$2
case $source in
*.c) compiler=${CC:-cc} standard=c11 ;;
*) compiler=${CXX:-c++} standard=c++17 ;;
esac
# Only the first word: it may be a compiler with options.
if ! command -v "${compiler%% *}" >/dev/null; then
	echo "there is no $compiler"
	exit 77
fi

program=$(mktemp)
trap 'rm -f "$program"' EXIT
# shellcheck disable=SC2086
$compiler -std=$standard -pedantic-errors -Wall -Wextra -Wundef -Werror \
	-Iinclude "$source" -o "$program" -L"$lib" -lcohort
LD_LIBRARY_PATH=$lib "$program"
