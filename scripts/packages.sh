#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the Debian packages, the wheel, the crates and make install in a fresh root of Debian SUITE.
# With each, build and run the program of its README.
#
#	scripts/packages.sh SUITE
#
# The Debian packages are for the Debian release that builds them.  If SUITE is this machine's,
# they are built twice here, in different directories and conditions, both builds are compared, and
# lintian checks them; so are packages for arm64, whose contents then run in QEMU.  Otherwise they
# are built once, in another root of SUITE.  They are installed, used and removed, after which no
# file of theirs may remain.  The wheel is built on this machine, whose glibc must not be newer
# than that of SUITE.
#
# Each line "ok", "FAIL" or "skip" is one test; the last line adds them up.

# Functions are called by try().
# shellcheck disable=SC2317

set -euo pipefail

suite=${1:?usage: packages.sh SUITE}
cd "$(dirname "$0")/.."
# shellcheck source=scripts/root.sh
. scripts/root.sh

# The root has only debootstrap's packages, pkg-config, and the compiler that a user needs for a
# program.
make_root "$suite" gcc,libc6-dev,pkg-config

passed=0 failed=0 skipped=0
# try WHAT COMMAND... - run one test and show its output if it fails; status 77 means skipped
try() {
	local what=$1 rc=0
	shift

	"$@" >"$root/log" 2>&1 || rc=$?
	case $rc in
	0)
		echo "ok    $what"
		passed=$((passed + 1))
		;;
	77)
		echo "skip  $what: $(tail -n 1 "$root/log")"
		skipped=$((skipped + 1))
		;;
	*)
		echo "FAIL  $what"
		tail -n 50 "$root/log" | sed 's/^/    /'
		failed=$((failed + 1))
		;;
	esac
}
finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	exit $((failed > 0))
}

# tree FOLDER - copy the files that git tracks
tree() {
	mkdir -p "$1" && git ls-files -z | tar -c --null -T - | tar -x -C "$1"
}

