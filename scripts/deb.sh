#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build the Debian packages of this tree into the folder $1.
#
#	scripts/deb.sh FOLDER
#
# packaging/debian describes them.  They are built in a copy of what git knows, or of all
# but build/ where there is no git, because dpkg-buildpackage wants debian/ at the top and
# leaves files there.  Version and day are those of version.h and CHANGELOG.md.

set -euo pipefail

folder=$(realpath -m "${1:?usage: deb.sh FOLDER}")
cd "$(dirname "$0")/.."

for tool in dpkg-buildpackage dh; do
	command -v $tool >/dev/null && continue
	echo "there is no $tool (Debian's packages dpkg-dev and debhelper)"
	exit 77
done

version=$(awk '$2 ~ /^COHORT_VERSION_/ { version = version (version ? "." : "") $3 }
	END { print version }' include/cohort/version.h)
# Each version and its day: "0.2.0 2026-11-26".
versions=$(awk '/^## / { version = $2 }
	/^[0-9]+-[0-9]+-[0-9]+\. / && version { sub(/\. .*/, ""); print version, $0; version = "" }
	' CHANGELOG.md)
day=$(sed -n "s/^${version//./\\.} //p" <<<"$versions")
[ -n "$day" ] || { echo "CHANGELOG.md has no day for version $version" && exit 1; }

source=$folder/cohort-$version
rm -rf "$source" "$folder"/{cohort,libcohort}*.deb
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
cd "$source"
# A make that calls this script has variables of its own, and .ci/run has WERROR.
unset MAKEFLAGS MFLAGS MAKELEVEL WERROR
# The option -j would override the variable.
export DEB_BUILD_OPTIONS
[[ ${DEB_BUILD_OPTIONS-} == *parallel=* ]] || DEB_BUILD_OPTIONS+=" parallel=$(nproc)"
dpkg-buildpackage -us -uc -b
