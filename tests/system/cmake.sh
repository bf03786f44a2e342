#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build and run README.md's program with CMake and the package installed in prefix $1:
# with the shared library, with the static library, and as docs/install.md says.

set -eu

prefix=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^```c$/,/^```$/ { /^```/!p }' README.md >"$scratch/program.c"
cat >"$scratch/CMakeLists.txt" <<'END_OF_LISTS'
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(cohort 1.0 QUIET)
if(cohort_FOUND)
  message(FATAL_ERROR "a version that is to come was found")
endif()
find_package(cohort 0.2 REQUIRED)
find_package(cohort REQUIRED)
add_executable(shared program.c)
target_link_libraries(shared cohort::cohort)
add_executable(static program.c)
target_link_libraries(static cohort::cohort_static)
END_OF_LISTS

mkdir "$scratch/page"
# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^```cmake$/,/^```$/ { /^```/!p }' docs/install.md >"$scratch/page/CMakeLists.txt"
cp "$scratch/program.c" "$scratch/page"

# quietly COMMAND... - run a command; show its output only if it fails
quietly() {
	"$@" >"$scratch/log" 2>&1 && return
	cat "$scratch/log"
	return 1
}

echo "build with CMake, from $prefix"
quietly cmake -S "$scratch" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$scratch/build"
quietly cmake -S "$scratch/page" -B "$scratch/build/page" -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$scratch/build/page"
for program in shared static page/program; do
	COHORT_PLATFORM=host "$scratch/build/$program" | sort -u >"$scratch/out"
	for rank in 0 1 2 3 4 5 6 7; do
		echo "rank $rank: 4.5"
	done | diff - "$scratch/out"
done
# The static program runs without libcohort.so.
if ldd "$scratch/build/static" | grep libcohort; then
	exit 1
fi
