#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Rust crates: their declarations against bindings/cohort_abi.json, their tests,
# documentation and lint, the examples, and a crate of a stranger's that has README.md's
# program, with the library found in each of the ways.
#
# With a library that GCC has compiled with AddressSanitizer, only the tests: what C does with
# memory of Rust's is checked then.  Some tests leak on purpose.
#
# usage: rust.sh LIB [asan]      exit status 0 passed, 1 failed, 77 skipped

set -eu

lib=$(realpath "${1:?usage: rust.sh LIB [asan]}")
asan=
if [ "${2-}" = asan ]; then
	linked=$(ldd "$lib/libcohort.so")
	asan=$(awk '/libasan/ && $3 ~ /^\// { print $3 }' <<<"$linked")
	[ -n "$asan" ] || { echo "the library has no libasan.so, which is GCC's"; exit 77; }
fi
for tool in cargo rustc rustdoc; do
	command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done

unset COHORT_HOST_DEVICES COHORT_FAULTS COHORT_LAUNCH COHORT_HOST_SYNC
export COHORT_PLATFORM=host COHORT_HOST_STRICT=1 COHORT_LIB_DIR=$lib
# What is built stays for the next time; the source tree stays as it is.
export CARGO_TARGET_DIR=${lib%/*}/rust CARGO_NET_OFFLINE=true
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TERM_COLOR=never
export RUST_BACKTRACE=0
crates=$PWD/bindings/rust
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# quietly COMMAND... - show what it prints only if it fails
quietly() {
	"$@" >"$scratch/log" 2>&1 && return
	echo "failed: $*"
	cat "$scratch/log"
	return 1
}

# fits COMMAND... - it must print what README.md's program prints
fits() {
	"$@" | sort >"$scratch/out"
	for rank in 0 1 2 3 4 5 6 7; do
		echo "rank $rank: 4.5"
	done | diff - "$scratch/out"
}

echo "declarations"
if command -v python3 >/dev/null; then
	python3 bindings/rust/generate.py --check
fi

cd "$crates"
if [ -n "$asan" ]; then
	export RUSTFLAGS=-Clink-arg=-Wl,--allow-shlib-undefined
	export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$asan"
	export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" LD_LIBRARY_PATH=$lib
	timeout 400 cargo test --locked --tests
	exit
fi
echo "tests"
# Programs that rustdoc links have no rpath.
LD_LIBRARY_PATH=$lib timeout 240 cargo test --locked >"$scratch/log" 2>&1 || {
	cat "$scratch/log"
	exit 1
}
grep '^test result' "$scratch/log"

echo "examples"
examples=$CARGO_TARGET_DIR/debug/examples
fits timeout 60 "$examples/average"
timeout 60 "$examples/supervised" | diff - <(
	echo "rank 2 does not come to step 10"
	echo "generation 2: 3 ranks go on"
	echo "trained to step 20"
)

# Miri calls no C: the test memory has functions in Rust in the place of C's.
if cargo miri --version >/dev/null 2>&1; then
	echo "Miri"
	quietly timeout 240 cargo miri test --locked -p cohort --test memory
else
	echo "[SKIP] Miri: it is not installed"
fi
if cargo clippy --version >/dev/null 2>&1; then
	echo "clippy"
	quietly cargo clippy --locked --all-targets -- -D warnings
fi
if cargo fmt --version >/dev/null 2>&1; then
	echo "layout"
	cargo fmt --check
fi
echo "documentation"
RUSTDOCFLAGS="-D warnings" quietly cargo doc --locked --no-deps

echo "a crate of a stranger's"
mkdir -p "$scratch/program/src"
cd "$scratch/program"
# shellcheck disable=SC2016 # Markdown's
sed -n '/^```rust$/,/^```$/ { /^```/!p }' "$crates/README.md" >src/main.rs
cat >Cargo.toml <<'END_OF_MANIFEST'
[package]
name = "program"
version = "1.0.0"
edition = "2021"
END_OF_MANIFEST
quietly cargo add --path "$crates/cohort"
# The file that pkg-config has of an installation.
cat >cohort.pc <<END_OF_PACKAGE
libdir=$lib
Name: cohort
Description: for this test
Version: 0.2.0
END_OF_PACKAGE
unset COHORT_LIB_DIR
PKG_CONFIG_PATH=$PWD PKG_CONFIG_LIBDIR=$PWD
export PKG_CONFIG_PATH PKG_CONFIG_LIBDIR LD_LIBRARY_PATH=$lib
if command -v pkg-config >/dev/null; then
	quietly cargo build
	fits timeout 60 "$CARGO_TARGET_DIR/debug/program"
fi
# fails TEXT - cargo must, and say so
fails() {
	! cargo build >"$scratch/log" 2>&1 && grep -qF -e "$1" "$scratch/log" && return
	echo "no '$1'"
	cat "$scratch/log"
	return 1
}
sed -i 's/^Version.*/Version: 0.1.9/' cohort.pc
if [ "$lib" = "$(realpath "$crates/../../build/lib")" ]; then
	PKG_CONFIG=/nowhere quietly cargo build
	fits timeout 60 "$CARGO_TARGET_DIR/debug/program"
fi
COHORT_LIB_DIR=$scratch fails "COHORT_LIB_DIR: \"$scratch\" does not have it"
