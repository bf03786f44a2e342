#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test cohort check, with the command in directory $1: it finds and names each kind of
# trouble, gives advice and an exit status, and a hang ends only its own trial.

set -u

out=$1
cohort=$out/cohort
drop_in=$out/lib/drop-in
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

for variable in $(compgen -e | grep -E '^(COHORT|NCCL|CUDA|PMIX)_'); do
	unset "$variable"
done
# Let only this test's settings cause findings.
export COHORT_PLATFORM=host HOME=$scratch
log=$scratch/log

fail() {
	echo "$*"
	sed 's/^/    /' "$log"
	failed=1
}

# check STATUS ARGUMENT... - run the command, with one finding per line of $log, such as
#	{"check":"device","result":"ok","subject":null,"what":"...","advice":null}
check() {
	local status=$1 rc
	shift

	timeout 120 "$cohort" check --json "$@" >"$log" 2>"$scratch/err"
	rc=$?
	[ "$rc" -eq "$status" ] || fail "check $*: exit status $rc, not $status"
}

# one - run the command on one device, with any exit status
one() {
	timeout 120 "$cohort" check --json --devices 0 >"$log" 2>"$scratch/err"
}

# has RESULT CHECK SUBJECT TEXT - fail unless there is this finding (SUBJECT is "-" if it has none)
has() {
	local subject="\"$3\""

	[ "$3" != - ] || subject=null
	grep -F "{\"check\":\"$2\",\"result\":\"$1\",\"subject\":$subject,\"what\":\"" "$log" |
		grep -qF -- "$4" || fail "no $1 of $2, about $3, with \"$4\""
}

# lacks RESULT CHECK - fail if there is such a finding
lacks() {
	! grep -qF "{\"check\":\"$2\",\"result\":\"$1\"," "$log" ||
		fail "there is a finding of $2: $1"
}

# ---- devices and paths ----------------------------------------------------------

COHORT_HOST_DEVICES=5 check 0
has ok device - '5 of 5'
has ok peer-copy - '10 of 10 pairs'
has ok all-reduce - '10 of 10 pairs'
lacks error peer-copy
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys
found = json.load(sys.stdin)
assert found["errors"] == 0 and found["ok"] == sum(
    c["result"] == "ok" for c in found["checks"]), found
assert {"platform", "nccl-version", "cuda-version", "driver-version", "libraries", "launcher",
        "cohort-variables", "nccl-files", "nccl-variables", "cuda-variables",
        "shared-memory", "limits", "device-files", "cgroup", "system-calls", "device",
        "peer-copy", "all-reduce"} <= {c["check"] for c in found["checks"]}, found
' <"$log" || fail "the JSON is wrong"
fi

# A dead path, two that damage data or fail, and a device that fails: each is named, and
# the rest is still tested.
COHORT_HOST_DEVICES=5 COHORT_FAULTS=0@1:path,0@2:garble,1@2:path=217,3@3:path=719 \
	check 1 --deadline 2
has error device 3 'unspecified launch failure (719)'
has ok device - '4 of 5'
has error peer-copy 0-1 'a copy from device 0 to device 1 did not finish within 2 s'
has error peer-copy 0-1 'the path is advertised but dead'
has error all-reduce 0-1 'has started and has not finished'
has error all-reduce 0-1 'with NCCL_P2P_DISABLE=1 it works'
has error peer-copy 0-2 '1 of 4194304 bytes from device 0 are wrong on device 2'
has error all-reduce 0-2 'a sum of floats is wrong'
has error peer-copy 1-2 'peer access is not supported between these two devices (217)'
has error all-reduce 1-2 'device 2 has failed'
has ok peer-copy - '3 of 6 pairs'
has ok all-reduce - '3 of 6 pairs'
has warning cohort-variables COHORT_FAULTS 'Scripted faults'
! grep -q '"subject":"[0-9]*-3"\|"subject":"3-' "$log" ||
	fail 'a device that has failed was tried in a pair'

# Memory that does not respond; NCCL without direct paths.
COHORT_HOST_DEVICES=2 COHORT_FAULTS=1@1:path check 1 --deadline 1
has error device 1 'a copy from the host did not finish'
has skipped all-reduce - 'A pair needs two devices that work'
COHORT_FAULTS=0@1:path NCCL_P2P_DISABLE=1 check 1 --devices 0,1 --deadline 2
has error peer-copy 0-1 'advertised but dead'
has ok all-reduce - '1 of 1 pairs'
has warning nccl-variables NCCL_P2P_DISABLE 'avoids the direct paths'

