#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Compare what several systems report if one rank does not call, after how long, and whether the
# process survives.
#
#	scripts/compare-hang.sh [--timeout SECONDS] [--ranks N] COHORT
#
# Runs one program (bench/hang) on cohort, with the library beside the command COHORT and a
# deadline of a second; on NVIDIA's NCCL and simulated devices, if "cohort run --nccl auto" finds
# it; on Open MPI and MPICH, if their compilers are installed; and on PyTorch with Gloo, if
# python3 has it, also with a deadline of a second.  A program that does not end within SECONDS
# (default 30) is killed.  Prints a table in Markdown.

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
# mpirun refuses to run as root in a container without these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# compile COMPILER ARGUMENT... - compile $scratch/program
compile() {
	"$@" -O2 -o "$scratch/program" 2>"$scratch/err" && return
	echo "$1 failed:" >&2
	cat "$scratch/err" >&2
	return 1
}

# row NAME COMMAND... - run a command, and print its row
row() {
	local name=$1 rc=0 after=never what=nothing lives

	shift
	timeout -k 5 "$limit" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null ||
		rc=$?
	if ! grep -q '^waits' "$scratch/out"; then
		echo "| $name | - | failed before the hang: exit status $rc | - |"
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
	echo "| $1 | - | not tried: $2 is not installed (Debian: $3) | - |"
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
		echo "| $name | - | not tried: $compiler failed | - |"
	fi
}

echo "| system | says after | what | the process lives |"
echo "|---|---|---|---|"
# Clear faults in the environment, which would distort the comparison.
unset COHORT_FAULTS
compile "${CC:-cc}" -std=gnu11 -I"$here/../../include" "$here/cohort.c" \
	-L"$lib" -lcohort -pthread || exit 1
row cohort env LD_LIBRARY_PATH="$lib" "$scratch/program" "$ranks" "$deadline"
if ! "$cohort" run --nccl auto -- true 2>/dev/null; then
	echo "| NCCL | - | not tried: cohort run --nccl auto finds no libnccl.so.2 | - |"
elif compile "${CC:-cc}" -std=gnu11 -I"$here/../../src" -I"$here/../../src/sim/include" \
	"$here/nccl.c" -L"$lib/drop-in" -lnccl -lcudart -pthread; then
	row NCCL "$cohort" run -n "$ranks" --nccl auto -- "$scratch/program" "$ranks"
fi
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
