#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Test the command as a user calls it: help, wrong options, contents of its JSON, and that
# training with any number of ranks gives the weights of a single run.
#
# usage: command.sh COHORT        exit status 0 passed, 1 failed, 77 skipped
#
# Tests the host platform, even if the machine has GPUs.

set -u
cohort=${1:?usage: command.sh COHORT}
[ -x "$cohort" ] || { echo "command.sh: $cohort is not built"; exit 77; }

unset COHORT_HOST_DEVICES COHORT_FAULTS
COHORT_PLATFORM=host
export COHORT_PLATFORM

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

fail()
{
	echo "command.sh: $*"
	sed 's/^/    /' "$dir/out" "$dir/err"
	failures=$((failures + 1))
}

# run STATUS ARGUMENT... - run the command, which must exit with STATUS
run()
{
	want=$1
	shift
	"$cohort" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got -eq "$want" ] || fail "cohort $*: exit $got, not $want"
}

# quiet NAME - fail unless standard error is empty
quiet()
{
	[ ! -s "$dir/err" ] || fail "$1: wrote to standard error"
}

# helps ARGUMENT... - fail unless the command prints help, on standard output only
helps()
{
	run 0 "$@"
	quiet "cohort $*"
	[ -s "$dir/out" ] || fail "cohort $*: printed nothing"
}

# narrow NAME - fail unless the output fits in 80 columns
narrow()
{
	awk 'length > 79 { exit 1 }' "$dir/out" ||
		fail "$1: a line is longer than 79 columns"
}

# refuses WORD ARGUMENT... - fail unless the error is one line that contains WORD
refuses()
{
	word=$1
	shift
	run 2 "$@"
	[ ! -s "$dir/out" ] || fail "cohort $*: wrote to standard output"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "cohort $*: not one line"
	grep -qF -e "$word" "$dir/err" || fail "cohort $*: no '$word' in it"
}

# has_keys KEY... - fail unless the output is one JSON object with these members
has_keys()
{
	if command -v python3 >/dev/null 2>&1; then
		python3 -m json.tool <"$dir/out" >/dev/null 2>&1 ||
			fail "$what: not JSON"
	fi
	[ "$(wc -l <"$dir/out")" -eq 1 ] || fail "$what: not one line"
	for key in "$@"; do
		grep -qF "\"$key\":" "$dir/out" || fail "$what: no \"$key\""
	done
}

# ---- help and version ------------------------------------------------------

helps --version
helps --help
narrow 'cohort --help'
for command in info check demo bench drill launch run top trace; do
	helps $command -h
	helps $command --help
	narrow "cohort $command --help"
done

# ---- environment -----------------------------------------------------------

# told TEXT - fail unless standard error has this line once
told()
{
	[ "$(grep -cF "$1" "$dir/err")" = 1 ] || fail "not once: $1"
}

# If all known variables are set, there is no warning.
(
	export COHORT_DUMP_DIR="$dir/dumps" COHORT_DUMP_FIFO="$dir/fifo"
	export COHORT_DUMP_SIGNAL=10 COHORT_FAULTS='' COHORT_GPU_LIBRARIES=''
	export COHORT_HOST_DEVICES=2
	export COHORT_HOST_STRICT=0 COHORT_LOG=verdict
	run 0 --version
	quiet 'known variables'
	exit $failures
) || failures=$((failures + 1))
export COHORT_PLATFROM=host COHORT_HOSTDEVICES=2
run 0 --version
told 'cohort: COHORT_PLATFROM is set in the environment, but Cohort has no such variable; did you mean COHORT_PLATFORM?'
told 'cohort: COHORT_HOSTDEVICES is set in the environment, but Cohort has no such variable; did you mean COHORT_HOST_DEVICES?'
run 0 info --json
told COHORT_PLATFROM
grep -q '"notes":"[^"]*did you mean COHORT_PLATFORM?' "$dir/out" ||
	fail 'info: no note on COHORT_PLATFROM'