# A value with terminal escape sequences.
NCCL_P2P_LEVEL=$(printf '\033[2J') timeout 120 "$cohort" check --devices 0 >"$log" 2>&1
grep -qF 'the level "?[2J"' "$log" || fail 'the value of NCCL_P2P_LEVEL is not named'
! tr -d '\n' <"$log" | LC_ALL=C grep -q '[[:cntrl:]]' ||
	fail 'the table has control characters'

# A rank that never joins its init.
COHORT_FAULTS=1@0:init check 1 --devices 4,5 --deadline 1
has error all-reduce 4-5 'init stuck'
has error all-reduce 4-5 'it does not work with NCCL_P2P_DISABLE=1 either'

# An error that the library reports for all pairs is reported once, and no pair is blamed.
COHORT_LAUNCH=x check 1 --devices 0,1,2
has error cohort-variables COHORT_LAUNCH 'not together or ahead'
has error all-reduce - 'No group can be opened: COHORT_LAUNCH is'
has ok peer-copy - '3 of 3 pairs'
[ "$(grep -c '"check":"all-reduce"' "$log")" -eq 1 ] || fail 'more than one line about all-reduce'

# More pairs than can be tested in the given time.
COHORT_HOST_DEVICES=200 check 0 --limit 1
grep -q 'of 19900 pairs were not tried within 1 s\|devices were not tried within 1 s' "$log" ||
	fail 'it says nothing of the pairs that it has not tried'

# Test the gpu platform on the drop-in libraries.
COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$drop_in COHORT_FAULTS=2@0:garble \
	check 1 --devices 0,2
has ok platform - 'gpu, 8 devices'
has error peer-copy 0-2 'are wrong on device'

# ---- libraries and versions --------------------------------------------------------

# stand_in DIR FILE OPTION... - build a library that reports another version
stand_in() {
	local dir=$scratch/$1 file=$2
	shift 2

	mkdir -p "$dir"
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Isrc -shared -fPIC -w "$@" -o "$dir/$file" \
		tests/system/loader.c || exit 1
}

export LOADER_DEVICES=2
COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$scratch/nowhere check 1
has error platform - 'cannot open libcudart.so.13'
has skipped device - 'cannot be used'

stand_in old libcudart.so.13 -DCUDART -DVERSION=13000
stand_in old libnccl.so.2 -DNCCL -DVERSION=22105
COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$scratch/old check 1
has error platform - 'is NCCL 2.21.5; 2.26.2 or newer is needed'
has error nccl-version 2.21.5 'Aborts are slow and may hang'

stand_in older libcudart.so.13 -DCUDART -DVERSION=11080
COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$scratch/older check 1
has error cuda-version 11.8 'CUDA 12.0 release notes'

# A version with known faults, and devices that give wrong answers.
stand_in known libcudart.so.13 -DCUDART -DVERSION=13000
stand_in known libnccl.so.2 -DNCCL -DVERSION=22602
mkdir "$scratch/other"
cp "$scratch/old/libnccl.so.2" "$scratch/other"
export COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$scratch/known
LD_LIBRARY_PATH=$scratch/other NCCL_SOCKET_IFNAME=nowhere0 CUDA_VISIBLE_DEVICES=0,0 \
	NCCL_CONF_FILE=/nowhere/nccl.conf NCCL_HOMES=/usr NCCL_VERSION=2.26.2-1 \
	NCCL_GRAPH_FILE=/nowhere/graph.xml check 1
has warning nccl-variables NCCL_HOMES 'does not know the variable'
! grep -qF '"subject":"NCCL_VERSION"' "$log" || fail 'a variable that container images set is reported'
has warning nccl-version 2.26.2 'NVIDIA/nccl#2418'
has warning libraries libnccl.so.2 "programs that are linked with it get $scratch/other"
has warning cuda-variables CUDA_MODULE_LOADING 'loading may wait for kernels on all GPUs'
has error device 0 'bytes are wrong on device 0, the first at'
# A variable that NVIDIA's libraries read, but the simulator does not, is an error there.
has error nccl-variables NCCL_SOCKET_IFNAME 'No interface matches'
has error nccl-variables NCCL_GRAPH_FILE 'so no communicator can be created'
has error nccl-files NCCL_CONF_FILE 'No such file'
has error cuda-variables CUDA_VISIBLE_DEVICES 'names a device twice'

# The loader uses the first library it finds, and so do groups.
LD_LIBRARY_PATH=$scratch/known:$scratch/other one
has ok libraries - "$scratch/known/libnccl.so.2 and "
(ulimit -n 48 && one)
has error limits nofile '48 open files are allowed'

