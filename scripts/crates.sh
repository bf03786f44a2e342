#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pack the Rust crates of the last commit into the folder $1.
#
#	scripts/crates.sh FOLDER
#
# A crate has only files below its own folder, so cohort-sys gets a copy of the library's sources,
# from which its feature vendored builds the library.  If cargo cannot pack a crate together with
# a crate on which it depends, prints one line with the reason and exits with 77.

set -euo pipefail

folder=$(realpath -m "${1:?usage: crates.sh FOLDER}")
cd "$(dirname "$0")/.."

oldest=1.90
version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || true
if [ "$(printf '%s\n' $oldest "${version:-0}" | sort -V | head -n 1)" != $oldest ]; then
	echo "cargo ${version:-is not installed}; it must be $oldest or newer"
	exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$scratch/rust/cohort-sys/source

git archive HEAD bindings/rust | tar -x -C "$scratch" --strip-components=1
mkdir "$source"
git archive HEAD Makefile mk include src LICENSE | tar -x -C "$source"
rm -r "$source/src/cli"
# A lock file would list the crate half, which cargo cannot find without a network.
(cd "$scratch/rust" &&
	cargo package -q --workspace --no-verify --exclude-lockfile --offline --target-dir "$scratch")
mkdir -p "$folder"
cp "$scratch"/package/*.crate "$folder"