# block LANGUAGE FILE - print the first block in LANGUAGE in FILE
block() {
	awk -v begin='```'"$1" '$0 == begin { inside = 1; next }
		inside && /^```$/ { exit } inside' "$2"
}
# What README.md's program prints.
printf 'rank %d: 4.5\n' 0 1 2 3 4 5 6 7 >"$root/ranks"

# ---- the Debian packages --------------------------------------------------------

own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
one=$root/one
two=$root/a.longer/name
# again ARGUMENT... - call deb.sh without a compiler cache, and with another umask, time zone,
# locale and number of jobs
again() (
	umask 077
	export CCACHE_DISABLE=1 TZ=Asia/Tokyo LC_ALL=C.UTF-8 \
		DEB_BUILD_OPTIONS="nocheck parallel=3"
	scripts/deb.sh "$@"
)

# in_builder - build the packages in a copy of the root, with the packages for the build
in_builder() {
	mkdir "$root/builder"
	cp -a "$root/root" "$root/builder/root"
	tree "$root/builder/root/tree"
	ln -s builder/root/one "$one"
	root=$root/builder in_root sh -exc '
		apt-get -q update
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
			dpkg-dev make
		cp -r tree/packaging/debian tree/debian
		DEBIAN_FRONTEND=noninteractive apt-get -q -y build-dep --no-install-recommends ./tree
		rm -r tree/debian
		tree/scripts/deb.sh one'
}

# installed FOLDER - print each file that make install has installed in FOLDER, with its mode
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
# same_packages FOLDER OTHER - compare the packages in two folders
same_packages() {
	local package

	for package in "$1"/*.deb; do
		cmp "$package" "$2/${package##*/}" || return 1
	done
}
# clean FOLDER - run lintian, which exits with 2 if it has found errors.  Ignore the misspelled
# "occured": the simulator prints CUDA's message unchanged.
clean() {
	lintian --display-info --pedantic "$1"/*.changes >"$root/lintian" || [ $? -eq 2 ] ||
		return 1
	! grep -E '^[EWIP]: ' "$root/lintian" | grep -v ': spelling-error-in-binary occured '
}
# loss COMMAND... - print what a command of both architectures must print
loss() {
	"$@" demo --no-fault --epochs 3 | grep '^loss'
}
# runs_in_qemu FOLDER - unpack the packages for arm64; run the command, and build README.md's
# program with the library
runs_in_qemu() {
	local sysroot=build/aarch64/root files=$root/arm64 package

	for package in "$1"/*.deb; do
		dpkg-deb -x "$package" "$files" || return
	done
	loss scripts/emulate.sh "$sysroot" "$files/usr/bin/cohort" >"$root/loss" &&
		loss "$(echo "$one"/cohort-*/build/cohort)" | diff - "$root/loss" || return
	block c README.md | aarch64-linux-gnu-gcc --sysroot="$sysroot" -I"$files/usr/include" -xc - \
		-o "$root/program" -L"$files/usr/lib/aarch64-linux-gnu" -lcohort || return
	scripts/emulate.sh "$sysroot" env LD_LIBRARY_PATH="$files/usr/lib/aarch64-linux-gnu" \
		"$root/program" | sort -u | diff "$root/ranks" -
}
begin=$SECONDS
if [ "$suite" = "$own" ]; then
	try "the packages can be built" scripts/deb.sh "$one"
	try "they can be built elsewhere" again "$two"
	[ "$failed" -eq 0 ] || finish
	echo "      two builds after $((SECONDS - begin)) s"
	try "make install installs the same in both builds, to the bit" same_files
	try "the packages of both builds are the same, to the bit" same_packages "$one" "$two"
	try "lintian has nothing to say" clean "$one"
	try "packages for arm64 can be built" scripts/deb.sh --arch arm64 "$one.arm64"
	if ls "$one.arm64"/*.deb >/dev/null 2>&1; then
		try "they can be built elsewhere" again --arch arm64 "$two.arm64"
		try "they are the same in both builds, to the bit" \
			same_packages "$one.arm64" "$two.arm64"
		try "lintian has nothing to say about them" clean "$one.arm64"
		try "their command and their library run in QEMU" runs_in_qemu "$one.arm64"
	fi
else
	try "the packages can be built" in_builder
	[ "$failed" -eq 0 ] || finish
	echo "      one build after $((SECONDS - begin)) s"
fi

# ---- in a fresh root ----------------------------------------------------------

mkdir "$root/root/try"
for package in "$one"/*.deb; do
	[[ $package == *-dbgsym_* ]] || cp "$package" "$root/root/try"
done
block c README.md >"$root/root/try/program.c"
cp "$root/ranks" "$root/root/try"
cp tests/system/programs/{ring.c,program.h} "$root/root/try"

# files - print all files except the databases of apt and dpkg
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
		diff "$root/root/try/ranks" "$root/out"
}

files >"$root/before"
try "apt installs them" inside '
	apt-get -q update
	DEBIAN_FRONTEND=noninteractive apt-get -q -y install ./*.deb'
# shellcheck disable=SC2016 # variables of the inner shell
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

# ---- pip, cargo and make, without the Debian packages ---------------------------

mkdir "$root/root/try/crate" "$root/root/try/installed" "$root/root/try/cmake"
tree "$root/root/try/tree"
cp examples/average.cc "$root/root/try"
block python bindings/python/README.md >"$root/root/try/program.py"
block rust bindings/rust/cohort/README.md >"$root/root/try/program.rs"
block cmake docs/install.md >"$root/root/try/cmake/CMakeLists.txt"
cp "$root/root/try/program.c" "$root/root/try/cmake"
wheel() {
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bindings/python python3 -c '
import sys, cohort_wheel
cohort_wheel.build_wheel(sys.argv[1])' "$root/root/try"
}
# crates - pack the crates into a source that replaces the registry
crates() {
	local name vendor=$root/root/try/vendor

	scripts/crates.sh "$vendor" || return
	for name in cohort-sys cohort; do
		mkdir "$vendor/$name"
		tar -xzf "$vendor/$name"-[0-9]*.crate -C "$vendor/$name" --strip-components 1
		printf '{"files":{},"package":"%s"}\n' \
			"$(sha256sum <"$vendor/$name"-[0-9]*.crate | cut -d ' ' -f 1)" \
			>"$vendor/$name/.cargo-checksum.json"
	done
	rm "$vendor"/*.crate
	cat >"$root/root/try/crate/config" <<-'END'
		[source.crates-io]
		replace-with = "packed"
		[source.packed]
		directory = "/try/vendor"
	END
}
prints() {
	inside "$1" </dev/null >"$root/out" && sort "$root/out" | diff - <(echo "$2")
}
try "the wheel can be built" wheel
try "the crates can be packed" crates
# shellcheck disable=SC2016 # variables of the inner shell
{
	try "apt installs Python, Rust and make" inside '
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
			python3-venv cargo make'
	try "pip installs the wheel, and the program in Python runs" prints '
		python3 -m venv venv >&2
		venv/bin/pip -q install --no-index ./*.whl >&2
		venv/bin/python program.py' '[2.5, 2.5, 2.5, 2.5]'
	try "a program in C can be built with the wheel alone, and runs" program_runs '
		cc -o program program.c $(venv/bin/python -m cohort --cflags --libs)'
	try "the wheel has the command" inside '
		venv/bin/cohort demo --verify --epochs 3 >/dev/null
		test "$(venv/bin/cohort run -n 4 true && echo OK)" = OK'
	if [ -d "$root/root/try/vendor" ]; then
		try "cargo adds the crate, builds the library, and the program runs" program_runs '
			cargo -q init --name program crate
			mkdir crate/.cargo
			mv crate/config crate/.cargo/config.toml
			cd crate
			# Without a version, cargo 1.65 may add cohort-sys, which it finds first.
			cargo -q add --offline "cohort@>=0" --features vendored
			cp ../program.rs src/main.rs
			cargo -q build --offline
			cp target/debug/program ..
			! ldd ../program | grep libcohort'
	fi
	try "make installs, the program of README.md runs, and make removes everything" inside '
		make -s -C tree install
		ldconfig
		cc -o program program.c $(pkg-config --cflags --libs cohort)
		./program | sort -u | diff - /try/ranks
		/usr/local/bin/cohort info >/dev/null
		make -s -C tree uninstall
		! find /usr/local ! -type d | grep cohort'
}

# ---- other languages, with the Debian packages ------------------------------------

# shellcheck disable=SC2016 # variables of the inner shell
{
	try "apt installs them beside CMake and g++" inside '
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
			./*.deb cmake g++'
	try "cargo adds the crate of the tree, and the program in Rust runs" program_runs '
		cargo -q init --name program installed
		cd installed
		cargo -q add --path ../tree/bindings/rust/cohort
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