# mounted OPTIONS COMMAND... - run COMMAND..., then the rest, with its own /dev/shm
mounted() {
	local options=$1
	shift

	# shellcheck disable=SC2016 # variables of the inner shell
	unshare -m sh -c 'options=$1 && cohort=$2 && shift 2 &&
		mount -t tmpfs -o "$options" none /dev/shm && "$@" &&
		exec timeout 60 "$cohort" check --json --devices 0' \
		sh "$options" "$cohort" "$@" >"$log" 2>"$scratch/err"
}
if unshare -m mount -t tmpfs none /dev/shm 2>/dev/null; then
	mounted size=512k true
	has error shared-memory - 'cannot open a group'
	mounted size=4m true
	has error shared-memory - '4 MiB are left in /dev/shm, but a run of 1 rank needs about 10; otherwise the creation of a communicator may fail'
	mounted size=15m true
	has warning shared-memory - '15 MiB are left in /dev/shm, but a run of 1 rank needs about 20'
	mounted ro true
	has error shared-memory - 'Read-only file system'
	mounted size=64m true
	has ok shared-memory - '64 MiB are left'
	lacks warning shared-memory
else
	echo '[SKIP] /dev/shm: this user cannot mount another one'
fi
unset LOADER_DEVICES COHORT_GPU_LIBRARIES COHORT_PLATFORM

# NVIDIA's libraries without a GPU, if the user did not ask for them.
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/nvhost-ctrl-gpu ] &&
	[ ! -e /usr/lib/wsl/lib/libcuda.so.1 ]; then
	LD_LIBRARY_PATH=$scratch/known one
	has warning platform - 'but there is no /dev/nvidiactl, so groups run on CPUs'
	COHORT_PLATFORM=host LD_LIBRARY_PATH=$scratch/known one
	has ok platform - 'host, 8 devices'
fi
export COHORT_PLATFORM=host

# ---- variables -----------------------------------------------------------------------

COHORT_LAUNHC=x COHORT_LAUNCH=x COHORT_POLICY=few one
has warning cohort-variables COHORT_LAUNHC 'did you mean COHORT_LAUNCH?'
has error cohort-variables COHORT_LAUNCH 'not together or ahead'
has error cohort-variables COHORT_POLICY 'is \"few\"'
COHORT_DUMP_SIGNAL=10 one
has error cohort-variables COHORT_DUMP_SIGNAL 'COHORT_DUMP_SIGNAL'
COHORT_DUMP_SIGNAL=10 COHORT_DUMP_DIR=$scratch/dumps one
has ok cohort-variables - 'all of them known'

NCCL_SOCKET_IFNAME=nowhere0 NCCL_P2P_DISABLE=yes NCCL_COMM_BLOCKING=0 \
	NCCL_TOPO_FILE=/nowhere NCCL_COMM_ID=10.0.0.1:5000 one
has warning nccl-variables NCCL_SOCKET_IFNAME 'No interface matches \"nowhere0\"'
has warning nccl-variables NCCL_P2P_DISABLE 'NCCL reads it as 0'
has error nccl-variables NCCL_COMM_BLOCKING 'calls would return before they are done'
has warning nccl-variables NCCL_TOPO_FILE 'continues without it'
has warning nccl-variables NCCL_COMM_ID 'the same id'
NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN one
has ok nccl-variables - '2 set; 1 checked, no error found'

# Report how NCCL reads a value; report nothing about values that are not checked.
NCCL_GRAPH_FILE=/nowhere NCCL_BUFFSIZE=4M NCCL_P2P_LEVEL=PXI \
	NCCL_MAX_CTAS=99999999999999999999 one
has warning nccl-variables NCCL_GRAPH_FILE 'so no communicator can be created'
has warning nccl-variables NCCL_BUFFSIZE 'reads the value \"4M\" as 4, and ignores the rest'
has warning nccl-variables NCCL_P2P_LEVEL 'does not know the level \"PXI\", and ignores it'
has warning nccl-variables NCCL_MAX_CTAS 'too large, and NCCL uses its default'
NCCL_GRAPH_FILE='' NCCL_P2P_LEVEL=sys one
has warning nccl-variables NCCL_GRAPH_FILE '\"\": No such file or directory'
has warning nccl-variables NCCL_P2P_LEVEL 'does not know the level \"sys\"'
NCCL_P2P_LEVEL=00 one
has warning nccl-variables NCCL_P2P_LEVEL 'makes NCCL avoid the direct paths'
NCCL_ALGO=Rinq NCCL_BUFFSIZE=0x400000 NCCL_P2P_LEVEL=NVL \
	NCCL_NET_PLUGIN=/nowhere/a.so,b one
has ok nccl-variables - '4 set; 3 checked, no error found'
NCCL_P2P_LEVEL=2 one
has ok nccl-variables - '1 set; 1 checked, no error found'

