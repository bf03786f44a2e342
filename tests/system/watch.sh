#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run a plain NCCL program under cohort watch: with each fault, threads and processes, and
# the simulator's NCCL or NVIDIA's.  The report must name the rank, its call and the reason.
#
#	watch.sh OUT sim|nvidia
#	watch.sh OUT sim|nvidia soak SECONDS
#
# soak: ranks that sleep for less than the deadline must not be reported.

# Functions are called by all().
# shellcheck disable=SC2317

set -u

out=$1
library=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
unset "${!COHORT_@}"

skip() {
	echo "$*"
	exit 77
}

nccl=()
if [ "$library" = nvidia ]; then
	# NVIDIA's NCCL leaves 33 MB in /dev/shm for each rank that is killed, so use a private
	# /dev/shm, which ends with the last process.
	if [ -z "${PRIVATE_SHM-}" ]; then
		private=(unshare --map-root-user --mount)
		mount='mount -t tmpfs tmpfs /dev/shm'
		"${private[@]}" sh -c "$mount" 2>/dev/null ||
			skip "a /dev/shm of its own needs unshare and the right to mount"
		PRIVATE_SHM=1 exec "${private[@]}" sh -c "$mount && exec \"\$@\"" sh "$0" "$@"
	fi
	nccl=(--nccl auto)
	# Connect in the init, or the first collectives allocate, and wait for other communicators.
	export NCCL_RUNTIME_CONNECT=0
	"$out/cohort" run "${nccl[@]}" -- true 2>"$scratch/err" ||
		skip "$(sed 's/^cohort run: //' "$scratch/err")"
fi
${CC:-cc} -std=gnu11 -g -O1 -Wall -Wextra -Werror -Isrc -Isrc/sim/include \
	tests/system/programs/watched.c -o "$scratch/watched" \
	-L"$out/lib/drop-in" -lnccl -lcudart -pthread || exit 1

# watch OPTION... -- FAULT RANKS WAY - run the program, with a limit far above the deadline
watch() {
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	COHORT_HOST_SHARED=1 timeout $((${4:-0} + 120)) "$out/cohort" watch "${options[@]}" -- \
		"$out/cohort" run -n "$2" "${nccl[@]}" -- "$scratch/watched" "$@"
}

# descendant PID NAME - print a process with this name that PID or a child of it has started
descendant() {
	local pid

	# shellcheck disable=SC2013 # words
	for pid in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
		if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]; then
			echo "$pid"
			return
		fi
		descendant "$pid" "$2" && return
	done
	return 1
}

# start FAULT WAY ... - run a cell, at most four at a time; its files are $scratch/FAULT-WAY.*
start() {
	local deadline=3s action=kill

	case $1 in
	none | late | forks) deadline=20s ;;
	hung) action=abort ;;
	esac
	while [ "$(jobs -pr | wc -l)" -ge 4 ]; do
		wait -n
	done
	{
		watch --deadline "$deadline" --on-stall "$action" -- "$1" 4 "$2" \
			>"$scratch/$1-$2.out" 2>"$scratch/$1-$2.err"
		echo $? >"$scratch/$1-$2.rc"
	} &
}

