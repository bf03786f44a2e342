#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One rank does not call: what each system says, after how long, and whether the process
# survives.
#
#	scripts/compare-hang.sh [--timeout SECONDS] [--ranks N] COHORT
#
# Runs one program (bench/hang) on cohort, with the library beside the command COHORT and
# a deadline of a second; on Open MPI and MPICH, if their compilers are installed; and on
# PyTorch with Gloo, if python3 has it, with that deadline, too.  A program that does not
# end within SECONDS (30) is killed.  The table is in Markdown.

set -u

limit=30
ranks=4
deadline=1
usage() {
	echo "usage: compare-hang.sh [--timeout SECONDS] [--ranks N] COHORT" >&2
	exit 2
}
while [ $# -gt 1 ]; do
	case $1 in
	--timeout) limit=$2 ;;
	--ranks) ranks=$2 ;;
	*) usage ;;
	esac
	[[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage
	shift 2
done
if [ $# -ne 1 ] || [ "$ranks" -lt 2 ]; then
	usage
fi
cohort=$1
lib=$(dirname "$cohort")/lib
here=$(dirname "$0")/../bench/hang
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Without these, mpirun refuses to run in a container.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# compile COMPILER ARGUMENT... - into $scratch/program
compile() {
	"$@" -O2 -o "$scratch/program" 2>"$scratch/err" && return
	echo "$1 has failed:" >&2
	cat "$scratch/err" >&2
	return 1
}

# row NAME COMMAND... - run it, and print its row
row() {
	local name=$1 rc=0 after=never what=nothing lives

	shift
	timeout -k 5 "$limit" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null ||
		rc=$?
	if ! grep -q '^waits' "$scratch/out"; then
		echo "| $name | - | it has not come to that: exit status $rc | - |"
		return
	fi
	if grep -q '^said' "$scratch/out"; then
		read -r _ after what < <(grep '^said' "$scratch/out")
		after="$after s"
	fi
	if grep -q '^lives' "$scratch/out"; then
		lives=$(sed -n 's/^lives/yes,/p' "$scratch/out")
	elif [ "$rc" -ne 124 ] && [ "$rc" -ne 137 ]; then
		lives="no: exit status $rc"
		[ "$after" != never ] || what=$(head -n 1 "$scratch/err")
	else
		lives="no: it hangs, killed after $limit s"
	fi
	echo "| $name | $after | $what | $lives |"
}

# missing NAME WHAT PACKAGES - print the row of a system that is not installed
missing() {
	echo "| $1 | - | not tried: no $2 (of Debian: $3) | - |"
}

mpi() {
	local name=$1 compiler=$2 run=$3 packages=$4

	shift 4
	if ! command -v "$compiler" >/dev/null ||
		! command -v "$run" >/dev/null; then
		missing "$name" "$compiler" "$packages"
	elif compile "$compiler" "$here/mpi.c"; then
		row "$name" "$run" "$@" -n "$ranks" "$scratch/program"
	else
		echo "| $name | - | not tried: $compiler has failed | - |"
	fi
}

echo "| system | says after | what | the process lives |"
echo "|---|---|---|---|"
# Faults from the environment would spoil the comparison.
unset COHORT_FAULTS
compile "${CC:-cc}" -std=gnu11 -I"$here/../../include" "$here/cohort.c" \
	-L"$lib" -lcohort -pthread || exit 1
row cohort env LD_LIBRARY_PATH="$lib" "$scratch/program" "$ranks" "$deadline"
mpi 'Open MPI' mpicc.openmpi mpirun.openmpi 'openmpi-bin libopenmpi-dev' \
	--oversubscribe --bind-to none
mpi MPICH mpicc.mpich mpiexec.mpich 'mpich libmpich-dev'
torch=
for python in $(type -ap python3); do
	if "$python" -c 'import torch.distributed' 2>/dev/null; then
		torch=$python
		break
	fi
done
if [ "$torch" ]; then
	row 'PyTorch, Gloo' "$torch" "$here/gloo.py" "$ranks" "$deadline"
else
	missing 'PyTorch, Gloo' 'torch in python3' python3-torch
fi
