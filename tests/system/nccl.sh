#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run programs for NCCL and the CUDA runtime with NVIDIA's own NCCL on the simulator's
# devices: the one that cohort run --nccl auto finds, or LIBRARY.
#
#	nccl.sh OUT [LIBRARY]
#
# Each program is one of tests/system/programs, linked with the libraries in
# OUT/lib/drop-in, and must print OK.

set -u

out=$1
nccl=${2:-auto}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

skip() {
	echo "$*"
	exit 77
}

if ! "$out/cohort" run --nccl "$nccl" -- true 2>"$scratch/err"; then
	if ! grep -q 'no libnccl.so.2\|works on x86-64 only' "$scratch/err"; then
		cat "$scratch/err"
		exit 1
	fi
	skip "$(sed 's/^cohort run: //' "$scratch/err")"
fi

# build PROGRAM - build $scratch/PROGRAM
build() {
	${CC:-cc} -std=gnu11 -O1 -Wall -Wextra -Werror -Isrc \
		-Isrc/sim/include "tests/system/programs/$1.c" \
		-o "$scratch/$1" -L"$out/lib/drop-in" -lnccl -lcudart -pthread -lm
}

# try PROGRAM RANKS [VARIABLE=VALUE]... - run it; it must print OK and nothing else
try() {
	local program=$1 ranks=$2
	shift 2

	if timeout 120 env "$@" "$out/cohort" run -n "$ranks" --nccl "$nccl" -- \
		"$scratch/$program" >"$scratch/out" 2>"$scratch/err" &&
		[ ! -s "$scratch/err" ] && [ "$(cat "$scratch/out")" = OK ]; then
		return
	fi
	if grep -q 'is not supported by the simulator' "$scratch/err"; then
		skip "$(cat "$scratch/err")"
	fi
	echo "$program, $ranks ranks, $*:"
	cat "$scratch/out" "$scratch/err"
	failed=1
}

for program in exchange groups graph nonblocking registered ring scaled split threads; do
	build "$program" || exit 1
	try "$program" 1
	try "$program" 2
	try "$program" 4
done

# Trees, which only some collectives have.  They are connected by the init, because in a
# first call one rank's kernel may wait for a rank whose connections wait for that kernel.
tree=('NCCL_ALGO=ring;allreduce:tree' NCCL_RUNTIME_CONNECT=0)

# Random calls, with each protocol, and with a tree in addition to a ring if there is one.
build fuzz || exit 1
for protocol in LL LL128 Simple; do
	try fuzz 2 "NCCL_PROTO=$protocol"
	try fuzz 4 "NCCL_PROTO=$protocol" "${tree[@]}"
done
try fuzz 4 NCCL_MAX_NCHANNELS=4

# Other ways to access a peer's memory: through the runtime, and through shared memory.
for setting in NCCL_CUMEM_ENABLE=0 NCCL_P2P_DISABLE=1 NCCL_MAX_NCHANNELS=4; do
	try threads 4 "$setting"
	try ring 4 "$setting"
done

try threads 4 "${tree[@]}"
try groups 4 "${tree[@]}"

# A rank that never calls.  Connect ranks first, because the first collective would wait
# for that rank in host code.
build abort || exit 1
try abort 2 NCCL_RUNTIME_CONNECT=0
try abort 4 NCCL_RUNTIME_CONNECT=0

# A collective on a freed buffer must be reported as an error of its device.
build freed || exit 1
if ! timeout 120 "$out/cohort" run -n 3 --nccl "$nccl" -- "$scratch/freed" \
	>"$scratch/out" 2>"$scratch/err" || [ "$(cat "$scratch/out")" != OK ] ||
	! grep -q 'rank 0: AllReduce by Ring uses 4000 bytes at' "$scratch/err"; then
	echo "freed:"
	cat "$scratch/out" "$scratch/err"
	failed=1
fi

# A group that loses a rank and continues without it.
if ! timeout 120 "$out/cohort" run -n 4 --nccl "$nccl" -- \
	"$out/cohort" demo --ranks 4 >"$scratch/out" 2>&1 ||
	! grep -q 'generation 2: 3 ranks continue' "$scratch/out"; then
	echo "cohort demo:"
	cat "$scratch/out"
	failed=1
fi

"$out/cohort" run --nccl "$nccl" -- "$out/cohort" info >"$scratch/out"
if ! grep -q "NVIDIA's NCCL on Cohort's drop-in libraries" "$scratch/out" ||
	grep -q 'nvidia/libnccl' "$scratch/out"; then
	echo "cohort info:"
	cat "$scratch/out"
	failed=1
fi

# Errors that must not matter: a dead path of the simulator's copies, which NVIDIA's NCCL
# does not use, and a misspelled variable.
COHORT_FAULTS=0@1:path NCCL_SOCKET_IFNAMES=lo timeout 120 "$out/cohort" run -n 3 \
	--nccl "$nccl" -- "$out/cohort" check --json --deadline 5 >"$scratch/out" 2>"$scratch/err"
if [ $? -ne 1 ] || ! grep -q '"what":"gpu, 3 devices.*on simulated devices' "$scratch/out" ||
	! grep -q '"subject":"0-1","what":"a copy .*advertised but dead' "$scratch/out" ||
	! grep -q '"peer-copy","result":"ok".*"2 of 3 pairs' "$scratch/out" ||
	! grep -q '"all-reduce","result":"ok".*"3 of 3 pairs' "$scratch/out" ||
	! grep -q '_IFNAMES","what":.*"Did you mean NCCL_SOCKET_IFNAME?' "$scratch/out"; then
	echo "cohort check:"
	cat "$scratch/out" "$scratch/err"
	failed=1
fi

# refused WHY LIBRARY - check that this NCCL is refused because of WHY
refused() {
	if "$out/cohort" run --nccl "$2" -- "$scratch/threads" \
		>"$scratch/out" 2>"$scratch/err" ||
		! grep -q "$1" "$scratch/err"; then
		echo "--nccl $2: no \"$1\" in:"
		cat "$scratch/out" "$scratch/err"
		failed=1
	fi
}

refused 'No such file' "$scratch/none"
refused 'it belongs to the simulator' "$out/lib/drop-in/libnccl.so.2"
# fake NAME VERSION - create $scratch/NAME/libnccl.so.2, which reports VERSION
fake() {
	mkdir -p "$scratch/$1"
	echo "int ncclGetVersion(int *v) { return *v = $2, 0; }" >"$scratch/fake.c"
	${CC:-cc} -shared -fPIC -o "$scratch/$1/libnccl.so.2" "$scratch/fake.c"
}

fake unknown 22707
fake stripped 22809
strip "$scratch/stripped/libnccl.so.2"
fake other 23102
refused 'NCCL 2.27.7 is not supported by the simulator, which supports 2.28.9' \
	"$scratch/unknown/libnccl.so.2"
refused 'is stripped' "$scratch/stripped/libnccl.so.2"
refused 'is NCCL 2.31.2, but not the supported build: the size of ncclDevFuncRowToId' \
	"$scratch/other/libnccl.so.2"

# A known library is preferred to the first one that the loader finds.
if [ "$nccl" = auto ] && ! LD_LIBRARY_PATH=$scratch/unknown "$out/cohort" run \
	--nccl auto -- "$scratch/threads" >"$scratch/out" 2>&1; then
	echo "--nccl auto beside an unknown version:"
	cat "$scratch/out"
	failed=1
fi

refused 'has no ELF header' tests/system/nccl.sh
refused 'not a regular file' "$out/lib"

exit $failed
