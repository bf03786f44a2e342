#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Install into an empty directory, build a program against the installed files, with the
# shared library and with the archive, look up the manual and completions, and uninstall
# everything.  CMake finds the files there, and in a prefix whose libraries are in another
# folder.

set -eu

# As part of make test: keep the variables of make's command line, so that nothing is
# built anew, but not its jobs, which it does not share.
case ${MAKEFLAGS-} in
*'-- '*) export MAKEFLAGS="-- ${MAKEFLAGS#*-- }" ;;
*) unset MAKEFLAGS ;;
esac
make=${MAKE:-make}
compiler=${CC:-cc}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
prefix=/opt/cohort
places=(DESTDIR="$root" prefix="$prefix" bindir="$prefix/bin"
	includedir="$prefix/include" libdir="$prefix/lib" datadir="$prefix/share" mandir="$prefix/share/man")

build() {
	echo "build with $*"
	# shellcheck disable=SC2086
	$compiler tests/system/header.c -o "$root/program" "$@"
	LD_LIBRARY_PATH=$root$prefix/lib "$root/program"
	rm "$root/program"
}

"$make" --no-print-directory install "${places[@]}"
"$root$prefix/bin/cohort" info >/dev/null
"$root$prefix/bin/cohort" run true
build -I"$root$prefix/include" "$root$prefix/lib/libcohort.a" -pthread -ldl -lm
if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig
	export PKG_CONFIG_SYSROOT_DIR=$root
	read -ra flags < <(pkg-config --cflags --libs cohort)
	build "${flags[@]}"
	# A program of NCCL, for the simulator; the headers need python3.
	if command -v python3 >/dev/null; then
		read -ra flags < <(pkg-config --cflags --libs cohort-simulator)
		$compiler tests/system/programs/threads.c -o "$root/program" "${flags[@]}" \
			-pthread
		"$root$prefix/bin/cohort" run -n 2 "$root/program" | grep -x OK
		rm "$root/program"
	fi
else
	echo '[SKIP] cohort.pc, cohort-simulator.pc: there is no pkg-config'
fi

if command -v cmake >/dev/null; then
	direct=(DESTDIR= prefix="$root/direct" bindir="$root/direct/bin"
		includedir="$root/direct/include" libdir="$root/direct/lib/$($compiler -print-multiarch)"
		datadir="$root/direct/share" mandir="$root/direct/share/man")
	tests/system/cmake.sh "$root$prefix"
	"$make" --no-print-directory install "${direct[@]}"
	tests/system/cmake.sh "$root/direct"
	"$make" --no-print-directory uninstall "${direct[@]}"
else
	echo '[SKIP] cohortConfig.cmake: there is no cmake'
fi

# page NAME SECTION TEXT - the installed page is there, and says TEXT
page() {
	local file=$root$prefix/share/man/man$2/$1.$2

	if [ ! -s "$file" ]; then
		echo "there is no page $1($2)"
		exit 1
	fi
	# Without what makes letters bold or underlined.
	if [ -n "$reader" ] && ! MANWIDTH=80 $reader "$file" | sed 's/.\x08//g' |
		tr -s '[:space:]' ' ' | grep -qF -- "$3"; then
		echo "$reader $file does not say '$3'"
		exit 1
	fi
}

if command -v python3 >/dev/null; then
	reader=
	if command -v mandoc >/dev/null; then
		reader=mandoc
	elif command -v man >/dev/null; then
		reader='man -l'
	else
		echo '[SKIP] how pages look: there is neither mandoc nor man'
	fi
	page cohort 1 'cohort-drill(1)'
	page cohort-bench-average 1 '--shapes FILE'
	page cohort 7 'cohort_group_close(3) closes those that are left.'
	page cohort-options 7 'LAUNCHING TOGETHER'
	page cohort_wait 3 'int cohort_wait(struct cohort_comm *comm, uint64_t ticket,'
	# A function that shares its page with others.
	page cohort_comm_size 3 'number of ranks'
	count=0 reader=
	while read -r name; do
		page "$name" 3 ''
		count=$((count + 1))
	done < <(sed -n 's/^[[:space:]]*\(cohort_[a-z_0-9]*\);$/\1/p' src/cohort.map)
	echo "$count functions with a page"
	[ "$count" -gt 100 ]
	for file in bash-completion/completions/cohort zsh/site-functions/_cohort \
		fish/vendor_completions.d/cohort.fish; do
		if ! grep -q verify "$root$prefix/share/$file"; then
			echo "there is no completion in $file"
			exit 1
		fi
	done
else
	echo '[SKIP] manual pages, completions and headers of the simulator: there is no python3'
fi

"$make" --no-print-directory uninstall "${places[@]}"
left=$(find "$root" ! -type d -o -name 'cohort*' -path '*/include/*')
if [ -n "$left" ]; then
	echo "uninstall left $left"
	exit 1
fi
# Build for the usual prefix again.
"$make" --no-print-directory all >/dev/null