env COHORT_LOG=none "$cohort" --version >"$dir/out" 2>"$dir/err"
quiet 'COHORT_LOG=none'
unset COHORT_PLATFROM COHORT_HOSTDEVICES
env "COHORT_$(printf %05000d 0)=1" "$cohort" info --json >"$dir/out" 2>"$dir/err" ||
	fail 'info: a long variable'
grep -q '"notes":"[^"]*0\.\.\."' "$dir/out" || fail 'info: a note is cut without "..."'

# ---- invalid usage ---------------------------------------------------------

refuses command
refuses nonsense nonsense
refuses --bogus --bogus
refuses --version --version=1
for command in info check demo bench drill top trace; do
	refuses --bogus $command --bogus
	refuses -x $command -x
	refuses --json $command --json=1
done
for command in info check demo drill; do
	refuses operand $command operand
done
refuses 'no file' trace
refuses --chrome trace --chrome
refuses --ranks demo --ranks
for value in 0 -1 1025 four 4x '' 99999999999999999999999; do
	refuses "--ranks: \"$value\"" demo --ranks "$value"
done
refuses '--epochs: "0"' demo --epochs 0
refuses '--platform: "cpu"' demo --platform cpu
refuses '--stall: "x" is not RANK@STEP, such as 2@30' demo --stall x
refuses '--stall: "2@3@4" is not RANK@STEP' demo --stall 2@3@4
refuses '--die: "-1@3"' demo --die -1@3
refuses '--mismatch: "1@"' demo --mismatch 1@
refuses '--die: there is no rank 4 at step 0: ranks are 0 to 3' demo --die 4@0
refuses '--stall: there is no rank 3 at step 46: ranks are 0 to 3, steps 0 to 45' \
	demo --epochs 2 --stall 3@46
refuses '--join-deadline: "0"' demo --join-deadline 0
refuses '--processes: "0"' demo --processes 0
refuses '--processes: 5 processes need as many ranks, but there are 3' demo --processes 5 --ranks 3
refuses '--kill: 0 is not a process from 1 to 1' demo --processes 2 --kill 0@3
refuses '--kill: "1" is not PROCESS@STEP' demo --processes 2 --kill 1
refuses '--kill: 2 is not a process from 1 to 1' demo --processes 2 --kill 2@3
refuses '--kill: there is one process, number 0: add --processes 2' demo --kill 1@5
refuses '--kill: there is no rank 2 at step 99999' demo --processes 2 --kill 1@99999
refuses '--stall: rank 0 must not fail: it is the only rank of process 0' \
	demo --ranks 2 --processes 2 --stall 0@3

for value in 0 1 3 16 four ''; do
	refuses "--ranks: \"$value\"" drill --ranks "$value"
done
refuses '--deadline: "9"' drill --deadline 9
refuses '--slack: "-1"' drill --slack -1
refuses '--platform: "cpu"' drill --platform cpu
for value in '' calls call/nonsense call/missing; do
	refuses "--only: \"$value\"" drill --only "$value"
done

refuses 'no collective' bench
refuses '"all_sum" is not a collective' bench all_sum
refuses '"all_reduce_perfect"' bench all_reduce_perfect
refuses '"more": only one collective' bench all more
refuses -b bench all -b
for value in 0 -1 4x 4KK K '' 2048G 99999999999999999999999; do
	refuses "--minbytes: \"$value\"" bench all -b "$value"
	refuses "--maxbytes: \"$value\"" bench all -e "$value"
	refuses "--stepbytes: \"$value\"" bench all -i "$value"
	refuses "--sizes: \"$value\"" bench all --sizes "4,$value"
