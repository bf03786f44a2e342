#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Install into an empty directory, build a program against the installed files, with the
# shared library and with the archive, look up the pages, examples, manual and completions,
# and uninstall everything.  CMake must find the files, also with libraries in another folder.

set -eu

# Keep the variables of the command line of make test, so that nothing is rebuilt, but not its job
# server, which is not shared.
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
	# Build an NCCL program for the simulator, whose headers need python3.
	if command -v python3 >/dev/null; then
		read -ra flags < <(pkg-config --cflags --libs cohort-simulator)
		$compiler tests/system/programs/threads.c -o "$root/program" "${flags[@]}" \
			-pthread
		"$root$prefix/bin/cohort" run -n 2 "$root/program" | grep -x OK
		rm "$root/program"
	fi
else
	echo '[SKIP] cohort.pc, cohort-simulator.pc: pkg-config is not installed'
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
	echo '[SKIP] cohortConfig.cmake: cmake is not installed'
fi

# page NAME SECTION TEXT - fail unless the installed page exists and contains TEXT
page() {
	local file=$root$prefix/share/man/man$2/$1.$2

	if [ ! -s "$file" ]; then
		echo "there is no page $1($2)"
		exit 1
	fi
	# Remove the sequences that make letters bold or underlined.
	if [ -n "$reader" ] && ! MANWIDTH=80 $reader "$file" | sed 's/.\x08//g' |
		tr -s '[:space:]' ' ' | grep -qF -- "$3"; then
		echo "$reader $file does not say '$3'"
		exit 1
	fi
}

doc=$root$prefix/share/doc/cohort
for file in README.md docs/index.md docs/trace.png examples/supervisor.c; do
	if [ ! -s "$doc/$file" ]; then
		echo "there is no $doc/$file"
		exit 1
	fi
done
# Each page that a page links to exists.
for page in "$doc"/*.md "$doc"/docs/*.md; do
	while read -r link; do
		if [ ! -e "$(dirname "$page")/$link" ]; then
			echo "$page: there is no $link"
			exit 1
		fi
	done < <(grep -oE '\]\((\.\./)?((docs|examples)/)?[A-Za-z-]+\.(md|c|cc|py|svg|png)' "$page" |
		sed 's/^](//')
done
$compiler "$doc/examples/supervisor.c" -o "$root/program" -I"$root$prefix/include" \
	"$root$prefix/lib/libcohort.a" -pthread -ldl -lm
rm "$root/program"

if command -v python3 >/dev/null; then
	reader=
	if command -v mandoc >/dev/null; then
		reader=mandoc
	elif command -v man >/dev/null; then
		reader='man -l'
	else
		echo '[SKIP] appearance of manual pages: neither mandoc nor man is installed'
	fi
	page cohort 1 'cohort-drill(1)'
	page cohort-bench-average 1 '--shapes FILE'
	page cohort 7 'cohort_group_close(3) closes all that are left.'
	page cohort-options 7 'struct cohort_group_options'
	page cohort_wait 3 'int cohort_wait(struct cohort_comm *comm, uint64_t ticket,'
	page cohort_comm_size 3 'RETURN VALUES 1 or more, or -1'
	page cohort_broadcast 3 'COHORT_OK the operation is queued' # same results as all_reduce
	page cohort_abort_fire 3 'EXAMPLES static struct cohort_abort *handle;'
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
	echo '[SKIP] manual pages, completions and headers of the simulator: python3 is not installed'
fi

"$make" --no-print-directory uninstall "${places[@]}"
left=$(find "$root" ! -type d -o -name 'cohort*' -path '*/include/*')
if [ -n "$left" ]; then
	echo "uninstall left $left"
	exit 1
fi
# Rebuild for the usual prefix.
"$make" --no-print-directory all >/dev/null
