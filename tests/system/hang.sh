#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test scripts/compare-hang.sh with the command $1: its rows for cohort, for systems that
# are not installed, and for one each that hangs, reports an error, and exits.

set -u

cohort=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tools=$scratch/tools
failed=0
export COHORT_PLATFORM=host
export CC=${CC:-cc}

fail() {
	echo "hang.sh: $*"
	cat "$scratch/log"
	failed=1
}

# compare ARGUMENT... - run the script, which must succeed, with only the tools in $tools
compare() {
	PATH=$tools scripts/compare-hang.sh "$@" "$cohort" >"$scratch/log" 2>&1 ||
		fail "compare-hang.sh $*: exit status $?"
}

# says PATTERN - fail unless a line of the table matches
says() {
	grep -qE -e "$1" "$scratch/log" || fail "no '$1'"
}

# stand_in TOOL COMMAND - create a tool that runs COMMAND
stand_in() {
	printf '#!/bin/sh\n%s\n' "$2" >"$tools/$1"
	chmod +x "$tools/$1"
}

mkdir "$tools"
for tool in bash cat dirname env grep head mktemp rm sed sh sleep timeout; do
	ln -s "$(command -v $tool)" "$tools/$tool"
done
stand_in "$CC" "PATH='$PATH' exec $CC \"\$@\""

compare --timeout 20 --ranks 3
# The report arrives after the deadline of one second, however late.
says '^\| cohort \| [1-9][0-9]*\.[0-9]+ s \| rank 2 has not called all_reduce 2 of "hang" \(.*, limit 1\.0 s\): .*; ranks 0-1 wait \| yes, goes on with 2 ranks \|$'
says '^\| Open MPI \| - \| not tried: mpicc.openmpi is not installed \(Debian: openmpi-bin'
says '^\| MPICH \| - \| not tried: mpicc.mpich is not installed \(Debian: mpich'
says '^\| PyTorch, Gloo \| - \| not tried: torch in python3 is not installed'
says '^\| NCCL \| - \| not tried: '
[ "$(wc -l <"$scratch/log")" -eq 7 ] || fail 'not seven lines'

stand_in mpicc.openmpi :
stand_in mpirun.openmpi 'echo waits; exec sleep 100'
stand_in mpicc.mpich :
stand_in mpiexec.mpich 'echo waits; echo "said 1.5 it is late"; echo "lives an error"'
# shellcheck disable=SC2016
stand_in python3 'case $1 in *.py) echo waits; echo gone >&2; exit 3 ;; esac'
compare --timeout 4
says '^\| Open MPI \| never \| nothing \| no: it hangs, killed after 4 s \|$'
says '^\| MPICH \| 1.5 s \| it is late \| yes, an error \|$'
says '^\| PyTorch, Gloo \| never \| gone \| no: exit status 3 \|$'

stand_in mpicc.openmpi 'exit 1'
stand_in mpiexec.mpich 'exit 5'
compare --timeout 4
says '^\| Open MPI \| - \| not tried: mpicc.openmpi failed'
says '^\| MPICH \| - \| failed before the hang: exit status 5'

for wrong in '--timeout 0' '--ranks 1' '--ranks x' '--bogus 3'; do
	# shellcheck disable=SC2086
	if scripts/compare-hang.sh $wrong "$cohort" >"$scratch/log" 2>&1; then
		fail "compare-hang.sh $wrong is not refused"
	fi
done
exit $failed