# row FAULT WAY STATUS PATTERN... - check a cell: its exit status, and what it says.  Calls that
# differ may complete, hang or fail; then STATUS is any.
row() {
	local name=$scratch/$1-$2 status=$3 result=ok

	[ "$status" = any ] || [ "$(cat "$name.rc")" = "$status" ] ||
		result="exit $(cat "$name.rc"), not $status"
	for pattern in "${@:4}"; do
		tr '\n' ' ' <"$name.err" | tr -s ' ' | grep -Eq "$pattern" ||
			result="does not say \"$pattern\""
	done
	[ $# -gt 3 ] || [ ! -s "$name.err" ] || result="false alarm"
	[ "$status" != 0 ] || [ "$(cat "$name.out")" = OK ] || result="does not print OK"
	printf '%-8s %-10s %s\n' "$1" "$2" "$result"
	if [ "$result" != ok ]; then
		cat "$name.out" "$name.err"
		failed=1
	fi
}

# all COMMAND - run it for each cell: FAULT WAY STATUS PATTERN...
all() {
	local way busy="busy in the program"

	for way in threads processes; do
		"$1" none $way 0
		"$1" late $way 0
		"$1" forks $way 0
		# The simulator's NCCL lets the root wait for all ranks.
		[ "$library" = sim ] || "$1" ahead $way 0
		"$1" missing $way 3 'rank 1 has not called all_reduce 7 of "comm 0"' \
			"why it is $busy; last seen in thread [0-9]+ .*asleep in pause" \
			'wait ranks 0, 2-3, in all_reduce of 1000 float32, sum'
		"$1" hung $way 1 'rank 1 has not called all_reduce 7 of "comm 0"' \
			'error: remote process exited or there was a network error'
		"$1" count $way any 'differs: rank 1 calls all_reduce of 999 float32, sum; ranks 0, 2-3'
		"$1" type $way any 'differs: rank 1 calls all_reduce of 1000 int32, sum; ranks 0, 2-3'
		"$1" root $way any 'differs: rank 1 calls broadcast .*root 1; ranks 0, 2-3 .*root 0'
		"$1" kind $way any 'differs: rank 1 calls reduce .*; ranks 0, 2-3 call all_reduce'
		"$1" split $way 3 'rank 1 has not called comm_split 13 of "comm 0"'
		"$1" child $way 3 \
			'rank 1 \(0 in "comm [1-3]"\) has not called all_reduce 1 of "comm [1-3]"'
		"$1" send $way 3 'rank 1 has not called recv 1 from rank 0 of "comm 0"'
		"$1" order $way 3 'all_reduce 15 of "comm 0": rank 1 uses "comm 0" and "comm 3" in a different order' \
			'rank 0 .* has called collective 15 of "comm 0" .* and not yet all_reduce .*group "comm 3"' \
			'rank 1 .* has called collective .* of "comm 3" .* and not yet collective 15 of "comm 0"'
		for fault in init pending; do
			"$1" $fault $way 3 'rank 1 has not called ncclCommInitRank on this machine for "comm 0"; ranks 0, 2-3 wait'
		done
		"$1" polled $way 3 'rank 1 has not called all_reduce 1 of "comm 1"'
		"$1" group $way 3 'rank 1 has not started all_reduce 7 of "comm 0"' \
			'needs ncclGroupEnd\(\), which launches the calls of its group'
		"$1" blocked $way 3 'all_reduce 7 of "comm 0" has not finished on ranks 0-3'
	done
	# The simulator's NCCL lets each rank end alone.
	if [ "$library" = nvidia ]; then
		for fault in destroy finalize; do
			"$1" $fault processes 3 'not returned from the call that ends "comm 0"; rank 1 has not'
		done
	fi
	"$1" exit threads 3 'rank 1 has not called all_reduce 7' \
		'the thread that last used it has exited'
	"$1" exit processes 3 'process [0-9]+ \(rank 1\)( has exited with status 3| is gone)'
	"$1" exec processes 3 'rank 1 has not called all_reduce 7' \
		'last seen in thread [0-9]+ "sleep" \(process [0-9]+\)'
	"$1" killed processes 3 'process [0-9]+ \(rank 1\)( was killed by signal 9| is gone)'
	"$1" stopped processes 3 'process [0-9]+ \(rank 1\) is stopped'
}

# soak WAY SECONDS - make calls and sleep at random, and check that nothing is reported.  Each
# rank sleeps at most once before a call that all ranks wait for.
soak() {
	local deadline=4000

	if ! watch --deadline ${deadline}ms --on-stall kill -- \
		soak 4 "$1" "$2" $((deadline * 85 / 100)) >"$scratch/soak-$1" 2>&1 ||
		[ "$(cat "$scratch/soak-$1")" != OK ]; then
		echo "soak, $1:"
		cat "$scratch/soak-$1"
		return 1
	fi
}

if [ "${3-}" = soak ]; then
	soak threads "$4" &
	soak processes "$4" || failed=1
	wait $! || failed=1
	exit $failed
fi

all start
wait
all row
soak threads 10 && soak processes 10 || failed=1

# Other programs run as they would alone.
for program in exchange groups graph nonblocking split threads; do
	${CC:-cc} -std=gnu11 -O1 -Isrc -Isrc/sim/include "tests/system/programs/$program.c" \
		-o "$scratch/$program" -L"$out/lib/drop-in" -lnccl -lcudart -pthread -lm || exit 1
	if ! timeout 120 env -u NCCL_RUNTIME_CONNECT "$out/cohort" watch -- \
		"$out/cohort" run -n 4 "${nccl[@]}" -- "$scratch/$program" \
		>"$scratch/out" 2>&1 || [ "$(cat "$scratch/out")" != OK ]; then
		echo "$program:"
		cat "$scratch/out"
		failed=1
	fi
done

# says PATTERN STATUS COMMAND... - the command must exit with STATUS and say PATTERN
says() {
	local pattern=$1 status=$2
	shift 2

	"$@" >"$scratch/out" 2>"$scratch/err" </dev/null
	if [ $? -ne "$status" ] || [ -s "$scratch/out" ] ||
		{ [ "$pattern" ] && ! grep -q -- "$pattern" "$scratch/err"; }; then
		echo "$*: not exit $status and \"$pattern\":"
		cat "$scratch/out" "$scratch/err"
		failed=1
	fi
}

[ "$library" = sim ] || exit $failed

# Dumps, which cohort trace reads.
says 'rank 1 has not called all_reduce 7' 3 watch --deadline 1s --on-stall kill \
	--dumps "$scratch/dumps" -- missing 2 threads
"$out/cohort" trace "$scratch/dumps" >"$scratch/trace" 2>&1
if ! grep -q 'HANG .*rank 1 has not called all_reduce 7' "$scratch/trace" &&
	! grep -q json-c "$scratch/trace"; then
	cat "$scratch/trace"
	failed=1
fi

# On a terminal, a line shows the status until there is a report.
status_line() {
	local line='cohort watch: 1 communicator, 1 with a collective in flight'

	script -qec "'$out/cohort' watch --deadline 2s --on-stall kill -- \
		'$out/cohort' run -n 2 -- '$scratch/watched' missing 2 threads" \
		/dev/null >"$scratch/out" </dev/null
	[ $? = 3 ] &&
		grep -q "$line"$'\r\e\\[KHANG  *rank 1 has not called' "$scratch/out"
}
if ! script -qec true /dev/null >"$scratch/out" 2>&1 </dev/null; then
	echo "[SKIP] status line: no terminal: $(head -n 1 "$scratch/out")"
elif ! status_line; then
	echo "no exit status 3, or no status line:"
	cat -v "$scratch/out"
	failed=1
fi

# An allocation that waits for another rank's kernel is in the stack, which needs libdw.
where='rank 1 has not called all_reduce 7'
grep -q 'libdw\.so' "$out/cohort" && where='host_cuda\(Malloc\|Free\)'
COHORT_HOST_SYNC=device says "$where" 3 watch --deadline 1s --on-stall kill -- memory 2 threads

# Two watchers: the inner one reports.
says 'rank 1 has not called all_reduce 7' 3 "$out/cohort" watch -- "$out/cohort" watch \
	--deadline 1s --on-stall kill -- "$out/cohort" run -n 2 -- "$scratch/watched" missing 2 threads

# A program that does not fail after an abort.
says 'aborting all communicators' 3 "$out/cohort" watch --deadline 1s --on-stall abort -- \
	sh -c '"$@" || exit 0' sh "$out/cohort" run -n 2 -- "$scratch/watched" hung 2 threads

# Marks off: a rank that does not call is found.
says 'rank 1 has not called all_reduce 7' 3 watch --marks off --deadline 1s --on-stall kill -- \
	missing 2 threads

# cohort run with a deadline.
mkfifo "$scratch/run"
"$out/cohort" run --deadline 1s -n 2 -- "$scratch/watched" missing 2 threads 2>"$scratch/run" &
timeout 60 grep -q 'rank 1 has not called all_reduce 7' "$scratch/run" || {
	echo "cohort run --deadline 1s does not report the hang"
	failed=1
}
kill $!
wait $!
[ $? = 143 ] || failed=1
says '"5" is not a time' 2 "$out/cohort" run --deadline 5 -- true

# While nothing stalls, SIGQUIT prints a report and does not reach the program.
mkfifo "$scratch/fifo"
watch -- missing 2 threads >"$scratch/out" 2>"$scratch/fifo" &
exec 3<"$scratch/fifo"
until pid=$(descendant $! cohort); do
	:
done
line=
until [[ $line == *"collective 7 is in flight"* ]]; do
	kill -QUIT "$pid" && IFS= read -r -t 1 line <&3
done
read -r line <&3
[[ $line == *'rank 0 (pid '*' has queued its operation, which is not done' ]] || {
	echo "SIGQUIT: $line"
	failed=1
}
read -r program _ < <(cat "/proc/$pid/task/"*/children)
"$out/cohort" watch --pid "$program" >"$scratch/out" || failed=1
grep -q 'rank 1 (pid .* is alive) is busy in the program; its last call, all_reduce' \
	"$scratch/out" || {
	echo "--pid $program:"
	cat "$scratch/out"
	failed=1
}
memory=$(tr '\0' '\n' <"/proc/$program/environ" | sed -n 's/^COHORT_WATCH=//p')
bytes=$(stat -L -c %s "$memory")
head -c 4096 "$memory" >"$scratch/page"
kill "$pid"
exec 3<&-
wait

# A program with a cleared environment is not watched, and runs as it would alone.
watch -- none 2 threads >"$scratch/with" 2>&1
"$out/cohort" watch --deadline 1ms -- env -i LD_LIBRARY_PATH="$out/lib/drop-in" \
	"$scratch/watched" none 2 threads >"$scratch/without" 2>&1 || failed=1
cmp "$scratch/with" "$scratch/without" || failed=1

# A program may find NCCL by an RPATH, by name, or by path.
cat >"$scratch/one.c" <<'END'
#include <dlfcn.h>
#include <nccl.h>

int main(int argc, char **argv)
{
	__typeof__(&ncclGetUniqueId) get_id = ncclGetUniqueId;
	__typeof__(&ncclCommInitRank) init = ncclCommInitRank;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	ncclUniqueId id;
	ncclComm_t comm;

	if (library) {
		*(void **)&get_id = dlsym(library, "ncclGetUniqueId");
		*(void **)&init = dlsym(library, "ncclCommInitRank");
	}
	return get_id(&id) || init(&comm, 2, id, 0);
}
END
sed -e 's/= nccl[A-Za-z]*;/= NULL;/' "$scratch/one.c" >"$scratch/opens.c"
${CC:-cc} -Isrc -Isrc/sim/include -o "$scratch/rpath" "$scratch/one.c" -L"$out/lib/drop-in" \
	-lnccl -lcudart -Wl,-rpath,"$PWD/$out/lib/drop-in" || exit 1
${CC:-cc} -Isrc -Isrc/sim/include -o "$scratch/opens" "$scratch/opens.c" || exit 1
waits='rank 1 has not called ncclCommInitRank'
short=("$out/cohort" watch --deadline 1s --on-stall kill --)
says "$waits" 3 "${short[@]}" "$scratch/rpath"
says "$waits" 3 "${short[@]}" "$out/cohort" run -- "$scratch/opens" libnccl.so.2
says "$waits" 3 "${short[@]}" "$scratch/opens" "$PWD/$out/lib/drop-in/libnccl.so.2"

# A thread aborts a communicator while another thread is inside a call on it.  The C library
# overwrites freed memory.
${CC:-cc} -std=gnu11 -O1 -Isrc -Isrc/sim/include tests/system/programs/aborted_split.c \
	-o "$scratch/aborted_split" -L"$out/lib/drop-in" -lnccl -lcudart -pthread || exit 1
MALLOC_PERTURB_=165 says '' 0 "$out/cohort" watch -- "$out/cohort" run -n 2 -- \
	"$scratch/aborted_split"

# With an NCCL without ncclCommSplit(), a call of ncclCommSplit() fails.
mkdir "$scratch/old"
echo 'int ncclGetVersion(int *version) { return *version = 21703, 0; }' >"$scratch/old.c"
${CC:-cc} -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$scratch/old/libnccl.so.2" \
	"$scratch/old.c" || exit 1
cat >"$scratch/splits.c" <<'END'
#include <dlfcn.h>
#include <nccl.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	__typeof__(&ncclCommSplit) split = NULL;
	ncclComm_t comm;

	if (library)
		*(void **)&split = dlsym(library, "ncclCommSplit");
	return split && split(NULL, 0, 0, &comm, NULL) == ncclInvalidUsage ? 0 : 1;
}
END
${CC:-cc} -Isrc -Isrc/sim/include -o "$scratch/splits" "$scratch/splits.c" || exit 1
says '' 0 "$out/cohort" watch -- "$scratch/splits" "$scratch/old/libnccl.so.2"

