#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Test cohort bench average as a user calls it: which lists it reads and refuses, what
# its JSON contains, and that no result is wrong.
#
# usage: average.sh COHORT DROP_INS      exit status 0 passed, 1 failed, 77 skipped

set -u
cohort=${1:?usage: average.sh COHORT DROP_INS}
drop_ins=${2:?usage: average.sh COHORT DROP_INS}
[ -x "$cohort" ] || { echo "average.sh: $cohort is not built"; exit 77; }

unset COHORT_HOST_DEVICES COHORT_FAULTS
COHORT_PLATFORM=host
export COHORT_PLATFORM

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

fail()
{
	echo "average.sh: $*"
	sed 's/^/    /' "$dir/out" "$dir/err"
	failures=$((failures + 1))
}

# average STATUS ARGUMENT... - run the command, which must exit with STATUS
average()
{
	want=$1
	shift
	"$cohort" bench average "$@" >"$dir/out" 2>"$dir/err" </dev/null
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
	average "$status" "$@"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "$*: not one line"
	grep -qF -e "$word" "$dir/err" || fail "$*: no '$word' in it"
}

# ---- measurements ----------------------------------------------------------

list=$dir/list.tsv
printf '# of a test\na\t3x7\t21\n\nb\t1\t1\nc\t200x200\t40000\n' >"$list"

average 0 --help
says '^usage: cohort bench average --shapes FILE'
awk 'length > 79 { exit 1 }' "$dir/out" || fail "a line is longer than 79 columns"

average 0 --shapes "$list" --ranks 2 --rounds 2
says ': 3 tensors of float32, 160088 bytes, avg$'
for method in alone group flat views auto; do
	says "^ *$method( +[0-9.]+){6} +0\$"
done

average 0 --shapes "$list" --ranks 3 --rounds 2 --rewrite -o sum -d bfloat16 \
	--only flat,auto --no-pin
says ' tensors of bfloat16, 80044 bytes, sum, rewritten$'
[ "$(grep -vc '^#' "$dir/out")" -eq 2 ] || fail "not two methods"

# Test the gpu platform on the drop-in libraries.
COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$drop_ins
export COHORT_GPU_LIBRARIES
average 0 --shapes "$list" --ranks 2 --rounds 2 --rewrite
says ', gpu platform, 2 ranks'
unset COHORT_GPU_LIBRARIES
COHORT_PLATFORM=host

average 0 --shapes "$list" --ranks 1 --rounds 1 --max-count 21 --json
[ "$(wc -l <"$dir/out")" -eq 1 ] || fail "JSON: not one line"
says '"method":"alone","tensors":2,"bytes":88,"time_us":[0-9.]+,"p5_us":[0-9.]+,"p95_us":[0-9.]+,'
says '"busbw":0[.0]*,"vs_alone":[0-9.]+,"vs_flat":[0-9.]+,"wrong":0}'
average 0 --shapes "$list" --rounds 1 --only auto -c 0 --json
says '"vs_alone":null,"vs_flat":null,"wrong":null}\]$'

# Test the lists in bench/shapes.
for name in resnet50:161:25557032 gpt2-small:148:124439808 \
	llama2-7b:291:6738415616; do
	file=bench/shapes/${name%%:*}.tsv
	awk -F'\t' -v want="${name#*:}" '!/^#/ { n++; sum += $3 }
		END { exit sprintf("%d:%.0f", n, sum) != want }' "$file" ||
		fail "$file: not ${name#*:}"
	average 0 --shapes "$file" --max-count 8192 --rounds 1 --only auto
done

# ---- refused arguments -----------------------------------------------------

refuses 2 'no --shapes FILE given'
refuses 2 '--only: "auto2" is not a method' --shapes "$list" --only flat,auto2
refuses 2 '--ranks: "0"' --shapes "$list" --ranks 0
refuses 2 '--rounds: "0"' --shapes "$list" --rounds 0
refuses 2 '--max-count: "x"' --shapes "$list" --max-count x
refuses 2 '-o: "all" is not an operation: ' --shapes "$list" -o all
refuses 2 '-d: "all" is not a type: ' --shapes "$list" -d all
refuses 1 'nowhere: No such file' --shapes "$dir/nowhere"

# bad LINE WHY - check that a file with LINE as its second line is refused
bad()
{
	printf '# of a test\n%b\n' "$1" >"$list"
	refuses 1 "list.tsv:2: $2" --shapes "$list"
}
bad 'a 3 3' '"a 3 3" is not name, shape and count, separated by tabs'
bad 'a\t3\t-3' '"-3" is not a count'
bad 'a\t3\t3z' '"3z" is not a count'
printf '# nothing\n' >"$list"
refuses 1 'list.tsv: no tensors' --shapes "$list"

[ $failures -eq 0 ] || echo "average.sh: $failures failures"
[ $failures -eq 0 ]