done
refuses '-e: 1024 bytes is less than -b, 2048 bytes' bench all -b 2K -e 1k
refuses '-f and -i cannot be combined' bench all -f 2 -i 4
refuses '--sizes cannot be combined with' bench all --sizes 4 -b 4
refuses 'more than 256 sizes' bench all -b 1 -e 1M -i 1
for value in 0 -1 1025 four 4x 4K '' 99999999999999999999999; do
	refuses "--stepfactor: \"$value\"" bench all -f "$value"
	refuses "--ranks: \"$value\"" bench all -g "$value"
done
for value in 0 -1 1000001 1K ''; do
	refuses "--iters: \"$value\"" bench all -n "$value"
	refuses "--rounds: \"$value\"" bench all --rounds "$value"
done
refuses '--warmup_iters: "-1"' bench all -w -1
refuses '-d: "float33" is not a type: int8, uint8, int32, ' bench all -d float33
refuses '-o: "mean" is not an operation: sum, prod, max, min, avg, or all' bench all -o mean
refuses '-t: there is one thread per rank; -g sets' bench all_reduce -t 4
refuses '--host: send_recv has no variant with host memory' bench send_recv --host
refuses '--check: "2"' bench all -c 2
refuses '--root: "-1"' bench all -r -1
refuses '-r: 2 is not a rank from 0 to 1' bench all -g 2 -r 2
refuses '--platform: "cpu"' bench all --platform cpu

refuses 'no program' run
refuses 'no program' run -n 2 --strict --
refuses --bogus run --bogus
refuses -n run -n
for value in 0 -1 1025 four ''; do
	refuses "--ranks: \"$value\"" run -n "$value" -- true
done
refuses 'COHORT_FAULTS: "1@" is not RANK@OPERATION:KIND, such as 2@5:delay=50ms' run --faults 1@ true
refuses 'COHORT_FAULTS: "nevr" is not a fault (use never, delay=TIME' run --faults 1@2:nevr true

# ---- run -------------------------------------------------------------------

# Only how the program is started is tested here; tests/system/dropin.sh runs real programs.
what='cohort run'
run 7 run -n 3 -- sh -c 'exit 7'
quiet "$what"
# The program gets its arguments unchanged, and a modified environment.
# shellcheck disable=SC2016
run 0 run -n 3 --strict --faults 1@2:die sh -c 'echo "$1 $COHORT_HOST_DEVICES \
$COHORT_HOST_STRICT $COHORT_FAULTS" && ls "${LD_LIBRARY_PATH%%:*}"/libnccl.so.2' x -n
quiet "$what"
grep -qx -e '-n 3 1 1@2:die' "$dir/out" || fail "$what: not the environment"
run 127 run "$dir/nowhere"
grep -q 'nowhere: No such file' "$dir/err" || fail "$what: no reason"
run 126 run "$dir"
grep -q 'Permission denied' "$dir/err" || fail "$what: no reason"
mkdir "$dir/bin" && cp "$cohort" "$dir/bin"
"$dir/bin/cohort" run true 2>"$dir/err" && fail "$what: without its libraries"
grep -q "libcohort-host.so was not found in $dir/bin/lib/drop-in" "$dir/err" ||
	fail "$what: it does not say where it looked for the libraries"
# A program that seems to contain its own CUDA runtime.
printf '#!/bin/sh\n# libcuda.so.1\n' >"$dir/own" && chmod +x "$dir/own"
run 0 run "$dir/own"
quiet "$what"
printf '# cudaErrorInsufficientDriver\n' >>"$dir/own"
run 0 run "$dir/own"
grep -q 'own seems to have a CUDA runtime of its own' "$dir/err" ||
	fail "$what: no warning"
printf '# libcudart.so.13\n' >>"$dir/own"
run 0 run "$dir/own"
quiet "$what"

