#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test bench/peers.py with the command $1, without any MPI, and with stand-ins that print
# given times: what it reports, and that its ratios are right.

set -u

cohort=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tools=$scratch/tools
failed=0

command -v python3 >/dev/null || {
	echo "peers.sh: no python3: skipped"
	exit 77
}
mkdir "$tools"
for tool in env sh cat; do
	ln -s "$(command -v $tool)" "$tools/$tool"
done
python=$(python3 -c 'import sys; print(sys.executable)')
ln -s "$python" "$tools/python3"

fail() {
	echo "peers.sh: $*"
	cat "$scratch/log"
	failed=1
}

# peers ARGUMENT... - run the script, which must succeed, with only the tools in $tools
peers() {
	PATH=$tools:$scratch/nowhere bench/peers.py --out "$scratch/out" "$@" \
		>"$scratch/log" 2>&1 </dev/null || fail "peers.py $*: exit status $?"
}

# says TEXT - fail unless the output contains TEXT
says() {
	grep -qF -e "$1" "$scratch/log" || fail "no '$1'"
}

# stand_in COMPILER RUN NS - create an MPI that takes NS nanoseconds for 1024 bytes
stand_in() {
	cat >"$tools/$1" <<-'END'
		#!/bin/sh
		while [ "$1" != -o ]; do shift; done
		echo program >"$2"
	END
	printf '#!/bin/sh\necho loop 1024 %s\necho rewrite 1024 %s\n' "$3" "$3" \
		>"$tools/$2"
	chmod +x "$tools/$1" "$tools/$2"
}

peers --rounds 1 --ranks 2 --sizes 4 "$cohort"
says 'Open MPI: not measured: mpicc.openmpi is not installed (Debian: openmpi-bin'
says 'MPICH: not measured: mpicc.mpich is not installed (Debian: mpich libmpich-dev)'
says '2 ranks, rewrite'

stand_in mpicc.openmpi mpirun.openmpi 1e12
stand_in mpicc.mpich mpiexec.mpich 2e12
peers --rounds 3 --ranks 2,3 --sizes 4,1K "$cohort"
says '3 ranks, loop'
says 'no figure: gnuplot is not installed (Debian: gnuplot-nox)'
python3 - "$scratch/out/peers.json" <<'END' || fail "peers.json is not right"
import json, statistics, sys

cases = {(c["system"], c["ranks"], c["mode"], c["bytes"]): c
         for c in json.load(open(sys.argv[1]))}
for ranks in 2, 3:
    for mode in "loop", "rewrite":
        for ours in "cohort", "raw":
            assert cases[ours, ranks, mode, 4]["faster_than MPICH"] is None
            c = cases[ours, ranks, mode, 1024]
            assert len(c["rounds_us"]) == 3
            for peer, us in ("Open MPI", 1e9), ("MPICH", 2e9):
                want = us / statistics.median(c["rounds_us"])
                assert abs(c["faster_than " + peer] / want - 1) < 1e-9
END

# An MPI that fails is reported, and the others are still measured.
printf '#!/bin/sh\necho it cannot >&2\nexit 3\n' >"$tools/mpirun.openmpi"
peers --rounds 1 --ranks 2 --sizes 1K "$cohort"
says 'exit status 3'
says 'it cannot'
says '2 ranks, loop'

for wrong in '--sizes 6' '--sizes 4x' '--ranks 1' '--rounds 0'; do
	# shellcheck disable=SC2086
	if bench/peers.py $wrong "$cohort" >"$scratch/log" 2>&1; then
		fail "peers.py $wrong: is not refused"
	fi
done
exit $failed
