#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages, as someone who installs them meets them: build them twice, in other
# folders and conditions, and compare the builds; ask lintian; install them in a fresh root of
# Debian SUITE, which has to be this machine's; build and run a program there, and remove all
# again.  Then install them once more beside Python, Rust, CMake and a C++ compiler, for each of
# which there is a program, too: with the wheel in a virtual environment, with the crate, and
# with find_package().
#
#	scripts/packages.sh SUITE
#
# Every line "ok" or "FAIL" is one test; the last line adds them up.

# Functions are called by try().
# shellcheck disable=SC2317

set -euo pipefail

suite=${1:?usage: packages.sh SUITE}
cd "$(dirname "$0")/.."
# shellcheck source=scripts/root.sh
. scripts/root.sh

# Those that debootstrap brings are all that the root has: pkg-config and the compiler are
# what a user needs for his program.
make_root "$suite" gcc,libc6-dev,pkg-config

passed=0 failed=0
# try WHAT COMMAND... - one test, whose output is shown if it fails
try() {
	local what=$1
	shift

	if "$@" >"$root/log" 2>&1; then
		echo "ok    $what"
		passed=$((passed + 1))
	else
		echo "FAIL  $what"
		tail -n 50 "$root/log" | sed 's/^/    /'
		failed=$((failed + 1))
	fi
}
finish() {
	echo "$passed passed, $failed failed, 0 skipped"
	exit $((failed > 0))
}

# ---- two builds ---------------------------------------------------------------

one=$root/one
two=$root/a.longer/name
begin=$SECONDS
try "the packages can be built" scripts/deb.sh "$one"
# Not from a compiler's cache; under another umask, time zone, locale and number of jobs.
again() (
	umask 077
	export CCACHE_DISABLE=1 TZ=Asia/Tokyo LC_ALL=C.UTF-8 \
		DEB_BUILD_OPTIONS="nocheck parallel=3"
	scripts/deb.sh "$two"
)
try "they can be built elsewhere" again
[ "$failed" -eq 0 ] || finish
echo "      two builds after $((SECONDS - begin)) s"

# installed FOLDER - each file that make install has put there, with its mode
installed() {
	(cd "$1"/cohort-*/debian/tmp &&
		find . ! -type l -printf '%m %p\n' -o -printf '%l %p\n' | sort &&
		find . -type f -exec sha256sum {} + | sort -k 2)
}
same_files() {
	installed "$one" >"$root/one.files" &&
		installed "$two" >"$root/two.files" &&
		[ "$(wc -l <"$root/one.files")" -gt 200 ] &&
		diff "$root/one.files" "$root/two.files"
}
same_packages() {
	local package

	for package in "$one"/*.deb; do
		cmp "$package" "$two/${package##*/}" || return 1
	done
}
try "make install installs the same in both builds, to the bit" same_files
try "the packages of both builds are the same, to the bit" same_packages

