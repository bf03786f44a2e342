#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Install into an empty directory, build a program against what is there, with
# the shared library and with the archive, and take it all back.

set -eu

# As part of make test: keep the variables of its command line, so that the
# same things are built, but not the jobs, which it does not share.
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
	includedir="$prefix/include" libdir="$prefix/lib")

build() {
	echo "build with $*"
	# shellcheck disable=SC2086
	$compiler tests/foreign/header.c -o "$root/program" "$@"
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
else
	echo '[SKIP] cohort.pc: there is no pkg-config'
fi

"$make" --no-print-directory uninstall "${places[@]}"
left=$(find "$root" ! -type d -o -name cohort -path '*/include/*')
if [ -n "$left" ]; then
	echo "uninstall left $left"
	exit 1
fi
# What was built is for the usual prefix again.
"$make" --no-print-directory all >/dev/null
