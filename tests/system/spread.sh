#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test groups whose ranks are in several processes, on the simulator's own NCCL: 100 ranks in
# 10 processes, one of which misses a call; a process that is stopped; ranks that close or
# pause; groups that are created and closed while one of their processes is killed, which must
# leak nothing; processes that are killed while a group opens; random waits of ranks for each
# other that all lead to one rank; and ranks that join by an id.
#
# usage: spread.sh LIB   SPREAD_GROUPS is the number of such groups (100), MAZE_ROUNDS the
#                        number of random waits (10), MAZE_SEED their seed
#                        exit status 0 passed, 1 failed, 77 skipped

set -eu

lib=${1:?usage: spread.sh LIB}
groups=${SPREAD_GROUPS:-100}
rounds=${MAZE_ROUNDS:-10}
seed=${MAZE_SEED:-$RANDOM}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export COHORT_PLATFORM=host LD_LIBRARY_PATH=$lib

fail() {
	echo "spread.sh: $*"
	cat "$scratch/out" "$scratch/err"
	exit 1
}

# left - list what groups could leak on this machine: shared memory, and sockets without a
# name in the file system
left() {
	{
		find /dev/shm -name 'cohort*'
		grep -o '@cohort.*' /proc/net/unix
	} | sort
}

# spread PROCESSES DEVICES ARGUMENT... - run spread.c in these processes; fail unless process 0,
# which reports other processes that are killed, succeeds
spread() {
	run spread "$@"
}

# run PROGRAM PROCESSES DEVICES ARGUMENT... - as spread, for any program
run() {
	local i program=$scratch/$1 processes=$2

	shift 2
	export COHORT_JOB=$$ COHORT_PROCESSES=$processes COHORT_HOST_DEVICES=$((processes * $1))
	for ((i = 1; i < processes; i++)); do
		COHORT_PROCESS=$i timeout 120 "$program" "$@" >>"$scratch/others" 2>&1 &
	done
	COHORT_PROCESS=0 timeout 120 "$program" "$@" >"$scratch/out" 2>"$scratch/err" ||
		fail "$processes processes, $*: exit status $?"
	wait
}

# says TEXT - fail unless process 0 has printed TEXT
says() {
	grep -qF -- "$1" "$scratch/out" || fail "no \"$1\""
}

for program in spread ended maze joined; do
	${CC:-cc} -O1 -Wall -Wextra -Werror -Iinclude tests/system/$program.c \
		-o "$scratch/$program" -L"$lib" -lcohort -lpthread
done
before=$(left)

spread 10 10 sums 1000
says '100 ranks, generation 1: 1000 sums, the last is 4950'
cat "$scratch/err"
spread 10 10 stall 100
# Any process may report first, and may or may not know what other processes' ranks do.
grep -qE '(^|: )rank 90 (has not|of other processes may not have) called all_reduce 100 ' "$scratch/out" ||
	fail 'not rank 90 alone is missing'
spread 4 2 stop 100
says "process $(sed -n 's/^the last process is //p' "$scratch/out"), which drives ranks 6-7, is stopped ("
grep -qE '; ranks? [0-5](-[0-5])? waits? in all_reduce 100 ' "$scratch/out" || fail 'no rank waits'
# Must end immediately; the deadline is 300 s.
spread 4 1 close 100
says 'rank 3 has left: its communicator was closed ('
spread 4 2 part 100
why='(rank [67] \(3 in "cohort.[01]"\) has left: its|which drove rank [67], has closed the) communicator'
grep -qE "$why" "$scratch/out" ||
	fail 'no rank of the last process has left'
# Whether ranks have left or their process has closed the group, most ranks are not to blame.
for shape in '2 3' '5 1'; do
	# shellcheck disable=SC2086 # two words
	spread $shape extra 1
	says 'rank 0 alone waits in all_reduce 2 of "cohort" ('
	says "; ranks 1-$((${shape% *} * ${shape#* } - 1)) have left"
done
# A chain through several processes; those in between learn about the others' communicators
# only by queries.
while read -r processes devices last split eddy; do
	all="ranks 0-$((processes * devices - 1)) wait for each other in a cycle ("
	spread "$processes" "$devices" chain 1
	says "rank $last has not called all_reduce 1 of \"cohort.$split\", where it is rank 1 ("
	spread "$processes" "$devices" circle 1
	says "$all"
	spread "$processes" "$devices" eddy 1
	says "ranks $eddy wait for each other in a cycle ("
	spread "$processes" "$devices" relay 1
	says "rank $last has not called send 1 to rank $((last - 1)) of \"cohort\" ("
	spread "$processes" "$devices" ring 1
	says "$all"
	spread "$processes" "$devices" gather 1
	says "rank $last has not called send 1 to rank 0 of \"cohort\" ("
	spread "$processes" "$devices" gone 1
	grep -qE "^rank $devices has left: |, which drove rank $devices, has closed the " \
		"$scratch/out" || fail "another rank than $devices is named"
	spread "$processes" "$devices" exchange 1
	grep -q "^rank $last has not called " "$scratch/out" ||
		fail "another rank than $last is named"
