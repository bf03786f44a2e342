#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the Rust crates: their declarations against bindings/cohort_abi.json, their tests,
# documentation, lint and examples, and README.md's program in a crate outside the tree, with
# the library found in each supported way.
#
# With asan, for a library that GCC compiled with AddressSanitizer, run only the tests; they
# check what C does with Rust's memory.  Leaks are not checked, as some tests leak on purpose.
#
# With aarch64, run only the tests, which Debian's rustc compiles with the standard library in the
# sysroot (scripts/sysroot.sh) of the compiler and linker $CC.
#
# usage: rust.sh LIB [asan | aarch64]      exit status 0 passed, 1 failed, 77 skipped

set -eu

lib=$(realpath "${1:?usage: rust.sh LIB [asan | aarch64]}")
mode=${2-}
cargo=cargo
if [ "$mode" = asan ]; then
	linked=$(ldd "$lib/libcohort.so")
	asan=$(awk '/libasan/ && $3 ~ /^\// { print $3 }' <<<"$linked")
	[ -n "$asan" ] || { echo "$lib/libcohort.so does not use GCC's libasan.so; build it with GCC"; exit 77; }
elif [ "$mode" = aarch64 ]; then
	# Use Debian's tools, because the standard library for AArch64 is Debian's.
	cargo=/usr/bin/cargo
	export RUSTC=/usr/bin/rustc CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${CC%% *}
	export RUSTFLAGS="--sysroot=${CC#*--sysroot=}/usr -Clink-arg=${CC#* }"
	for tool in $cargo $RUSTC; do
		[ -x "$tool" ] || { echo "$tool is not installed (Debian: ${tool##*/})"; exit 77; }
	done
fi
for tool in cargo rustc rustdoc; do
	command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done

unset COHORT_HOST_DEVICES COHORT_FAULTS COHORT_LAUNCH COHORT_HOST_SYNC
export COHORT_PLATFORM=host COHORT_HOST_STRICT=1 COHORT_LIB_DIR=$lib
# Keep build outputs beside the library, for the next run, and out of the source tree.
export CARGO_TARGET_DIR=${lib%/*}/rust CARGO_NET_OFFLINE=true
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TERM_COLOR=never
export RUST_BACKTRACE=0
crates=$PWD/bindings/rust
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# quietly COMMAND... - run a command; show its output only if it fails
quietly() {
	"$@" >"$scratch/log" 2>&1 && return
	echo "failed: $*"
	cat "$scratch/log"
	return 1
}

# fits COMMAND... - fail unless a command prints what README.md's program prints
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
if [ "$mode" = asan ]; then
	export RUSTFLAGS=-Clink-arg=-Wl,--allow-shlib-undefined
	export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$asan"
	export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" LD_LIBRARY_PATH=$lib
fi
if [ -n "$mode" ]; then
	timeout 400 $cargo test --locked --features half --tests
	exit
fi
echo "tests"
unset LD_LIBRARY_PATH # cargo finds the library
# Cargo 1.65 does not set the path of the library for documentation tests.
for tests in --tests --doc; do
	[ $tests = --tests ] || export LD_LIBRARY_PATH=$lib
	timeout 240 cargo test --locked --features half $tests >"$scratch/log" 2>&1 || {
		cat "$scratch/log"
		exit 1
	}
	grep '^test result' "$scratch/log"
done
unset LD_LIBRARY_PATH

echo "examples"
fits timeout 60 cargo run -q --locked --example average
timeout 60 cargo run -q --locked --example supervised | diff - <(
	echo "rank 2 has not reached step 10"
	echo "generation 2: 3 ranks continue"
	echo "trained to step 20"
)

# Miri cannot call C, so the test replaces C's functions with Rust ones.
if cargo miri --version >/dev/null 2>&1; then
	echo "Miri"
	quietly timeout 240 cargo miri test --locked -p cohort --test memory
else
	echo "[SKIP] Miri is not installed"
fi
if cargo clippy --version >/dev/null 2>&1; then
	echo "clippy"
	quietly cargo clippy --locked --features half --all-targets -- -D warnings
fi
if cargo fmt --version >/dev/null 2>&1; then
	echo "layout"
	cargo fmt --check
fi
echo "documentation"
RUSTDOCFLAGS="-D warnings" quietly cargo doc --locked --no-deps

echo "README program in a crate outside the tree"
mkdir -p "$scratch/program/src"
cd "$scratch/program"
# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^```rust$/,/^```$/ { /^```/!p }' "$crates/cohort/README.md" >src/main.rs
cat >Cargo.toml <<'END_OF_MANIFEST'
[package]
name = "program"
version = "1.0.0"
edition = "2021"
END_OF_MANIFEST
quietly cargo add --path "$crates/cohort"
# A pkg-config file like that of an installation.
cat >cohort.pc <<END_OF_PACKAGE
libdir=$lib
Name: cohort
Description: test
Version: 0.2.0
END_OF_PACKAGE
unset COHORT_LIB_DIR
PKG_CONFIG_PATH=$PWD PKG_CONFIG_LIBDIR=$PWD
export PKG_CONFIG_PATH PKG_CONFIG_LIBDIR
if command -v pkg-config >/dev/null; then
	fits timeout 240 cargo run -q
fi
# fails TEXT - fail unless cargo build fails with this text
fails() {
	! cargo build >"$scratch/log" 2>&1 && grep -qF -e "$1" "$scratch/log" && return
	echo "cargo build did not fail with '$1'"
	cat "$scratch/log"
	return 1
}
sed -i 's/^Version.*/Version: 0.1.9/' cohort.pc
if [ "$lib" = "$(realpath "$crates/../../build/lib")" ]; then
	PKG_CONFIG=/nowhere fits timeout 240 cargo run -q
fi
COHORT_LIB_DIR=$scratch fails "COHORT_LIB_DIR: \"$scratch\" does not contain it"
# scripts/packages.sh builds a program with the feature vendored.
quietly cargo add --path "$crates/cohort" --features vendored
mkdir bin
printf '#!/bin/sh\necho "no compiler" >&2\nexit 1\n' >bin/make
chmod +x bin/make
PATH=$PWD/bin:$PATH fails "no compiler"
