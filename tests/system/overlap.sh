#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Test cohort bench overlap as a user calls it: its table, its JSON and its figure, that no
# result is wrong, and what it refuses.
#
# usage: overlap.sh COHORT DROP_INS      exit status 0 passed, 1 failed, 77 skipped

set -u
cohort=${1:?usage: overlap.sh COHORT DROP_INS}
drop_ins=${2:?usage: overlap.sh COHORT DROP_INS}
[ -x "$cohort" ] || { echo "overlap.sh: $cohort is not built"; exit 77; }

unset COHORT_HOST_DEVICES COHORT_FAULTS
COHORT_PLATFORM=host
export COHORT_PLATFORM

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

fail()
{
	echo "overlap.sh: $*"
	sed 's/^/    /' "$dir/out" "$dir/err"
	failures=$((failures + 1))
}

# overlap STATUS ARGUMENT... - run the command, which must exit with STATUS
overlap()
{
	want=$1
	shift
	timeout 300 "$cohort" bench overlap "$@" >"$dir/out" 2>"$dir/err" \
		</dev/null
	got=$?
	[ $got -eq "$want" ] || fail "$*: exit $got, not $want"
}

# says REGEX - fail unless a line of the output matches
says()
{
	grep -qE -e "$1" "$dir/out" || fail "no '$1'"
}

# refuses STATUS WORD ARGUMENT... - fail unless the error is one line that contains WORD
refuses()
{
	status=$1
	word=$2
	shift 2
	overlap "$status" "$@"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "$*: not one line"
	grep -qF -e "$word" "$dir/err" || fail "$*: no '$word' in it"
}

# ---- measurements ----------------------------------------------------------

list=$dir/list.tsv
printf 'a\t3x7\t21\nb\t1\t1\nc\t200x200\t40000\nd\t5\t5\n' >"$list"

overlap 0 --help
says '^usage: cohort bench overlap --shapes FILE'
awk 'length > 79 { exit 1 }' "$dir/out" || fail "a line is longer than 79 columns"

overlap 0 --shapes "$list" --ranks 2 --rounds 2 --bucket-bytes 1000 --first-bytes 50
says ': 4 tensors of float32, 160108 bytes, in 4 buckets, making progress$'
overlap 0 --shapes "$list" --ranks 2 --rounds 2 --bucket-bytes 1000 --first-bytes 50 \
	--full-buckets
says ': 4 tensors of float32, 160108 bytes, in 3 buckets, making progress$'
[ "$(grep -cE '^( +[0-9.]+){6}$' "$dir/out")" -eq 3 ] || fail "not three cases"

overlap 0 --shapes "$list" --ranks 4 --rounds 1 -d bfloat16 --sleep --no-pin \
	--backward 0.25,x3
says ', sleeping$'
# A pass takes at least the requested milliseconds.
awk '!/^#/ && !n++ { ok = $1 >= 250 } END { exit !(ok && n == 2) }' "$dir/out" ||
	fail "not a pass of 0.25 ms"

overlap 0 --shapes "$list" --rounds 1 --backward 1 --json
[ "$(wc -l <"$dir/out")" -eq 1 ] || fail "JSON: not one line"
says '^\[{"tensors":4,"bytes":160108,"buckets":1,"backward_us":[0-9.]+,"comm_us":'
says '"step_us":[0-9.]+,"by_max":[0-9.]+,"by_max_p95":[0-9.]+,"by_sum":[0-9.]+,"wrong":0}\]$'
overlap 0 --shapes "$list" --rounds 1 --backward 1 --json -c 0
says '"wrong":null}\]$'

# Test the gpu platform on the drop-in libraries.
COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$drop_ins
export COHORT_GPU_LIBRARIES
overlap 0 --shapes "$list" --rounds 1 --backward 1 --bucket-bytes 1000
says ', gpu platform, 2 ranks'
unset COHORT_GPU_LIBRARIES
COHORT_PLATFORM=host

if command -v gnuplot >/dev/null; then
	overlap 0 --shapes "$list" --rounds 1 --backward 0.5,1
	gnuplot -c bench/overlap.gnuplot "$dir/out" >"$dir/figure.svg"
	grep -q 'backward + averaging' "$dir/figure.svg" || fail "no figure"
else
	echo '[SKIP] the figure: gnuplot is not installed'
fi

# ---- refused arguments -----------------------------------------------------

refuses 2 'no --shapes FILE given'
refuses 2 '--backward: "y2" is not a length' --shapes "$list" --backward x1,y2
refuses 2 '--backward: "0" is not a length' --shapes "$list" --backward 0
refuses 2 '--backward: "" is not a length' --shapes "$list" --backward 1,
refuses 2 '--backward: "xx1" is not a length' --shapes "$list" --backward xx1
refuses 2 '--backward: more than 16' --shapes "$list" \
	--backward 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
refuses 2 '--bucket-bytes: "0"' --shapes "$list" --bucket-bytes 0
refuses 2 '--ranks: "0"' --shapes "$list" --ranks 0
refuses 2 '-d: "all" is not a type: ' --shapes "$list" -d all
refuses 1 'bench overlap: ' --shapes "$dir/nowhere"
printf 'a 3 3\n' >"$list"
refuses 1 'list.tsv:1: "a 3 3" is not name, shape and count' --shapes "$list"

[ $failures -eq 0 ] || echo "overlap.sh: $failures failures"
[ $failures -eq 0 ]