# An NCCL without ncclCommGetAsyncError() creates a communicator.
cat >"$scratch/old.c" <<'END'
#include <nccl.h>

ncclResult_t ncclGetVersion(int *version) { return *version = 21703, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) { return id->internal[0] = 0, ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) { return *rank = !comm, ncclSuccess; }
ncclResult_t ncclCommCount(const ncclComm_t comm, int *n) { return *n = comm ? 2 : 0, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *n) { return *n = !comm, ncclSuccess; }
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
	*comm = (ncclComm_t)(&comm + n + id.internal[0] + rank);
	return ncclSuccess;
}
END
${CC:-cc} -Isrc -Isrc/sim/include -shared -fPIC -Wl,-soname,libnccl.so.2 \
	-o "$scratch/old/libnccl.so.2" "$scratch/old.c" || exit 1
says '' 0 "$out/cohort" watch -- "$scratch/opens" "$scratch/old/libnccl.so.2"

# A process that ignores SIGTERM is killed, even if its launcher ends at SIGTERM.
# shellcheck disable=SC2016
says 'rank 1 has not called all_reduce 7' 3 "$out/cohort" watch --deadline 1s --on-stall kill -- \
	bash -c 'trap "" TERM; sleep 300 & echo $! >"$1"; trap - TERM; shift; "$@" & wait' \
	bash "$scratch/pid" "$out/cohort" run -n 2 -- "$scratch/watched" missing 2 threads
