#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test cohort launch: what it refuses, what its processes find, their exit statuses,
# signals, and that each process is notified once of every other one that ends; on this
# machine, and on several hosts, which are namespaces of this machine.  Between hosts, also
# check what the processes of a group on NVIDIA's NCCL learn, and how they continue.
#
# usage: launch.sh COHORT LIB WHOLE   (WHOLE is an archive of the library's objects)
#                                     exit status 0 passed, 1 failed, 77 skipped

set -eu

usage='usage: launch.sh COHORT LIB WHOLE'
cohort=${1:?$usage}
lib=${2:?$usage}
whole=${3:?$usage}
scratch=$(mktemp -d)
begin=$scratch/begin
: >"$begin"
trap 'scripts/sweep-nccl.sh "$begin"; rm -rf "$scratch"' EXIT
# Where the launcher creates its directory.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
unset PMIX_NAMESPACE PMIX_RANK

fail() {
	echo "launch.sh: $*"
	cat "$scratch/out" "$scratch/err"
	exit 1
}

# launch STATUS ARGUMENT... - run the command, which must exit with STATUS and leave no files
launch() {
	local want=$1 got=0
	shift
	timeout -k 5 120 "$cohort" launch "$@" </dev/null >"$scratch/out" 2>"$scratch/err" ||
		got=$?
	[ "$got" -eq "$want" ] || fail "cohort launch $*: exit status $got, not $want"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "cohort launch $*: left $(ls -A "$TMPDIR")"
}

# says N TEXT - fail unless N lines of the standard output contain TEXT
says() {
	[ "$(grep -cE -e "$2" "$scratch/out")" -eq "$1" ] || fail "not $1 times '$2'"
}
# complains N TEXT - fail unless N lines of stderr contain TEXT
complains() {
	[ "$(grep -cE -e "$2" "$scratch/err")" -eq "$1" ] || fail "not $1 times '$2'"
}

