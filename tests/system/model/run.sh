#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Check the models of how a clique ends, of the launch window, and of memory orders: spin
# must find no error in the correct models, and at least one in each variant that is
# broken on purpose.  Exits with 77 without spin.  With FULL=1, also searches everything that
# may go wrong at once, with two threads that submit; this takes two more minutes
# and one more GiB.

for tool in spin "${CC:=cc}"; do
	command -v "$tool" >/dev/null && continue
	echo "tests/system/model: $tool is not installed (Debian: apt-get install spin gcc)"
	exit 77
done

models=$(cd "$(dirname "$0")" && pwd)
model=$models/abort.pml
work=$(mktemp -d) || exit 1
broken=
trap 'rm -rf "$work"' EXIT
trap 'kill "$broken" 2>/dev/null; exit 1' HUP INT TERM
mkdir "$work/right" "$work/broken"

# search NAME PAN-FLAGS MACRO... - search a model; leave spin's report in report
search()
{
	name=$1 flags=$2
	shift 2
	rm -f pan pan.* report
	# Unquoted, because it holds several flags.
	# shellcheck disable=SC2086
	spin -a "$@" "$model" >report 2>&1 &&
		"$CC" -w -O2 -DCOLLAPSE -DMEMLIM=3500 $flags -o pan pan.c \
			>>report 2>&1 || return 1
	case $flags in
	*-DNP*) set -- -l ;;
	*) set -- ;;
	esac
	start=$(date +%s%N)
	./pan "$@" -m2000 -w25 >>report 2>&1
	ms=$((($(date +%s%N) - start) / 1000000))
	states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' report)
	grep -q 'states, stored' report
}

# verdict STATUS NAME TEXT - print a result, and the report if STATUS is not 0
verdict()
{
	word=FAILED
	[ "$1" = 0 ] && word=ok
	printf '%-6s %-30s %10s states %4d.%03d s  %s\n' "$word" "$2" \
		"${states:-?}" $((${ms:-0} / 1000)) $((${ms:-0} % 1000)) "$3"
	[ "$1" = 0 ] || cat report
}

# holds NAME FLAGS MACRO... - pass if the search is complete and finds nothing
holds()
{
	states='' ms=''
	search "$@" && grep -q 'errors: 0$' report &&
		! grep -Eq 'Search not completed|max search depth|out of memory|reached -DMEMLIM|hash array' \
			report
	verdict $? "$1" 'holds'
}

# breaks MACRO [MACRO...] - pass if the search finds an error; without PATIENT it must
# be a failed assertion, because a deadlock could be the model's own
breaks()
{
	states='' ms='' name=$1
	macros="-D$1"
	shift
	for macro; do
		macros="$macros -D$macro"
	done
	# shellcheck disable=SC2086
	search "$name" -DSAFETY $macros &&
		case $macros in
		*PATIENT*) grep -q 'errors: 1$' report ;;
		*) grep -q 'assertion violated' report ;;
		esac
	verdict $? "$name" "$(sed -n \
		's/^pan:[0-9]*: \(.\{0,60\}\).* (at depth.*/\1/p' report)"
}

# The whole model at once is too large, so each search leaves something out:
#
#	two ranks   a thread per rank, and the waiter
#	both ranks  one thread that submits for both, and the waiter
#	prober      the prober, which also fires, instead of the waiter
#	straggler   a worker that may be abandoned, and that asks, instead of the
#	            waiter
#
# "stuck" means calls that never return and deadlines that pass; without these
# (PATIENT) every close must end.  "failing" means native calls that fail.  There are
# two firers, or one where two would be too many states.
check_right()
{
	cd "$work/right" || exit
	holds 'two ranks, stuck' -DSAFETY -DNO_FAILURES
	[ -z "$FULL" ] || holds 'two ranks, stuck and failing' -DSAFETY
	holds 'two ranks, failing' -DSAFETY -DPATIENT
	holds 'two ranks, two operations' -DSAFETY -DOPS=2 -DFIRERS=1 \
		-DNO_FAILURES -DPATIENT
	holds 'both ranks, stuck and failing' -DSAFETY -DGROUP
	holds 'both ranks, no cycle' -DNP -DGROUP -DFIRERS=1
	holds 'prober, stuck and failing' -DSAFETY -DPROBER -DGROUP -DFIRERS=1
	holds 'prober, failing' -DSAFETY -DPROBER -DFIRERS=1 -DPATIENT
	[ -z "$FULL" ] || holds 'prober, stuck' -DSAFETY -DPROBER -DFIRERS=1 \
		-DNO_FAILURES
	holds 'straggler, stuck' -DSAFETY -DSTRAGGLER -DFIRERS=1 -DNO_FAILURES
	[ -z "$FULL" ] || holds 'straggler, stuck and failing' -DSAFETY \
		-DSTRAGGLER -DFIRERS=1
	holds 'straggler, failing' -DSAFETY -DSTRAGGLER -DFIRERS=1 -DPATIENT
	holds 'straggler, two operations' -DSAFETY -DSTRAGGLER -DOPS=2 \
		-DFIRERS=1 -DNO_FAILURES -DPATIENT
	holds 'straggler and prober' -DSAFETY -DSTRAGGLER -DPROBER -DFIRERS=1 \
		-DNO_FAILURES -DPATIENT
	holds 'straggler and prober, no cycle' -DNP -DSTRAGGLER -DPROBER \
		-DFIRERS=0 -DNO_FAILURES -DPATIENT
	model=$models/window.pml
	holds 'window' -DSAFETY
	holds 'window, stuck' -DSAFETY -DSTUCK
	holds 'window, a connection' -DSAFETY -DSTUCK -DQUIET=0 -DCONNECTS=1
	[ -z "$FULL" ] || holds 'window, two sections' -DSAFETY -DQUIET=2
	[ -z "$FULL" ] || holds 'window, a section and a connection' -DSAFETY \
		-DCONNECTS=1
	[ -z "$FULL" ] || holds 'window, two connections' -DSAFETY -DQUIET=0 \
		-DCONNECTS=2
	model=$models/orders.pml
	holds 'orders' -DSAFETY
	: >"$work/right.whole"
}

