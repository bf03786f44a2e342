#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check that make release refuses, before it builds anything, a tree that is not committed, a
# version that differs in one place, and a tag of another commit.

set -eu

command -v git >/dev/null || { echo "git is not installed"; exit 77; }
git rev-parse --git-dir >/dev/null 2>&1 || { echo "this is no clone with git"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL

mkdir "$scratch/tree"
git ls-files -co --exclude-standard -z --deduplicate | while IFS= read -r -d '' file; do
	[ ! -f "$file" ] || printf '%s\0' "$file"
done | tar -c --null -T - | tar -x -C "$scratch/tree"
cd "$scratch/tree"
commit() {
	git -c user.name=test -c user.email=test@test.invalid -c commit.gpgsign=false \
		commit -q --allow-empty -m test
}
git init -q
git add -A
commit

# refuses TEXT - fail unless make release fails with this text, and has built nothing
refuses() {
	if ${MAKE:-make} release >"$scratch/log" 2>&1 || ! grep -qxF -e "$1" "$scratch/log" ||
		[ -e build ]; then
		echo "make release did not refuse with '$1':"
		cat "$scratch/log"
		exit 1
	fi
}

echo new >new.txt
refuses "release: new.txt is not committed; commit it, or remove it"
rm new.txt
echo >>src/cohort.pc.in
refuses "release: src/cohort.pc.in is not committed; commit it, or remove it"
git checkout -q src/cohort.pc.in

version=$(sed -n 's/^VERSION = "\(.*\)"/\1/p' bindings/python/cohort/_abi.py)
git tag "v$version"
tagged=$(git rev-parse HEAD)
commit
refuses "release: tag v$version is on commit $tagged; raise the version in include/cohort/version.h"
git tag -d "v$version" >/dev/null

# Raise the version only in the header. The error must name every other place.
sed -i 's/\(COHORT_VERSION_MAJOR\) .*/\1 7/; s/\(COHORT_VERSION_MINOR\) .*/\1 8/' \
	include/cohort/version.h
sed -i 's/\(COHORT_VERSION_PATCH\) .*/\1 9/' include/cohort/version.h
header="(include/cohort/version.h: 7.8.9)"
refuses "bindings/python/cohort/_abi.py: VERSION is $version, and must be 7.8.9 $header"
places=$(grep -cF ", and must be " "$scratch/log")
for file in CHANGELOG.md README.md docs/install.md src/cohort.map \
	packaging/debian/libcohort0.symbols packaging/debian/control bindings/cohort_abi.json \
	bindings/python/cohort/_abi.py bindings/rust/cohort-sys/src/generated.rs \
	bindings/rust/cohort-sys/build.rs bindings/rust/cohort-sys/Cargo.toml \
	bindings/rust/cohort/Cargo.toml bindings/rust/Cargo.lock; do
	grep -q "^$file: " "$scratch/log" || { echo "$file is not named:"; cat "$scratch/log"; exit 1; }
done
[ "$places" -eq 16 ] || { echo "$places places differ, not 16:"; cat "$scratch/log"; exit 1; }
