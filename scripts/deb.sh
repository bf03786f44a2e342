#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build the Debian packages of this tree into FOLDER, for this machine or for arm64.
#
#	scripts/deb.sh [--arch arm64] FOLDER
#
# packaging/debian describes them.  They are built in a copy of the files that git tracks (of
# everything but build/ without git), because dpkg-buildpackage needs debian/ at the top and
# leaves files there.  Version and date come from version.h and CHANGELOG.md.
#
# For arm64, they are built by Debian's cross compiler with the libraries of scripts/sysroot.sh,
# and QEMU runs the command, from whose help the manual is made.  Exits with 77 and the reason if
# a tool is missing.

set -euo pipefail

arch=
if [ "${1-}" = --arch ]; then
	arch=${2-}
	[ "$arch" = arm64 ] || { echo "deb.sh: --arch $arch is unknown; use arm64, or no --arch" && exit 2; }
	shift 2
fi
folder=$(realpath -m "${1:?usage: deb.sh [--arch arm64] FOLDER}")
cd "$(dirname "$0")/.."
scripts=$PWD/scripts

for tool in dpkg-buildpackage dh; do
	command -v $tool >/dev/null && continue
	echo "$tool is not installed (Debian: dpkg-dev and debhelper)"
	exit 77
done

version=$(awk '$2 ~ /^COHORT_VERSION_/ { version = version (version ? "." : "") $3 }
	END { print version }' include/cohort/version.h)
# Each version and its date, such as "0.2.0 2026-11-26".
versions=$(awk '/^## / { version = $2 }
	/^[0-9]+-[0-9]+-[0-9]+\. / && version { sub(/\. .*/, ""); print version, $0; version = "" }
	' CHANGELOG.md)
day=$(sed -n "s/^${version//./\\.} //p" <<<"$versions")
[ -n "$day" ] || { echo "CHANGELOG.md has no date for version $version; add it" && exit 1; }

source=$folder/cohort-$version
rm -rf "$source" "$folder"/{cohort,libcohort}*_"${arch:-$(dpkg --print-architecture)}".deb
mkdir -p "$source"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z
else
	find . -path ./build -prune -o -type f -print0
fi | tar -c --null -T - --mtime "$day 00:00:00 UTC" | tar -x -C "$source"
cp -r packaging/debian "$source"
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
while read -r each day; do
	cat <<END
cohort ($each-1) unstable; urgency=medium

  * Version $each: changelog.gz lists the changes.

 -- $maintainer  $(LC_ALL=C date -uRd "$day")

END
done <<<"$versions" >"$source/debian/changelog"

build=(dpkg-buildpackage -us -uc -b)
if [ -n "$arch" ]; then
	sysroot=$PWD/build/aarch64/root
	"$scripts/sysroot.sh" "$sysroot"
	# Pass -d, because dpkg does not know the packages in the sysroot.
	build=("$scripts/emulate.sh" "$sysroot" "${build[@]}" -d -a "$arch")
	# debian/rules passes SYSROOT to dpkg-shlibdeps.
	export SYSROOT=$sysroot CC="aarch64-linux-gnu-gcc --sysroot=$sysroot" PKG_CONFIG=pkg-config
	export PKG_CONFIG_SYSROOT_DIR=$sysroot
	export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig
	export DEB_CFLAGS_APPEND=-ffile-prefix-map=$sysroot=
	DEB_BUILD_OPTIONS+=" nocheck"
fi
cd "$source"
# Clear variables of a make that calls this script, and WERROR of .ci/run.
unset MAKEFLAGS MFLAGS MAKELEVEL WERROR
# Set the number of jobs in the variable, because the option -j would override the variable.
export DEB_BUILD_OPTIONS
[[ ${DEB_BUILD_OPTIONS-} == *parallel=* ]] || DEB_BUILD_OPTIONS+=" parallel=$(nproc)"
"${build[@]}"