# lintian ends with 2 if it has found errors.  One message of CUDA's has "occured", and the
# simulator says what CUDA says.
clean() {
	lintian --display-info --pedantic "$one"/*.changes >"$root/lintian" || [ $? -eq 2 ] ||
		return 1
	! grep -E '^[EWIP]: ' "$root/lintian" | grep -v ': spelling-error-in-binary occured '
}
try "lintian has nothing to say" clean

# ---- in a fresh root ----------------------------------------------------------

mkdir "$root/root/try"
for package in "$one"/*.deb; do
	[[ $package == *-dbgsym_* ]] || cp "$package" "$root/root/try"
done
# block LANGUAGE FILE - the first block of that language in FILE
block() {
	awk -v begin='```'"$1" '$0 == begin { inside = 1; next }
		inside && /^```$/ { exit } inside' "$2"
}
block c README.md >"$root/root/try/program.c"
cp tests/system/programs/{ring.c,program.h} "$root/root/try"

# files - all but what apt and dpkg keep for themselves
files() {
	in_root find / -xdev \( -path /proc -o -path /try -o -path /var/cache \
		-o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log \
		-o -path /etc/ld.so.cache \) -prune -o -print | sort
}
inside() {
	in_root sh -exc "cd /try; $1"
}
program_runs() {
	inside "$1" && inside './program | sort -u' >"$root/out" &&
		for rank in 0 1 2 3 4 5 6 7; do echo "rank $rank: 4.5"; done |
		diff - "$root/out"
}

files >"$root/before"
try "apt installs them" inside '
	apt-get -q update
	DEBIAN_FRONTEND=noninteractive apt-get -q -y install ./*.deb'
# shellcheck disable=SC2016 # for the shell inside
{
	try "README.md's program can be built, and runs" program_runs \
		'cc -o program program.c $(pkg-config --cflags --libs cohort)'
	try "so does one with the static library" program_runs \
		'cc -o program program.c -l:libcohort.a $(pkg-config --libs --static cohort |
			sed s/-lcohort//)
		! ldd program | grep libcohort'
	try "the command runs, and knows its files" inside '
		cohort info >/dev/null
		cohort demo --verify --epochs 3 >/dev/null
		cohort --version | grep -qF "$(pkg-config --modversion cohort)"
		test -s /usr/share/man/man1/cohort-demo.1.gz
		test -s /usr/share/man/man3/cohort_wait.3.gz
		test -s /usr/share/man/man7/cohort.7.gz
		bash -ec "
			source /usr/share/bash-completion/completions/cohort
			COMP_WORDS=(cohort de) COMP_CWORD=1
			_cohort
			test \${COMPREPLY[0]} = demo"'
	try "a program of NCCL can be built, and runs on the simulator" inside '
		cc -o ring ring.c $(pkg-config --cflags --libs cohort-simulator) -pthread
		test "$(cohort run -n 4 --strict -- ./ring)" = OK'
	try "apt removes them" inside '
		apt-get -q -y purge "*cohort*"
		apt-get -q -y autoremove --purge'
}
nothing_left() {
	files >"$root/after"
	diff "$root/before" "$root/after"
}
try "nothing is left of them" nothing_left

# ---- other languages ----------------------------------------------------------

mkdir "$root/root/try/crate" "$root/root/try/cmake"
cp -r bindings/rust "$root/root/try/rust"
cp examples/average.cc "$root/root/try"
block python bindings/python/README.md >"$root/root/try/program.py"
block rust bindings/rust/README.md >"$root/root/try/program.rs"
block cmake docs/install.md >"$root/root/try/cmake/CMakeLists.txt"
cp "$root/root/try/program.c" "$root/root/try/cmake"
wheel() {
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bindings/python python3 -c '
import sys, cohort_wheel
cohort_wheel.build_wheel(sys.argv[1], {"library": sys.argv[2]})' \
		"$root/root/try" "$(echo "$one"/cohort-*/build/lib)"
}
prints() {
	inside "$1" </dev/null >"$root/out" && sort "$root/out" | diff - <(echo "$2")
}
try "the wheel can be built" wheel
# shellcheck disable=SC2016 # for the shell inside
{
	try "apt installs them beside Python, Rust, CMake and g++" inside '
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
			./*.deb python3-venv cargo cmake g++ make'
	try "pip installs the wheel, and the program in Python runs" prints '
		python3 -m venv venv >&2
		venv/bin/pip -q install --no-index ./*.whl >&2
		venv/bin/python program.py' '[2.5, 2.5, 2.5, 2.5]'
	try "cargo adds the crate, and the program in Rust runs" program_runs '
		cargo -q init --name program crate
		cd crate
		cargo -q add --path ../rust/cohort
		cp ../program.rs src/main.rs
		cargo -q build --offline
		cp target/debug/program ..'
	try "find_package() finds them, and the program runs" program_runs '
		cmake -S cmake -B built
		cmake --build built
		cp built/program .'
	try "a program in C++ can be built, and runs" prints '
		g++ -std=c++17 -o program average.cc $(pkg-config --cflags --libs cohort)
		./program' "$(printf 'rank %d: 10.0\n' 0 1 2)"
}
finish