# Files that are not NCCL are refused before the program starts.
what='cohort run --nccl'
# refuses_nccl WHY FILE [VARIABLE=VALUE] - fail unless --nccl FILE is refused for WHY
refuses_nccl()
{
	why=$1 file=$2
	shift 2
	timeout 60 env "$@" "$cohort" run --nccl "$file" -- echo started \
		>"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got -eq 1 ] || fail "$what $file: exit $got, not 1"
	[ ! -s "$dir/out" ] || fail "$what $file: the program started"
	grep -q "$why" "$dir/err" || fail "$what $file: no \"$why\""
}
own=$(dirname "$cohort")/lib/nvidia/libnccl.so.2
if [ -e "$own" ]; then
	mkdir "$dir/nccl"
	refuses_nccl 'No such file' "$dir/nccl/none"
	mkfifo "$dir/nccl/pipe" && ln -s pipe "$dir/nccl/link"
	refuses_nccl 'pipe is not a regular file' "$dir/nccl/link"
	refuses_nccl 'is not a regular file' "$dir/nccl"
	refuses_nccl 'has no ELF header' "$0"
	refuses_nccl 'is not NCCL: it has no ncclGetVersion' \
		"$(dirname "$cohort")/lib/libcohort.so"
	refuses_nccl "is not NVIDIA's library" "$own"
	# A library that is truncated in its tables, in a segment, or in its header.
	bytes=$(wc -c <"$own")
	for part in $((bytes - 1)) $((bytes / 2)) 100 10 0; do
		head -c "$part" "$own" >"$dir/nccl/cut"
		refuses_nccl "cut is cut short: it has $part bytes" \
			"$dir/nccl/cut"
	done
fi

# ---- info ------------------------------------------------------------------

helps info
what='cohort info --json'
run 0 info --json
quiet "$what"
has_keys version platforms name usable status reason devices nccl_version \
	runtime_version driver_version default
grep -qF '"default":"host"' "$dir/out" || fail "$what: host is not the default"

# ---- bench -----------------------------------------------------------------

# lines N - fail unless the table has N cases
lines()
{
	got=$(grep -vc '^#' "$dir/out")
	[ "$got" -eq "$1" ] || fail "$what: $got lines, not $1"
}

# The first line is printed immediately; the whole run would take minutes.
mkfifo "$dir/fifo"
"$cohort" bench all_reduce -g 2 --sizes 4 -n 100000 --rounds 10000 >"$dir/fifo" 2>"$dir/err" &
read -r first <"$dir/fifo"
kill $! && wait $! 2>/dev/null
case $first in
'# cohort '*', 2 ranks on '*) ;;
*) fail "cohort bench: its first line is '$first'" ;;
esac

# A size is printed once all of its rounds are over; the second one would take minutes.
"$cohort" bench all_reduce -g 2 --sizes 4,256M -n 500 -w 0 --rounds 3 -c 0 >"$dir/fifo" \
	2>"$dir/err" &
row=$(grep -m 1 -v '^#' "$dir/fifo")
kill $! 2>/dev/null || fail 'cohort bench: its first row comes with the last one'
wait $! 2>/dev/null
case $row in
*' 4 '*' 1 '*loop*) ;;
*) fail "cohort bench: its first row is '$row'" ;;
esac

# Test every collective, type, operation and mode; no result may be wrong.
what='cohort bench all -d all -o all'
quick='--rounds 2 -n 2 -w 1'
# Make one call each, because on a busy machine whatever ranks do together takes milliseconds.
run 0 bench all -g 3 --sizes 1,5000 -d all -o all --rounds 1 -n 1 -w 0 --in-place \
	--out-of-place --api
quiet "$what"
# 12 types and 2 sizes: 3 collectives have 5 operations, 6 have none, and 2 of those have
# no in-place form.
lines $((12 * 2 * (3 * 5 * 2 + 4 * 2 + 2)))
for ranks in 1 2 8; do
	what="cohort bench all -g $ranks"
	# shellcheck disable=SC2086
	run 0 bench all -g $ranks -r $((ranks - 1)) --sizes 4K,100001 -d half $quick \
		--loop --rewrite --raw --api --host --no-pin
	quiet "$what"
	# There are 8 collectives on host memory.
	lines $((2 * 2 * (2 * 9 + 8)))
