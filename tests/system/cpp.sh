#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compile tests/system/cpp.cc, which uses cohort/cohort.hpp, with strict warnings and
# together with a second source that includes the header; link it with the shared library
# in directory $1, and run it.  Also compile the header without RTTI, and with clang.

set -eu

lib=$1
compiler=${CXX:-c++}
# Use only the first word, because it may be a compiler with options.
if ! command -v "${compiler%% *}" >/dev/null; then
	echo "there is no $compiler"
	exit 77
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
strictly="-std=c++17 -pedantic-errors -Wall -Wextra -Wundef -Werror -Iinclude"
cat >"$scratch/other.cc" <<'END_OF_SOURCE'
#include <cohort/cohort.hpp>

void other(cohort::group &group)
{
	group.run([](cohort::communicator &comm) { comm.synchronize(); });
}
END_OF_SOURCE
for each in "$compiler" clang++; do
	command -v "${each%% *}" >/dev/null || continue
	# shellcheck disable=SC2086
	$each $strictly -fno-rtti -fsyntax-only tests/system/cpp.cc
done
# shellcheck disable=SC2086
$compiler $strictly -pthread tests/system/cpp.cc "$scratch/other.cc" \
	-o "$scratch/program" -L"$lib" -lcohort
COHORT_PLATFORM=host LD_LIBRARY_PATH=$lib timeout 60 "$scratch/program"
