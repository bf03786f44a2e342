#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build the files of a release in build/release-VERSION: the wheels and the source
# distribution for Python, the Rust crates, the Debian packages, the manual, the site, and the
# description of the ABI, with their checksums in SHA256SUMS.  Wheels and packages are for x86-64
# and for AArch64.  Prints the tag to push.
#
#	scripts/release.sh
#	scripts/release.sh --check    only compare the versions in all places
#
# VERSION is from include/cohort/version.h.  Refuses a tree with uncommitted changes, a tag that
# exists, and any place with another version.  Two runs on the same commit with the same tools
# build bit-identical files.

set -euo pipefail

cd "$(dirname "$0")/.."
make=${MAKE:-make}

version=$(awk '$2 ~ /^COHORT_VERSION_/ { version = version (version ? "." : "") $3 }
	END { print version }' include/cohort/version.h)
major=${version%%.*}
minor=${version#*.}
minor=${minor%.*}
differs=0

# refuse WHY - print why there is no release, and exit
refuse() {
	echo "release: $1" >&2
	exit 1
}

# same FILE WHAT VALUE WANTED - report a place whose version VALUE is not WANTED
same() {
	[ "$3" != "$4" ] || return 0
	echo "$1: $2 is ${3:-missing}, and must be $4 (include/cohort/version.h: $version)"
	differs=1
}

# first EXPRESSION FILE - print the first match of sed
first() {
	sed -nE "$1" "$2" | head -n 1
}

compare_versions() {
	local crates=bindings/rust name

	same CHANGELOG.md "the first section" "$(first 's/^## (.*)/\1/p' CHANGELOG.md)" "$version"
	same README.md "the status" "$(first 's/^\*\*Status:\*\* ([0-9.]*[0-9]).*/\1/p' README.md)" \
		"$major.$minor"
	same docs/install.md "find_package()" \
		"$(first 's/^find_package\(cohort ([0-9.]+).*/\1/p' docs/install.md)" "$major.$minor"
	same src/cohort.map "the last node" \
		"$(sed -n 's/^\(COHORT_[0-9.]*\) {$/\1/p' src/cohort.map | tail -n 1)" \
		"COHORT_$major.$minor"
	same packaging/debian/libcohort0.symbols "the last node" \
		"$(sed -n 's/^ (symver)//p' packaging/debian/libcohort0.symbols | tail -n 1)" \
		"COHORT_$major.$minor $major.$minor.0"
	same packaging/debian/control "the library's package" \
		"$(first 's/^Package: (libcohort[0-9]+)$/\1/p' packaging/debian/control)" \
		"libcohort$major"
	same bindings/cohort_abi.json version \
		"$(first 's/^"version": "(.*)",/\1/p' bindings/cohort_abi.json)" "$version"
	same bindings/python/cohort/_abi.py VERSION \
		"$(first 's/^VERSION = "(.*)"/\1/p' bindings/python/cohort/_abi.py)" "$version"
	same $crates/cohort-sys/src/generated.rs VERSION \
		"$(first 's/^pub const VERSION: &str = "(.*)";/\1/p' $crates/cohort-sys/src/generated.rs)" \
		"$version"
	same $crates/cohort-sys/build.rs VERSIONS \
		"$(first 's/^const VERSIONS: &str = "(.*)";/\1/p' $crates/cohort-sys/build.rs)" \
		"cohort >= $major.$minor cohort < $major.$((minor + 1))"
	same $crates/cohort-sys/build.rs LOADED \
		"$(first 's/^const LOADED: &str = "(.*)";/\1/p' $crates/cohort-sys/build.rs)" \
		"libcohort.so.$major"
	for name in cohort-sys cohort; do
		same $crates/$name/Cargo.toml version \
			"$(first 's/^version = "(.*)"/\1/p' $crates/$name/Cargo.toml)" "$version"
		same $crates/Cargo.lock "the version of $name" \
			"$(sed -n "/^name = \"$name\"$/{ n; s/^version = \"\(.*\)\"/\1/p; }" \
				$crates/Cargo.lock)" "$version"
	done
	same $crates/cohort/Cargo.toml "the version of cohort-sys" \
		"$(first 's/^cohort-sys = .*version = "(.*)".*/\1/p' $crates/cohort/Cargo.toml)" "$version"
}

compare_versions
[ $differs -eq 0 ] || exit 1
[ "${1-}" != --check ] || exit 0

tag=v$version
commit=$(git rev-parse --verify -q HEAD) || refuse "this is no clone with git"
changed=$(git status --porcelain | head -n 1)
[ -z "$changed" ] || refuse "${changed:3} is not committed; commit it, or remove it"
tagged=$(git rev-parse --verify -q "refs/tags/$tag^{commit}" || true)
if [ -n "$tagged" ] && [ "$tagged" != "$commit" ]; then
	refuse "tag $tag is on commit $tagged; raise the version in include/cohort/version.h"
fi
day=$(sed -n "/^## ${version//./\\.}$/,/^## /s/^\([0-9-]\{10\}\)\. .*/\1/p" CHANGELOG.md)
[ -n "$day" ] || refuse "CHANGELOG.md has no day below \"## $version\""

folder=build/release-$version
rm -rf "$folder"
mkdir -p "$folder"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Make the build independent of the caller's flags, locale and time zone.
unset CC CPPFLAGS CFLAGS LDFLAGS VARIANT
export LC_ALL=C.UTF-8 TZ=UTC0
SOURCE_DATE_EPOCH=$(date -d "$day" +%s)
export SOURCE_DATE_EPOCH

# pack NAME PARENT DIRECTORY - pack a directory as NAME
pack() {
	tar -C "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX -c "$3" | gzip -n9 >"$folder/$1"
}

echo "---- binaries, manual"
"$make" --no-print-directory all build/portable/cohort build/man/made
[ "$(build/cohort --version)" = "cohort $version" ] ||
	refuse "build/cohort --version prints $(build/cohort --version), not cohort $version"
for file in cohort.pc cohortConfigVersion.cmake; do
	grep -qE "(Version: |set\(PACKAGE_VERSION \")${version//./\\.}(\"\))?$" build/lib/$file ||
		refuse "build/lib/$file does not have version $version"
done
pack "cohort-$version-manual.tar.gz" build man
scripts/sysroot.sh build/aarch64/root >"$scratch/log" ||
	refuse "nothing can be built for AArch64: $(tail -n 1 "$scratch/log")"
"$make" --no-print-directory VARIANT=aarch64 all build/aarch64/portable/cohort

echo "---- Python"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bindings/python python3 - "$folder" <<'END'
import sys
import cohort_wheel
print(cohort_wheel.build_wheel(sys.argv[1]))
print(cohort_wheel.build_wheel(sys.argv[1], {"build": "build/aarch64"}))
print(cohort_wheel.build_sdist(sys.argv[1]))
END

echo "---- Rust"
scripts/crates.sh "$folder" >"$scratch/log" ||
	refuse "the crates cannot be packed: $(tail -n 1 "$scratch/log")"

echo "---- Debian"
for options in '' '--arch arm64'; do
	# shellcheck disable=SC2086 # two words
	scripts/deb.sh $options "$scratch/deb" >"$scratch/log" 2>&1 ||
		{ tail -n 50 "$scratch/log"; refuse "scripts/deb.sh $options has failed"; }
done
for package in "$scratch"/deb/*.deb; do
	[ "$(dpkg-deb -f "$package" Version)" = "$version-1" ] ||
		refuse "${package##*/} has version $(dpkg-deb -f "$package" Version), not $version-1"
done
cp "$scratch"/deb/*.deb "$folder"

echo "---- ABI, site"
tests/system/abi.sh --write "$folder/libcohort-$version.abi.xml"
scripts/site.sh build/man build/site "$version" >"$scratch/log" ||
	refuse "the site cannot be made: $(tail -n 1 "$scratch/log")"
pack "cohort-$version-site.tar.gz" build site

(cd "$folder" && sha256sum -- * >"$scratch/SHA256SUMS" && mv "$scratch/SHA256SUMS" .)
ls -l "$folder"
cat "$folder/SHA256SUMS"
echo "To publish $folder, push its tag:"
echo "	git tag -a $tag -m 'Cohort $version' $commit && git push origin $tag"
