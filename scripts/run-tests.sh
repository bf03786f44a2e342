#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run test programs, several at a time, show their results in order, and add the results up.
#
#	scripts/run-tests.sh [COMMAND]...
#
# Each argument, or without arguments each line of the input, is a command, split at spaces.
# There are three kinds of commands:
#
#   - a Criterion suite, recognized by its last line: each of its tests counts;
#   - a program whose last line is "N passed, N failed, N skipped";
#   - any other program counts as one test: passed if its exit status is 0, skipped if it is 77
#     (with the reason in its first line), failed otherwise.
#
# A command whose interpreter is not installed is skipped.  A program that skips a part prints a
# line "[SKIP] part: reason", which counts as one skipped test.
#
# If a sanitizer reports an error in a program, the program has failed.  AddressSanitizer writes
# its report to a file, because Criterion ignores the exit of a test's process after the test has
# passed.
#
# If the last line of a program starts with "N rounds", the line is shown, and the rounds are
# added up.
#
# Environment variables:
#   TEST_SHOW     show all output of a program whose command contains one of these words
#   TEST_TIMEOUT  seconds per program; default 600
#   TEST_JOBS     programs at a time; default one per core, and at least 4, because most of
#                 them wait more than they compute
#   TEST_RETRY    not empty: run a failed program once more, alone, after all others.  If it
#                 passes, it counts as passed, and a line "flaky: COMMAND" names it at the end.
#                 A sanitizer's report is a failure in any case.
#
# At the end, prints the name of each failed test again, with the reason.  The last line is always
# "N passed, N failed, N skipped"; the exit status is 1 if a test failed.

set -u

limit=${TEST_TIMEOUT:-600}
cores=$(nproc 2>/dev/null || echo 1)
jobs=${TEST_JOBS:-$((cores > 4 ? cores : 4))}
root=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$root"' EXIT
trap 'exit 1' INT TERM

asan_options="detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:exitcode=66:second_deadlock_stack=1:${TSAN_OPTIONS:-}"

# Files and counts of the program that this shell runs, or whose results it shows.
scratch=
output=
p=0
f=0
s=0
rounds=0

# skips - print the skipped tests of a suite, without the tests that its --filter excludes
skips() {
	sed -n 's/^\[SKIP\] //p' "$output" | grep -v ': Test is disabled$'
}

# count_criterion - count a suite's tests by its last line and its skips
count_criterion() {
	local line

	line=$(grep '^\[====\] Synthesis: ' "$output" | tail -n 1)
	[ -n "$line" ] || return 1
	read -r p f < <(awk -F'[:|]' '{ print $5 + 0, $7 + $9 }' <<<"$line")
	s=$(skips | wc -l)
	return 0
}

# count_last_line - count a program's tests by its last line
count_last_line() {
	[[ $(tail -n 1 "$output") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]] ||
		return 1
	p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
}

# count_program - count a program by its exit status $1
count_program() {
	case $1 in
	0) p=1 s=$(skips | wc -l) ;;
	77) s=1 ;;
	*) f=1 ;;
	esac
}

# show_output - show the output of a failed program, without its passed tests
show_output() {
	grep -v -e '^\[RUN \]' -e '^\[PASS\]' -e '^\[SKIP\]' "$output" |
		tail -n 200 | sed 's/^/    /'
}

# failures COMMAND - print the failed tests of COMMAND with reasons, or COMMAND if it names none
failures() {
	awk -v command="$1" '
		/^\[RUN \]/ { why = "" }
		/^\[----\]/ {
			sub(/^\[----\] */, "")
			if ($0 != "")
				why = why (why == "" ? "" : " ") $0
		}
		/^\[FAIL\] [^ ]+::[^ ]+:/ {
			test = substr($2, 1, length($2) - 1)
			sub(/^\[FAIL\] [^ ]+ *(\([0-9.]+s\))?/, "")
			print test " in " command ": " substr($0 " " why, 1, 300)
		}' "$output" | sed 's/:  */: /; s/[: ]*$//' | sort -u |
		grep . || echo "$1"
	sed -n "s,^SUMMARY: ,$1: ,p" "$scratch"/report* "$output" 2>/dev/null |
		cut -c 1-300 | sort -u
}

show_reports() {
	local report

	for report in "$scratch"/report*; do
		[ -e "$report" ] && sed 's/^/    /' "$report"
	done
}

show_skips() {
	if [ "$1" -eq 77 ]; then
		echo "    skipped: $(head -n 1 "$output")"
	else
		skips | sed 's/^/    skipped: /'
	fi
}

# show_wanted - show a passed program's output if its command $1 matches TEST_SHOW
show_wanted() {
	local word

	for word in ${TEST_SHOW:-}; do
		[[ $1 == *"$word"* ]] || continue
		sed 's/^/    /' "$output"
		return
	done
	return 1
}