CUDA_VISIBLE_DEVICES='' CUDA_LAUNCH_BLOCKING=1 CUDA_DEVICE_MAX_CONNECTIONS=1 one
has warning cuda-variables CUDA_VISIBLE_DEVICES 'is empty'
has warning cuda-variables CUDA_LAUNCH_BLOCKING 'nothing overlaps'
has warning cuda-variables CUDA_DEVICE_MAX_CONNECTIONS 'share one queue'

# Variables from a configuration file, with file and line.
printf '%s\n' '# settings' 'NCCL_LAUNCH_MODE=GROUP' 'NCCL_DEBUG = INFO' >"$scratch/nccl.conf"
NCCL_CONF_FILE=$scratch/nccl.conf one
has error nccl-variables NCCL_LAUNCH_MODE "(from $scratch/nccl.conf, line 2)"
has warning nccl-files "$scratch/nccl.conf:3" 'a space around the name'
NCCL_CONF_FILE=/nowhere/nccl.conf one
has warning nccl-files NCCL_CONF_FILE '/nowhere/nccl.conf: No such file or directory'
# A directory in which nothing can be written.
mkfifo "$scratch/fifo"
NCCL_CONF_FILE=$scratch/fifo one
has warning nccl-files NCCL_CONF_FILE "$scratch/fifo: not a regular file"

# ---- the machine -----------------------------------------------------------------------

(ulimit -n 48 && one)
has warning limits nofile '48 open files are allowed'

# Root is exempt from the limit on threads.
nobody=(setpriv --reuid 65534 --clear-groups)
if [ "$(id -u)" -eq 0 ] && "${nobody[@]}" "$cohort" --version >/dev/null 2>&1; then
	# shellcheck disable=SC2016 # variables of the inner shell
	"${nobody[@]}" bash -c 'ulimit -u 60; exec timeout 60 "$1" check --json --devices 0' \
		sh "$cohort" >"$log" 2>"$scratch/err"
	has warning limits nproc 'threads are left for the user'
	# Too few threads are the cause; no device, path or value is blamed.
	: >"$scratch/all"
	for threads in 2 3 4 5 6 7 8 9 10; do
		# shellcheck disable=SC2016 # variables of the inner shell
		COHORT_HOST_DEVICES=2 "${nobody[@]}" bash -c 'ulimit -u "$2" &&
			exec timeout 60 "$1" check --json --devices 0,1 --deadline 2' \
			sh "$cohort" "$threads" >"$log" 2>"$scratch/err"
		! grep -qE '"result":"error","subject":"([0-9]|COHORT)' "$log" ||
			fail "with $threads threads, a device or a value is blamed"
		cat "$log" >>"$scratch/all"
	done
	cp "$scratch/all" "$log"
	has error all-reduce - 'No group can be opened: cannot start'
else
	echo '[SKIP] the limit on threads: this user cannot switch to another user'
fi

# A launcher without libpmix, on machines that lack it.
PMIX_NAMESPACE=here PMIX_RANK=0 one
grep -q '"check":"launcher","result":"\(ok\|error\)"' "$log" || fail 'no check of the launcher'

# ---- usage, text and exit status -----------------------------------------------------------

# refuses TEXT ARGUMENT... - fail unless the command refuses its arguments with TEXT
refuses() {
	local text=$1
	shift

	"$cohort" check "$@" >"$log" 2>&1
	[ $? -eq 2 ] || fail "check $*: not refused"
	grep -qF -- "$text" "$log" || fail "check $*: no \"$text\""
}
refuses "there is no device 8: devices are 0 to 7" --devices 0,8
refuses "names device 1 twice" --devices 1,1
refuses '--devices: "x"' --devices 0,x
refuses '--devices: ""' --devices ''
refuses '--deadline: "0"' --deadline 0
refuses '--limit: "soon"' --limit soon
refuses operand operand

COHORT_MISSPELT=1 check 0 --devices 0
has warning cohort-variables COHORT_MISSPELT 'There is no such variable'
COHORT_MISSPELT=1 check 1 --devices 0 --strict

COHORT_FAULTS=0@0:path=719 "$cohort" check --devices 0,1 >"$log" 2>&1 && fail 'the exit status is 0'
grep -q '^error    device 0: .*(719)$' "$log" || fail 'no line about the device'
grep -q '^         -> ' "$log" || fail 'no advice'
grep -qE '^[0-9]+ errors?, [0-9]+ warnings?, [0-9]+ ok, [0-9]+ skipped$' "$log" ||
	fail 'no summary'
awk 'length > 79 { exit 1 }' "$log" || fail 'a line is longer than 79 columns'
"$cohort" check --devices 0 >/dev/full 2>"$log" && fail 'a full disk goes unnoticed'

exit "$failed"