done

# The program names of nccl-tests are accepted as names of collectives.
what='cohort bench all_reduce_perf'
for pair in all_reduce_perf:all_reduce alltoall_perf:all_to_all sendrecv_perf:send_recv; do
	# shellcheck disable=SC2086
	run 0 bench "${pair%:*}" --ranks 2 --sizes 4 $quick
	quiet "$what"
	grep -qx "# ${pair#*:}" "$dir/out" || fail "${pair%:*} is not ${pair#*:}"
done

# The environment sets the launch mode.
what='cohort bench with COHORT_LAUNCH'
for launch in together ahead; do
	export COHORT_LAUNCH=$launch
	# shellcheck disable=SC2086
	run 0 bench all_reduce -g 2 --sizes 4 $quick
	quiet "$what"
	grep -q "^# cohort .*, ranks launch $launch, " "$dir/out" ||
		fail "$what $launch: the table does not show it"
done
# The last two lines have the format of nccl-tests.
tail -n 2 "$dir/out" | tr -s ' ' >"$dir/last"
grep -qx '# Out of bounds values : 0 OK' "$dir/last" ||
	fail "$what: no sum of wrong elements"
grep -qE '^# Avg bus bandwidth : [0-9.e-]+$' "$dir/last" ||
	fail "$what: no average of the bandwidths"
unset COHORT_LAUNCH

what='cohort bench --json'
# shellcheck disable=SC2086
run 0 bench all_reduce -g 2 -b 1 -e 64k -f 256 -o max -d uint8 $quick --json
quiet "$what"
has_keys collective dtype op ranks bytes mode time_us p5_us p95_us algbw busbw wrong
for size in 1 256 65536; do
	grep -qF '{"collective":"all_reduce","dtype":"uint8","op":"max","ranks":2,"bytes":'$size',"mode":"loop","time_us":' \
		"$dir/out" || fail "$what: not $size bytes"
done
[ "$(grep -oF '"wrong":0}' "$dir/out" | wc -l)" -eq 3 ] || fail "$what: not right"

what='cohort bench --json, what there is none of'
# shellcheck disable=SC2086
run 0 bench gather -g 3 -b 100 -e 200 -i 100 -c 0 --raw --out-of-place $quick --json
for member in '"op":null' '"bytes":96' '"bytes":192' '"wrong":null' \
	'"mode":"loop raw out-of-place"'; do
	grep -qF "$member" "$dir/out" || fail "$what: no $member"
done

# Check bandwidths: bytes divided by time, and that times a factor.
what='cohort bench -- bandwidths'
if command -v python3 >/dev/null 2>&1; then
	# shellcheck disable=SC2086
	run 0 bench all -g 3 --sizes 6000 $quick --json
	python3 - "$dir/out" <<-'EOF' || fail "$what"
		import json, sys

		twice, others, one = 4 / 3, 2 / 3, 1
		factors = {"all_reduce": twice, "broadcast": one, "reduce": one,
		           "all_gather": others, "reduce_scatter": others,
		           "all_to_all": others, "gather": others,
		           "scatter": others, "send_recv": one}
		cases = json.load(open(sys.argv[1]))
		assert [c["collective"] for c in cases] == list(factors)
		for c in cases:
		    assert c["p5_us"] <= c["time_us"] <= c["p95_us"], c
		    algbw = c["bytes"] / c["time_us"] * 1e-3
		    assert abs(c["algbw"] / algbw - 1) < 1e-9, c
		    busbw = algbw * factors[c["collective"]]
		    assert abs(c["busbw"] / busbw - 1) < 1e-9, c
	EOF
else
	echo '[SKIP] JSON and bandwidths: python3 is not installed'
fi