# show_rounds - show and count the rounds of a passed program
show_rounds() {
	local line

	line=$(tail -n 1 "$output")
	[[ $line =~ ^([0-9]+)\ rounds ]] || return
	echo "    $line"
	rounds=${BASH_REMATCH[1]}
}

# reason_unavailable WORD... - print why the command of these words cannot run, if it cannot
reason_unavailable() {
	local word

	for word; do
		[[ $word == */tests/@(unit/unit|api/api|sim/sim) ]] &&
			[ ! -e "$word" ] && echo "Criterion is missing"
	done
	[[ $1 == */* ]] || command -v "$1" >/dev/null || echo "$1 is not installed"
}

# run COMMAND SCRATCH - run a command, print its results, and write counts to SCRATCH/counts
run() {
	local rc word begin
	local -a words

	read -ra words <<<"$1"
	scratch=$2
	output=$scratch/output
	p=0 f=0 s=0 rounds=0
	export ASAN_OPTIONS="log_path=$scratch/report:$asan_options"
	begin=$SECONDS
	reason_unavailable "${words[@]}" >"$output"
	if [ -s "$output" ]; then
		rc=77
	else
		timeout -k 10 "$limit" "${words[@]}" >"$output" 2>&1 </dev/null &
		# shellcheck disable=SC2064 # expand it now
		trap "kill $!" TERM
		wait $!
		rc=$?
		trap - TERM
	fi

	count_criterion || count_last_line || count_program "$rc"
	if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then
		echo "stopped after $limit seconds" >>"$output"
	fi
	if [ "$rc" -ne 0 ] && [ "$rc" -ne 77 ] && [ "$f" -eq 0 ]; then
		f=1
	fi
	if compgen -G "$scratch/report*" >/dev/null && [ "$f" -eq 0 ]; then
		f=1
		# The output is not that of a suite, so this is one test, which failed.
		if [ $((p + s)) -eq 1 ]; then
			p=0 s=0
		fi
	fi

	if [ "$f" -ne 0 ]; then
		word=FAIL
	elif [ "$p" -ne 0 ] || [ "$s" -eq 0 ]; then
		word=ok
	else
		word=skip
	fi
	printf '%-4s  %s  (%d passed, %d failed, %d skipped, %d s)\n' \
		"$word" "$1" "$p" "$f" "$s" $((SECONDS - begin))
	[ "$s" -eq 0 ] || show_skips "$rc"
	if [ "$word" = ok ]; then
		show_rounds
		show_wanted "$1"
	fi
	if [ "$f" -ne 0 ]; then
		show_output
		show_reports
		[ "$rc" -eq 0 ] || echo "    exit status $rc"
	fi
	echo "$p $f $s $rounds" >"$scratch/counts"
	[ "$f" -eq 0 ] || failures "$1" >"$scratch/failures"
	[ -z "$(show_reports)" ] || touch "$scratch/reported"
}

commands=("$@")
[ $# -gt 0 ] || mapfile -t commands
[ ${#commands[@]} -gt 0 ] || { echo "run-tests.sh: no commands" && exit 1; }
passed=0
failed=0
skipped=0
all_rounds=0

# start I - run program I in the background
pids=()
start() {
	mkdir "$root/$1"
	run "${commands[$1]}" "$root/$1" >"$root/$1/shown" 2>&1 &
	pids[$1]=$!
}

# show I - show the results of program I, which has exited, and count them, unless the program
# will run again
again=()
show() {
	local scratch=$root/$1

	wait "${pids[$1]}"
	cat "$scratch/shown"
	# A shell that was killed has written no counts.
	read -r p f s rounds 2>/dev/null <"$scratch/counts" ||
		p=0 f=1 s=0 rounds=0
	if [ "$f" -ne 0 ] && [ -n "$retry" ] && [ ! -e "$scratch/reported" ]; then
		again+=("$1")
	else
		cat "$scratch/failures" >>"$root/failures" 2>/dev/null
		passed=$((passed + p))
		failed=$((failed + f))
		skipped=$((skipped + s))
		all_rounds=$((all_rounds + rounds))
	fi
	rm -rf "$scratch"
}

shown=0
retry=${TEST_RETRY:-}
for i in "${!commands[@]}"; do
	start "$i"
	while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do
		wait -n
	done
	while [ "$shown" -le "$i" ] && ! kill -0 "${pids[shown]}" 2>/dev/null; do
		show "$shown"
		shown=$((shown + 1))
	done
done
while [ "$shown" -lt "${#commands[@]}" ]; do
	show "$shown"
	shown=$((shown + 1))
done

retry=
for i in "${again[@]}"; do
	echo "once more, alone:"
	start "$i"
	show "$i"
	[ "$f" -ne 0 ] || echo "${commands[i]}" >>"$root/flaky"
done
[ "$all_rounds" -eq 0 ] || echo "$all_rounds rounds"
[ ! -s "$root/flaky" ] || sed 's/^/flaky: /' "$root/flaky"
[ ! -s "$root/failures" ] || sed 's/^/failed: /' "$root/failures"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