# shellcheck disable=SC2016
if ! timeout 60 sh -c 'while grep -q "^State:.[^ZX]" "$1"; do :; done 2>/dev/null' \
	sh "/proc/$(cat "$scratch/pid")/status"; then
	kill -KILL "$(cat "$scratch/pid")"
	echo "a process that ignores SIGTERM was left"
	failed=1
fi

# The program may close all inherited descriptors from 3 on.
# shellcheck disable=SC2016
says 'rank 1 has not called all_reduce 7' 3 "$out/cohort" watch --deadline 1s --on-stall kill -- \
	bash -c 'for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
		exec "$@"' bash "$out/cohort" run -n 2 -- "$scratch/watched" missing 2 threads

# The watcher survives SIGUSR1, which it passes to the program, and SIGPIPE.
# shellcheck disable=SC2016
says '' 5 "$out/cohort" watch -- bash -c 'trap "exit 5" USR1; kill -USR1 $PPID; sleep 60 & wait'
# shellcheck disable=SC2016
says '' 6 "$out/cohort" watch -- bash -c 'kill -PIPE $PPID; exit 6'

# The status of the program, and programs that cannot be watched.
says '' 7 "$out/cohort" watch -- sh -c 'exit 7'
says '' 143 "$out/cohort" watch -- sh -c 'kill $$'
says 'no program given' 2 "$out/cohort" watch
says 'No such file' 127 "$out/cohort" watch -- "$scratch/none"
says 'Permission denied' 126 "$out/cohort" watch -- "$scratch/none-threads.out"
says '"5" is not a time' 2 "$out/cohort" watch --deadline 5 -- true
says '"x" is not report, dump, kill or abort' 2 "$out/cohort" watch --on-stall x -- true
says 'needs --dumps DIRECTORY' 2 "$out/cohort" watch --on-stall dump -- true
says 'needs --on-stall dump, kill or abort' 2 "$out/cohort" watch --dumps "$scratch" -- true
says 'Not a directory' 2 "$out/cohort" watch --on-stall dump --dumps "$scratch/out/x" -- true
says 'does not run under cohort watch' 1 "$out/cohort" watch --pid $$
says 'cannot be combined' 2 "$out/cohort" watch --pid $$ true
# Memory that cohort watch did not create is not opened, not even a FIFO.
COHORT_WATCH=$scratch/fifo sleep 60 &
says 'does not run under cohort watch' 1 timeout 20 "$out/cohort" watch --pid $!
kill $!
# Shared memory that is too small, or could shrink while it is read, is also refused.
cat >"$scratch/memory.c" <<'END'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* memory PAGE SIZE - wait, with COHORT_WATCH set to SIZE bytes that begin with PAGE */
int main(int argc, char **argv)
{
	char page[4096], name[64];
	int fd = memfd_create("x", 0);

	if (argc != 3 || !freopen(argv[1], "r", stdin) ||
	    fread(page, sizeof(page), 1, stdin) != 1 ||
	    write(fd, page, sizeof(page)) != sizeof(page) || ftruncate(fd, atol(argv[2])) != 0)
		return 1;
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", getpid(), fd);
	setenv("COHORT_WATCH", name, 1);
	return execlp("sleep", "sleep", "60", (char *)NULL);
}
END
${CC:-cc} -O1 -o "$scratch/memory" "$scratch/memory.c" || exit 1
for bytes in 4096 "$bytes"; do
	"$scratch/memory" "$scratch/page" "$bytes" &
	until [ "$(cat "/proc/$!/comm")" = sleep ]; do
		kill -0 $! || exit 1
	done
	says 'does not run under cohort watch' 1 timeout 20 "$out/cohort" watch --pid $!
	kill $!
done
says 'is neither on nor off' 2 "$out/cohort" watch --marks 1 -- true
cp "$scratch/watched" "$scratch/setuid" && chmod u+s "$scratch/setuid"
says 'setuid' 2 "$out/cohort" watch -- "$scratch/setuid"
printf '%s\n' 'const char *a = "NCCL_LAUNCH_MODE", *b = "NCCL version ";' \
	'int main(void) { return !a || !b; }' >"$scratch/static.c"
${CC:-cc} -o "$scratch/static" "$scratch/static.c" || exit 1
says 'linked statically' 2 "$out/cohort" watch -- "$scratch/static"
exit $failed