# On the drop-in libraries, the processor may not be able to access device memory.
what='cohort bench --platform gpu'
libraries=$(dirname "$cohort")/lib/drop-in
if [ -e "$libraries/libnccl.so.2" ]; then
	COHORT_GPU_LIBRARIES=$libraries
	export COHORT_GPU_LIBRARIES
	# shellcheck disable=SC2086
	run 0 bench all -g 2 --sizes 4,100001 --platform gpu $quick --loop --rewrite \
		--raw --api --in-place --out-of-place
	quiet "$what"
	lines $((2 * 2 * 2 * (7 * 2 + 2)))
	grep -q ', gpu platform, 2 ranks' "$dir/out" || fail "$what: not that platform"
	unset COHORT_GPU_LIBRARIES
fi
what='cohort bench, of more memory than there is'
run 1 bench all_reduce -b 1024G
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "$what: not one line"
grep -qF '1099511627776 bytes: ' "$dir/err" || fail "$what: the number of bytes is not named"

# A rank that fails ends the benchmark, with one line of error.
what='cohort bench with a rank that fails'
for fault in 1@3:error=3 1@3:die; do
	COHORT_FAULTS=$fault
	export COHORT_FAULTS
	run 1 bench broadcast -g 3 --sizes 4K --rounds 2 -n 10
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "$what: not one line"
	! grep -qv "^# [ct]" "$dir/out" || fail "$what: a table"
done
unset COHORT_FAULTS

# ---- demo ------------------------------------------------------------------

what='cohort demo --json'
run 0 demo --json --epochs 2 --verify --no-fault
quiet "$what"
has_keys platform ranks epochs accuracy loss steps seconds \
	compute_seconds comm_seconds max_abs_diff_vs_single
grep -qF '"ranks":4,' "$dir/out" || fail "$what: not four ranks"
grep -qF '"steps":46,' "$dir/out" || fail "$what: not 46 steps"
for member in '"fault":null' '"stalled_rank":null' '"verdict_text":null' \
	'"detected_ms":null' '"generations":1' '"final_ranks":4' \
	'"abandoned":[]'; do
	grep -qF "$member" "$dir/out" || fail "$what: no $member"
done

# On a busy machine a thread may respond too late.
what='the stack in a verdict'
for _ in 1 2 3 4 5; do
	run 0 demo --epochs 2 --stall 1@3
	! grep -q 'stack unavailable: ' "$dir/out" || continue
	break
done
# In a debug build, functions called by train_worker() come first in the stack.
grep -qE '^ *(where +)?train_worker(\+0x[0-9a-f]+| \(train\.c:[0-9]+\))$' "$dir/out" ||
	fail "$what: no name of the function"

what='cohort demo --json without --verify'
run 0 demo --json --epochs 1 --no-fault
has_keys max_abs_diff_vs_single
grep -qE '"max_abs_diff_vs_single":null[,}]' "$dir/out" ||
	fail "$what: a difference that was not asked for"

# exact ARGUMENT... - fail unless the weights equal those of a run without the library
exact()
{
	what="cohort demo $*"
	run 0 demo --json --verify --epochs 2 "$@"
	quiet "$what"
	grep -qE '"max_abs_diff_vs_single":0[,}]' "$dir/out" ||
		fail "$what: differs from a single run"
}

# The last step of an epoch has 30 images, so some of 32 ranks have none.
for ranks in 1 2 3 4 8 16 32; do
	exact --ranks $ranks --no-fault
done

# A rank fails and the report says how, even if it fails in the first or the last step of
# an epoch, or of all epochs.
tells()
{
	for member in "$@"; do
		grep -qF "$member" "$dir/out" || fail "$what: no $member"
	done
}
exact
tells '"fault":"stall","stalled_rank":2,"verdict_kind":"busy in the program"' \
	'"generations":2,"final_ranks":3,"abandoned":[2]' '"join_deadline_ms":500,'
