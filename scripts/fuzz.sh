#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run a fuzzer with libFuzzer, starting from a corpus, which is not modified.
#
#	scripts/fuzz.sh --check CLANG
#	scripts/fuzz.sh PROGRAM CORPUS SECONDS [FLAG...]
#
# The first form reports whether CLANG has libFuzzer and, if it does not, what to install.  The
# second form keeps new inputs in build/fuzz/corpus, and also starts from them the next time.  It
# saves an input that crashes, hangs or leaks in build/fuzz, and its last lines say how to run that
# input again.

set -u

check() {
	command -v "$1" >/dev/null || {
		echo "make fuzz needs $1: install clang (Debian, Ubuntu)" >&2
		return 1
	}
	echo 'int LLVMFuzzerTestOneInput(const char *d, long n)
		{ return (int)(*d * n * 0); }' |
		"$1" -fsanitize=fuzzer,address -x c -o /dev/null - \
			2>/dev/null && return
	echo "$1 has no libFuzzer: install the libclang-rt-dev of its" \
		"version, as libclang-rt-14-dev (Debian, Ubuntu)" >&2
	return 1
}

if [ "$1" = --check ]; then
	check "$2"
	exit
fi

program=$1 corpus=$2 seconds=$3
shift 3
kept=build/fuzz/corpus
log=build/fuzz/$(basename "$program").log
mkdir -p $kept
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=64:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"

# libFuzzer tries smaller inputs first.  The longest inputs, of 514 bytes, have 64 steps.
if "$program" -max_total_time="$seconds" -timeout=25 -max_len=514 \
	-detect_leaks=1 -print_final_stats=1 -artifact_prefix=build/fuzz/ \
	"$@" $kept "$corpus" >"$log" 2>&1; then
	grep -E '^#.* DONE|^Done |^stat::' "$log"
	echo "1 passed, 0 failed, 0 skipped"
	exit 0
fi
tail -n 100 "$log"
echo "Full output: $log.  To run an input again: $program INPUT, or without libFuzzer" \
	"make VARIANT=asan build/asan/tests/system/fuzz/replay &&" \
	"build/asan/tests/system/fuzz/replay INPUT; FUZZ_SHOW=1 prints it."
echo "0 passed, 1 failed, 0 skipped"
exit 1