# refuses STATUS TEXT ARGUMENT... - fail unless the command refuses in one line
refuses() {
	local status=$1 text=$2
	shift 2
	launch "$status" "$@"
	grep -qF -e "cohort launch: $text" "$scratch/err" || fail "$*: no '$text'"
	[ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$*: not one line"
}

# await COMMAND... - repeat COMMAND until it succeeds
await() {
	local until=$((SECONDS + 60))
	until "$@"; do
		[ "$SECONDS" -lt "$until" ] || fail "for 60 s not: $*"
		sleep 0.02
	done
}

# ---- invalid usage -----------------------------------------------------------

for n in 0 1025 two; do
	refuses 2 "--processes: \"$n\"" -n "$n" true
done
refuses 2 'no number of processes' true
refuses 2 'no program' -n 2
refuses 2 '--hosts: "a,,b" has an empty name' -n 3 --hosts a,,b true
refuses 2 '--hosts: "-x" has a host that starts with -' -n 3 --hosts -x true
refuses 2 '--hosts: "a,b,c" names 3 hosts for 2 processes' -n 2 --hosts a,b,c true
refuses 2 '--agent: " " is not a command' -n 2 --agent ' ' true
refuses 2 "--agent: \"$scratch/none -x\"" -n 2 --hosts a --agent "$scratch/none -x" true
refuses 2 '--interface: "none0"' -n 2 --interface none0 true
refuses 127 "$scratch/none: No such file" -n 2 "$scratch/none"
refuses 127 'no-such-program: No such file' -n 2 no-such-program
refuses 126 "$scratch: Permission denied" -n 2 "$scratch"

compile() {
	${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Isrc "$@"
}
compile -o "$scratch/launch" tests/system/launch.c -ldl
compile -o "$scratch/pmix" tests/system/pmix.c "$whole" -pthread -ldl -lm
rc=0
"$scratch/pmix" refused >/dev/null || rc=$?
if [ "$rc" -eq 77 ]; then
	refuses 1 'cannot open libpmix.so.2' -n 1 true
	echo "[SKIP] libpmix.so.2: not installed (Debian: libpmix2)"
	exit 77
fi

# ---- one machine -------------------------------------------------------------

# PMIx cannot start.
PMIX_MCA_bfrops=none launch 1 -n 2 true
complains 1 '^cohort launch: PMIx_server_init: '

# shellcheck disable=SC2016 # variables of the processes' shell
print='echo "process $COHORT_PROCESS/$COHORT_PROCESSES local \
$COHORT_LOCAL_PROCESS/$COHORT_LOCAL_PROCESSES rank $PMIX_RANK $1 in $PWD on $(uname -n)
$COHORT_JOB" && [ "$COHORT_JOB" = "$PMIX_NAMESPACE" ]'
launch 0 -n 3 -- sh -c "$print" sh "it's"
for i in 0 1 2; do
	says 1 "^process $i/3 local $i/3 rank $i it's in $PWD on $(uname -n)$"
done
says 3 '^cohort-[0-9a-f]{32}$'
[ "$(grep '^cohort-' "$scratch/out" | sort -u | wc -l)" -eq 1 ] || fail 'several jobs'

# Only process 0 reads standard input.
echo line >"$scratch/in"
# shellcheck disable=SC2016
"$cohort" launch -n 2 -- sh -c 'echo "$COHORT_PROCESS:$(cat)"' <"$scratch/in" >"$scratch/out" \
	2>"$scratch/err" || fail 'standard input'
says 1 '^0:line$'
says 1 '^1:$'

# With SIGCHLD ignored, the kernel would reap the processes without their exit status.
(trap '' CHLD; launch 3 -n 2 -- sh -c 'exit 3')

# The other processes continue.
# shellcheck disable=SC2016
launch 3 -n 3 -- sh -c '[ $COHORT_PROCESS != 1 ] || exit 3; sleep 0.1; echo went on'
complains 1 '^cohort launch: process 1 \(pid [0-9]+\) has exited with status 3$'
says 2 'went on'
# shellcheck disable=SC2016
launch 137 -n 3 -- sh -c '[ $COHORT_PROCESS != 2 ] || kill -9 $$; sleep 0.1; echo went on'
complains 1 '^cohort launch: process 2 \(pid [0-9]+\) was ended by signal 9 \(Killed\)$'
says 2 'went on'

# A process's exit status can be read as long as the launcher runs.
# shellcheck disable=SC2016
launch 137 -n 2 -- sh -c 'if [ $COHORT_PROCESS = 1 ]; then
		echo $$ >"$0/pid.new" && mv "$0/pid.new" "$0/pid" && kill -9 $$
	fi
	until [ -e "$0/pid" ]; do sleep 0.02; done
	stat=/proc/$(cat "$0/pid")/stat
	while [ -e "$stat" ] && ! grep -q ") Z " "$stat"; do sleep 0.02; done
	sed "s/.* /it ended by /" "$stat"' "$scratch"
says 1 '^it ended by 9$'

launch 0 -n 3 -- env COHORT_BOOTSTRAP_PMIX= "$scratch/pmix" gather
says 3 ' of 3: gather'
launch 0 -n 2 -- "$scratch/pmix" children
says 2 ' of 2: children'

# Check the events that the last two processes get after four others ended in four ways.
ends() {
	local i
	launch 137 "$@" -n 6 -- "$scratch/launch" ends
	says 2 ' of 6: ends'
	for i in 4 5; do
		says 1 "^process $i: 0, event -200$"
		says 1 "^process $i: 1, event -200$"
		says 1 "^process $i: 2, event -201$"
		says 1 "^process $i: 3, event -201$"
	done
	complains 1 'process 0 .* was ended by signal 9'
}
ends
lives() {
	rm -f "$scratch"/begun.* "$scratch"/finalized "$scratch"/seen.*
	launch 0 "$@" -n 4 -- "$scratch/launch" lives "$scratch"
	says 2 ' of 4: lives'
}
lives
launch 143 -n 3 -- "$scratch/launch" abort
says 2 ' of 3: abort'
complains 1 'process 2 has called PMIx_Abort\(\) with status 7: why'

# ---- signals -----------------------------------------------------------------

have_written() {
	[ "$(find "$scratch" -maxdepth 1 -name 'is.*' | wc -l)" -eq 2 ]
}
# Every started process has the launcher's directory among its arguments.
have_ended() {
	! pgrep -f "$scratch" >"$scratch/left"
}

# interrupt SIGNAL STATUS ARGUMENT... - send SIGNAL once two processes report that they run
interrupt() {
	local signal=$1 want=$2 got=0 launcher
	shift 2
	rm -f "$scratch"/is.*
	"$cohort" launch -n 2 "$@" </dev/null >"$scratch/out" 2>"$scratch/err" &
	launcher=$!
	await have_written
	kill -s "$signal" "$launcher"
	{ wait "$launcher"; } 2>/dev/null || got=$?
	[ "$got" -eq "$want" ] || fail "$signal: exit status $got, not $want"
	await have_ended
	[ -z "$(ls -A "$TMPDIR")" ] || [ "$signal" = KILL ] || fail "$signal: left a folder"
	rm -rf "${TMPDIR:?}"/*
}

# shellcheck disable=SC2016
runs='touch "$0/is.$COHORT_PROCESS"; while :; do sleep 0.02; done'
for signal in TERM HUP; do
	interrupt "$signal" $((128 + $(kill -l "$signal"))) -- sh -c "$runs" "$scratch"
done
interrupt TERM 7 -- bash -c "trap 'exit 7' TERM; $runs" "$scratch"
interrupt KILL 137 -- sh -c "$runs" "$scratch"

# ---- several hosts -----------------------------------------------------------

# A host is a UTS and a PID namespace: it has its own name, and does not see processes of
# other hosts.
cat >"$scratch/agent" <<'END'
#!/bin/sh
[ "$1" = -x ] || exit 99
exec unshare --uts --pid --fork --kill-child --mount-proc \
	sh -c 'hostname "$1" && exec sh -c "$2"' sh "$2" "$3"
END
chmod +x "$scratch/agent"
if ! unshare --uts --pid --fork --mount-proc hostname a 2>/dev/null; then
	echo '[SKIP] several hosts: this user cannot create namespaces'
	exit 0
fi
hosts=(--hosts "east,west" --agent "$scratch/agent -x")
COHORT_FAULTS='' NCCL_DEBUG="two words" launch 0 "${hosts[@]}" -n 3 -- sh -c "$print" sh "it's \$x"
says 1 "^process 0/3 local 0/2 rank 0 it's \\\$x in $PWD on east$"
says 1 "^process 1/3 local 1/2 rank 1 it's \\\$x in $PWD on east$"
says 1 "^process 2/3 local 0/1 rank 2 it's \\\$x in $PWD on west$"
# shellcheck disable=SC2016
NCCL_DEBUG="two words" launch 0 "${hosts[@]}" -n 2 -- sh -c 'echo "$NCCL_DEBUG,$(cat),$PMIX_HOSTNAME"'
says 2 '^two words,,$'
launch 0 --hosts "localhost,$(uname -n)" --agent "$scratch/agent" -n 2 -- sh -c "$print" sh x
says 1 "^process 1/2 local 1/2 rank 1 x in $PWD on $(uname -n)$"

# shellcheck disable=SC2016
launch 3 "${hosts[@]}" -n 2 -- sh -c '[ $COHORT_PROCESS = 0 ] || exit 3'
complains 1 '^cohort launch: process 1 \(host west\) has exited with status 3$'
launch 127 "${hosts[@]}" -n 2 -- "$scratch/none"
complains 2 'has exited with status 127$'

# A host name that looks like an assignment.
cp "$scratch/launch" "$scratch/a=b"
launch 2 "${hosts[@]}" -n 2 -- "$scratch/a=b"
complains 2 'usage: launch'
# Only the user may read the name of the job.
# shellcheck disable=SC2016
launch 0 "${hosts[@]}" -n 2 -- sh -c '! grep -lF "$COHORT_JOB" /proc/[0-9]*/cmdline'
launch 0 "${hosts[@]}" -n 4 -- "$scratch/pmix" gather
says 4 ' of 4: gather'
lives "${hosts[@]}"
ends "${hosts[@]}"
complains 1 'process 0 \(host east\) was ended by signal 9 \(Killed\)$'
[ "$(wc -l <"$scratch/err")" -eq 1 ] || fail 'not one line'
launch 143 "${hosts[@]}" -n 3 -- "$scratch/launch" abort
says 2 ' of 3: abort'

for signal in TERM HUP; do
	interrupt "$signal" 7 "${hosts[@]}" -- sh -c "trap 'exit 7' $signal; $runs" "$scratch"
done
interrupt TERM 143 "${hosts[@]}" -- sh -c "$runs" "$scratch"
interrupt KILL 137 "${hosts[@]}" -- sh -c "$runs" "$scratch"

# ---- groups between hosts ----------------------------------------------------

if ! "$cohort" run --nccl auto -- true >/dev/null 2>&1; then
	echo "[SKIP] groups between hosts: NVIDIA's NCCL is not installed"
	exit 0
fi
compile -o "$scratch/far" tests/system/far.c -L"$lib" -lcohort
export LD_LIBRARY_PATH=$lib
# far STATUS MODE N TEXT - fail unless N processes report TEXT
far() {
	launch "$1" "${hosts[@]}" -n 4 -- "$cohort" run -n 8 --nccl auto -- "$scratch/far" "$2" \
		"$scratch/time"
	says "$3" "$4"
	cut -c 1-150 "$scratch/out"
}
far 0 abort 4 ': aborted, after '
far 0 stall 4 ': a collective missed its deadline, after '
far 0 exit 3 ': 6 ranks go on, after '
far 137 twice 2 ': 4 ranks go on, after '