exact --ranks 2 --stall 0@45 --join-deadline 200
tells '"stalled_rank":0,' '"final_ranks":1,"abandoned":[0]' '"join_deadline_ms":200,'
for step in 0 22 23 45; do
	exact --ranks 3 --die 0@$step
	tells '"fault":"die","stalled_rank":0,"verdict_kind":"thread exited"' \
		'"overshoot_ms":null' '"final_ranks":2,"abandoned":[]'
done
exact --ranks 3 --mismatch 1@30
tells '"stalled_rank":1,"verdict_kind":"different call"' ', max' ', sum' \
	'"final_ranks":2,'
exact --ranks 2 --mismatch 1@30
tells '"stalled_rank":null,' '"generations":2,"final_ranks":2,'
exact --ranks 1
tells '"fault":null'

# Run ranks in several processes, of which one may be killed or lose its only rank.
for processes in 2 3 8; do
	exact --ranks 8 --processes $processes --no-fault
	tells "\"processes\":$processes," '"generations":1,"final_ranks":8,'
done
exact --processes 2 --kill 1@30
tells '"fault":"kill","stalled_rank":2,"verdict_kind":"process exited"' \
	'"generations":2,"final_ranks":2,"abandoned":[]'
exact --ranks 8 --processes 4 --kill 3@0
tells '"stalled_rank":6,' '"final_ranks":6,'
exact --processes 2 --stall 3@10 --join-deadline 200
tells '"stalled_rank":3,"verdict_kind":"busy in the program"' \
	'"final_ranks":3,"abandoned":[3]'
exact --ranks 3 --processes 2 --die 2@30
tells '"fault":"die","stalled_rank":2,' '"final_ranks":2,'
exact --processes 2 --die 0@30
tells '"stalled_rank":0,' '"final_ranks":3,'

what='cohort demo --processes that is killed'
"$cohort" demo --processes 3 --epochs 10000 --no-fault >"$dir/out" &
demo=$!
children=
while [ -e "/proc/$demo/task/$demo/children" ] &&
	[ "$(echo "$children" | wc -w)" -lt 2 ]; do
	read -r children <"/proc/$demo/task/$demo/children" || :
done
kill -KILL "$demo"
{ wait "$demo" || :; } 2>/dev/null
# Wait for the kernel to kill them, which may take a moment.
for child in $children; do
	while read -r _ _ state _ 2>/dev/null <"/proc/$child/stat" && [ "$state" != Z ]; do
		:
	done
done

# A thread that dies inside its native call leaves its generation wedged: the other ranks
# still finish the training, and the report is complete.
what='cohort demo with a thread that dies in its call'
COHORT_FAULTS=1@40:die
export COHORT_FAULTS
run 1 demo --json --epochs 2 --no-fault
unset COHORT_FAULTS
tells '"verdict_kind":"thread exited"' '"generations":2,"final_ranks":3,'
grep -qF 'its thread has exited' "$dir/err" || fail "$what: the wedged rank is not named"

helps demo --epochs 1 --verify
narrow 'cohort demo'
for word in '^verdict   busy in the program' 'rank 2 blocks in the program' \
	'the watchdog reports' 'HANG   rank 2 has not called' 'generation 2: 3 ranks continue'; do
	grep -q "$word" "$dir/out" || fail "cohort demo: no '$word'"
done
grep -q '^accuracy ' "$dir/out" || fail "cohort demo: no accuracy"
grep -q 'single run: 0$' "$dir/out" || fail "cohort demo: no exact verify"

# An error is one line, such as for more ranks than devices.
COHORT_HOST_DEVICES=2
export COHORT_HOST_DEVICES
run 1 demo --ranks 3
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "cohort demo --ranks 3: not one line"
run 1 bench all --ngpus 3
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "cohort bench -g 3: not one line"
run 0 demo --json --epochs 1 --no-fault
grep -qF '"ranks":2,' "$dir/out" || fail "two devices: not two ranks"
unset COHORT_HOST_DEVICES

[ $failures -eq 0 ] || exit 1
echo "command.sh: passed"