check_broken()
{
	cd "$work/broken" || exit
	breaks BREAK_FIRE_STORES
	breaks BREAK_NO_POST PATIENT
	breaks BREAK_GATE_LOOKS_FIRST
	breaks BREAK_GATES_IGNORED
	breaks BREAK_FLIGHT_IGNORED
	breaks BREAK_MARKED_UNWATCHED GROUP
	breaks BREAK_ONE_RANK
	breaks BREAK_ONE_RANK PATIENT
	breaks BREAK_LATE_RANK_TRUSTED
	breaks BREAK_NOTED_LATE
	breaks BREAK_NOTES_UNAWAITED
	breaks BREAK_NOTES_IGNORED
	breaks BREAK_STATE_READ_FIRST
	breaks BREAK_ANSWERED_EARLY
	breaks BREAK_WEDGED_UNNOTED
	breaks BREAK_QUIESCED_STORED
	breaks BREAK_CLOSE_DESTROYS
	breaks BREAK_DESTROYED_LIVE
	breaks BREAK_PROBER_LOOKS_FIRST PROBER PATIENT
	breaks BREAK_ABORTED_PROBED PROBER
	breaks BREAK_DESTROYED_PROBED PROBER
	breaks BREAK_PROBER_STOPPED_LATE PROBER
	breaks BREAK_PROBER_FORGOTTEN PROBER
	breaks BREAK_STRAGGLER_UNCOUNTED STRAGGLER
	breaks BREAK_WORDS_GIVEN_BACK STRAGGLER
	breaks BREAK_PUT_FREES STRAGGLER
	model=$models/window.pml
	breaks BREAK_NO_WINDOW
	breaks BREAK_CONNECTS_IN_A_SECTION CONNECTS QUIET=0
	breaks BREAK_NOT_CANCELLED
	breaks BREAK_NESTED_WAITS PATIENT
	breaks BREAK_GIVE_UP_FORGETS QUIET=2
	breaks BREAK_LET_IN_TWICE QUIET=2 PATIENT
	breaks BREAK_LEFT_OPEN STUCK
	breaks BREAK_NO_TURNS
	breaks BREAK_TURN_KEPT
	model=$models/orders.pml
	breaks BREAK_CHECK_ACQUIRES
	breaks BREAK_MARK_RELAXED
	breaks BREAK_ALL_DONE_RELAXED
	breaks BREAK_WORDS_STORED_RELAXED
	breaks BREAK_WORDS_LOADED_RELAXED
	breaks BREAK_RING_STORED_RELAXED
	breaks BREAK_NOTED_RELAXED
	breaks BREAK_NO_MEMBARRIER
	breaks BREAK_CUT_STORED
	: >"$work/broken.whole"
}

# Run both halves at the same time.
check_broken >"$work/broken.out" &
broken=$!
check_right | tee "$work/right.out"
wait "$broken"
cat "$work/broken.out"

passed=$(cat "$work"/*.out | grep -c '^ok ')
failed=$(cat "$work"/*.out | grep -c '^FAILED ')
# A half that has exited early has failed.
for half in right broken; do
	[ -e "$work/$half.whole" ] || failed=$((failed + 1))
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
