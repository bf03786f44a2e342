#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Test the drill with two ranks: all of its cells are right, its JSON is complete, and a
# wrong cell is found.  Times are not checked, because the machine may be busy; see
# scripts/drill-load.sh and the figures of docs/benchmarks.md.
#
# usage: drill.sh COHORT          exit status 0 passed, 1 failed, 77 skipped

set -u
cohort=${1:?usage: drill.sh COHORT}

unset COHORT_HOST_DEVICES COHORT_FAULTS COHORT_PLATFORM
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

fail()
{
	echo "drill.sh: $*"
	sed 's/^/    /' "$dir/out" "$dir/err"
	failures=$((failures + 1))
}

# run STATUS ARGUMENT... - run the drill, which must exit with STATUS
run()
{
	want=$1
	shift
	"$cohort" drill "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got -eq "$want" ] || fail "cohort drill $*: exit $got, not $want"
}

# Run ranks in several processes at the same time, because a drill mostly waits.
"$cohort" drill --processes 2 --slack 5000 >"$dir/spread" 2>&1 </dev/null &
spread=$!

run 0 --list
[ "$(wc -l <"$dir/out")" -eq 324 ] || fail "--list: not all of the table"
grep -c -e '-  [A-Z].*\.$' "$dir/out" >"$dir/impossible"

run 0 --ranks 2 --deadline 150 --slack 5000 --json
[ ! -s "$dir/err" ] || fail "--json: wrote to standard error"
if command -v python3 >/dev/null; then
	python3 - "$dir/out" "$dir/impossible" <<'END' || fail "--json: not as it should be"
import json, sys

result = json.load(open(sys.argv[1]))
impossible = int(open(sys.argv[2]).read())
assert list(result) == ["cells"]
cells = result["cells"]
# Seven cells need more than two ranks.
assert len(cells) == 324 - impossible - 7 >= 200, (len(cells), impossible)
assert len({(c["where"], c["fault"]) for c in cells}) == len(cells)
timed = 0
for c in cells:
    assert list(c) == ["where", "fault", "ranks", "expected", "got", "text",
                       "detected_ms", "bound_ms", "ok"], c
    assert c["ranks"] == 2 and c["ok"] is True and c["got"] == c["expected"], c
    if c["got"] == "none":
        assert c["detected_ms"] is None and c["bound_ms"] is None, c
        assert c["text"] is None, c
        continue
    timed += 1
    assert "rank" in c["text"], c
    assert c["bound_ms"] in (0, 50, 150, 750), c
    assert c["detected_ms"] >= (c["bound_ms"] if c["bound_ms"] > 50 else 0), c
assert timed > 60, timed
END
else
	echo '[SKIP] contents of the JSON: python3 is not installed'
fi

# A cell whose verdict is late is wrong.  If faults are already scripted, the drill is
# refused.
run 1 --only call/missing-rank --slack 0 --ranks 8
grep -q ' rank 7; too late$' "$dir/out" || fail "a late verdict is not found"
grep -q 'expected: busy in the program, rank 7$' "$dir/out" ||
	fail "the expectation is not named"
grep -q '1 of 1 cells are wrong' "$dir/err" || fail "the number of wrong cells is not named"
COHORT_FAULTS=0@1:error=3
export COHORT_FAULTS
run 1 --only wait/none
unset COHORT_FAULTS
grep -q 'without any fault: native error, rank 0' "$dir/err" || fail "the drill has begun"

# Ranks in several processes: all cells, some of them in both forms.
run 0 --processes 2 --list
[ "$(wc -l <"$dir/out")" -eq 384 ] || fail "--processes 2 --list: not all of the table"
possible=$((384 - $(grep -c -e '-  [A-Z].*\.$' "$dir/out")))
wait $spread || fail "--processes 2: exit $?"
mv "$dir/spread" "$dir/out"
grep -q "^$possible cells, $possible right, 0 wrong" "$dir/out" ||
	fail "--processes 2: not all of the possible cells"
run 1 --processes 2 --only call/process-stopped --slack 0
grep -q 'process 0: process stopped, rank 2; too late' "$dir/out" ||
	fail "a late verdict of one process is not found"
run 2 --processes 3
grep -q '"3" is not 1, 2 or 4' "$dir/err" || fail "--processes 3 is not refused"
run 2 --processes 4
grep -q '4 processes need at least 8 ranks, not 4' "$dir/err" || fail "--processes 4 is not refused"

run 0 --only 'send/recv/thread exit' --only group-call/native-error --slack 5000
[ "$(grep -c '^send/recv\|^group call' "$dir/out")" -eq 2 ] || fail "--only: not two"
awk 'length > 79 { exit 1 }' "$dir/out" || fail "a line is longer than 79 columns"
exit $((failures > 0))