done <<-'end'
	4 1 3 1 2-3
	2 4 4 2 4-5
end
spread 4 2 behind 1
says 'rank 6 has not called send 1 to rank 0 of "cohort" ('
says '; rank 1 waits; rank 0 waits in recv from rank 6'
# With the last seed, a rank waits in a third communicator before its call, which is not a
# wrong order of calls.
for shape in "5 1 $rounds $seed" "3 3 $rounds $seed" "2 4 $rounds $seed" '2 4 1 17244'; do
	truncate -s 0 "$scratch/waited"
	truncate -s $((4 * rounds)) "$scratch/waited"
	# shellcheck disable=SC2086 # four words
	run maze $shape "$scratch/waited"
	if grep '^seed ' "$scratch/others"; then
		fail "$shape: another rank is named"
	fi
done
spread 4 2 pause 100
says '8 ranks, generation 1: 100 sums, the last is 28'
(
	unset LOCAL_RANK
	if (spread 2 1 same 1) >/dev/null; then
		fail 'two processes have opened one device'
	fi
	pids='\(pids [0-9]+ and [0-9]+\)'
	why='but each process needs its own devices \(LOCAL_RANK is not set\): '
	grep -qE "processes 0 and 1 $pids have both opened device 0, $why" "$scratch/err" ||
		fail 'the device of two processes is not named'
)
spread 4 1 away 1
says "which drives rank 3, is stopped ("
spread 4 1 drop 100
says '3 ranks, generation 2: 100 sums, the last is 3'
spread 4 2 die 100 2>/dev/null
says '6 ranks, generation 2: 100 sums, the last is 23'

for ((n = 0; n < groups; n++)); do
	spread 2 1 die 3 2>/dev/null
	says '1 ranks, generation 2: 3 sums, the last is 0'
done

# joins PROCESSES DEVICES MODE TEXT - run joined.c; fail unless rank 0 reports the text
joins() {
	rm -f "$scratch/id"*
	COHORT_HOST_SHARED=1 run joined "$1" "$2" "$3" "$scratch/id" 2>/dev/null
	grep -qE -- "$4" "$scratch/out" || fail "joined $*"
}

while read -r processes devices ranks others; do
	last=$((processes - 1)) n=$((processes * devices))
	joins "$processes" "$devices" sums "^$n ranks: the sum is $((n * (n - 1) / 2))\$"
	joins "$processes" "$devices" hang \
		"STALLED, rank $last: .*rank $last has not called all_reduce 2 of \"joined\" \("
	joins "$processes" "$devices" split "rank $last \($((n - 1 - last)) in \"joined.0\"\) has not"
	# A process with no other rank may also have closed everything.
	joins "$processes" "$devices" close \
		"STALLED, rank $last: .*rank $last(, has closed the| has left: its) (communicator|group)"
	joins "$processes" "$devices" count "MISMATCH, rank $last: .*: rank $last calls all_reduce of 2"
	joins "$processes" "$devices" kill \
		"PROCESS_EXITED, rank $last: .*which drove ranks? $ranks, (was killed by signal 9|is gone);"
	joins "$processes" "$devices" exit \
		"PROCESS_EXITED, rank $last: .*which drove ranks? $ranks, (has exited with status 0|is gone);"
	joins "$processes" "$devices" stop \
		"STALLED, rank $last: process $last .*, which drives ranks? $ranks, is stopped \("
	joins "$processes" "$devices" late \
		": init stuck: .*; ranks? $others ha(s|ve) joined; rank $last has not \("
	[ "$devices" -eq 1 ] && continue
	why=': rank [0-9]+ cannot join: its process \(pid [0-9]+\)'
	joins "$processes" "$devices" die "$why (is gone|was killed by signal 9)"
	joins "$processes" "$devices" fail "$why has given up"
done <<-'end'
	3 1 2 0-1
	2 3 1,.3,.5 0,.2-5
end

# A process is killed while the group opens, where the program's own table waits for it.
for round in 1 2; do
	COHORT_HOST_DEVICES=2 COHORT_HOST_SHARED=1 timeout 120 "$scratch/ended" $round \
		>"$scratch/out" 2>"$scratch/err" || fail "ended $round: exit status $?"
	says 'while the generation was being opened: process '
done
# Other tests create and close groups at the same time, so only files that stay are leaks.
new=$(comm -13 <(echo "$before") <(left))
for ((n = 0; n < 300 && ${#new}; n++)); do
	sleep 0.1
	new=$(comm -12 <(echo "$new") <(left))
done
[ -z "$new" ] || fail "left: $new"
