#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the gpu platform of this machine with the installed libraries: the api and sim suites,
# the programs of tests/gpu, the cost of a call in comparison with bare calls (bench/walk),
# which calls CUDA blocks during a call that waits for the device (tests/gpu/beside), and, if
# python3 has a PyTorch for GPUs, the Python package, calls of torch.distributed, and cohort watch
# on a hang of PyTorch's NCCL backend.
#
#	scripts/test-gpu.sh COHORT SUITES PROGRAMS WALK TESTS
#
# SUITES and PROGRAMS are lists, one argument each.  WALK is a command, whose table is shown.
# COHORT_GPU_LIBRARIES is the folder of the libraries.  Tests that need more devices than the
# machine has, or that are about the host platform, are skipped and named.  The last line and
# the exit status are those of run-tests.sh.  Without a usable GPU the script prints one line
# and exits with 1.
#
# With TEST_RANKS_PER_GPU=N, N ranks share each GPU, which NCCL allows as an experiment since
# 2.30.3.  Then only the drill, the demo, programs of tests/system/stress and parts of the api
# suite run, and load the libraries of TESTS/gpu/shared before the machine's.
#
# With TEST_GPUS, only tests that need two or more GPUs run: each pair of devices, the operations
# that one GPU's work delays on another, the api suite, the demo, the drill and bandwidths with
# each of NCCL's algorithms, lists whose trees connect late in 50 processes, respawns, two groups
# on the same devices, and finally a lost device.

set -u

cohort=$1
read -ra suites <<<"$2"
read -ra programs <<<"$3"
walk=$4
tests=$5
ranks=${TEST_RANKS_PER_GPU:-}

export COHORT_PLATFORM=gpu TEST_DEVICES=real TEST_SHOW='bench/walk bench/gpu_call gpu/beside gpu/streams gpu/lost'
export TEST_TIMEOUT=${TEST_TIMEOUT:-1800}
several=${TEST_GPUS:-}
unset COHORT_FAULTS TEST_RANKS_PER_GPU TEST_GPUS
# Keep the stacks of exited threads mapped, because CUDA still refers to memory on them.
export GLIBC_TUNABLES=glibc.pthread.stack_cache_size=1073741824${GLIBC_TUNABLES:+:$GLIBC_TUNABLES}

found=$("$cohort" info | sed -n '/^gpu/,/^host/p' | sed '$d')
case $found in
"")
	echo "test-gpu: $cohort info does not mention a gpu platform"
	exit 1
	;;
*"not usable"*)
	echo "test-gpu: no GPU to test on: ${found#*not usable: }" | head -n 1
	exit 1
	;;
esac
echo "$found"

filters=('*/*')
case $found in
*"Cohort's own drop-in libraries"*) ;;
*)
	export TEST_NCCL=nvidia
	mapfile -t filters < <(scripts/matrix.sh @not_ours)
	;;
esac

commands=()

# suite NAME FILTER... - add a suite, as one program for each filter of its tests
suite() {
	local path filter

	for path in "${suites[@]}"; do
		[[ $path == */$1 ]] || continue
		for filter in "${@:2}"; do
			commands+=("$path --jobs=1 --verbose --filter $filter")
		done
	done
}

# with_pytorch RANKS SETTINGS... - add the Python programs
with_pytorch() {
	local ranks=$1 path

	[[ $found != *"drop-in libraries"* ]] || return 0
	if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' \
		2>/dev/null; then
		echo "left out: tests/gpu/pytorch.py, which needs a PyTorch for GPUs"
		return
	fi
	path=$(dirname "$cohort")/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	set -- env PYTHONPATH=bindings/python "LD_LIBRARY_PATH=$path" "${@:2}" python3
	commands+=("$* tests/gpu/pytorch.py"
		"$* examples/train.py --cuda --epochs 3 --ranks $ranks"
		"$* bench/gpu_call.py ${walk%% *}")
	[ -n "${TEST_RANKS_PER_GPU-}" ] || commands+=("$* tests/gpu/watched.py $cohort")
}

# folder NAME - print the directory of the library that Cohort has found
folder() {
	dirname "$(sed -n "s|^ *\(/.*/$1\.so[^,]*\).*|\1|p" <<<"$found" | head -n 1)"
}

if [ -n "$ranks" ]; then
	# Only NVIDIA's libraries need this; the drop-in libraries are found without it.
	if [[ $found != *"drop-in libraries"* ]]; then
		LD_LIBRARY_PATH=$(folder libnccl):$(folder libcudart)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
		export LD_LIBRARY_PATH
	fi
	export COHORT_GPU_LIBRARIES=$PWD/$tests/gpu/shared TEST_RANKS_PER_GPU=$ranks
	export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=${NCCL_MAX_CTAS:-4} NCCL_NVLS_ENABLE=0
	export CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32
	commands=("$cohort demo --ranks $ranks"
		"$cohort drill --platform gpu --ranks $ranks --deadline 1000 --slack 500")
	for program in abort generations respawn; do
		commands+=("$tests/system/stress/$program 3")
	done
	commands+=("env TEST_PAIR=1 $tests/gpu/processes")
	# Other tests use their devices' legacy default streams; on a shared GPU these are one stream.
	suite api '@(abort|capture|host_memory|mismatch|register|respawn|split)/*'
	with_pytorch "$ranks" "LD_PRELOAD=$COHORT_GPU_LIBRARIES/libcudart.so.13:$(folder libnccl)/libnccl.so.2"
	TEST_SHOW='drill gpu_call' TEST_JOBS=1 exec scripts/run-tests.sh "${commands[@]}"
fi
if [ -n "$several" ]; then
	count=$(sed -n 's/^gpu  *\([0-9]*\) device.*/\1/p' <<<"$found")
	[ "$count" -ge 2 ] || { echo "make test-gpu GPUS=all: there is one GPU"; exit 1; }
	commands=("$cohort check" "$tests/gpu/beside")
	suite api '*/*'
	for settings in NCCL_NVLS_ENABLE=2 NCCL_ALGO=Ring NCCL_ALGO=Tree; do
		commands+=("env $settings $cohort demo --ranks $count"
			"env $settings $cohort drill --platform gpu --ranks $count --deadline 1000 --slack 500")
		for operation in sum avg; do
			commands+=("env $settings $cohort bench all_reduce -b 1M -e 1G -f 32 -o $operation")
		done
	done
	for ((i = 0; i < 50; i++)); do
		commands+=("env NCCL_ALGO=Tree $cohort bench average --shapes bench/shapes/resnet50.tsv --ranks $count --rounds 1")
	done
	commands+=("$tests/system/stress/respawn 60" "$tests/system/stress/siblings 10" "$walk"
		"$tests/gpu/lost")
	TEST_SHOW='all_reduce drill gpu/ walk' TEST_JOBS=1 exec scripts/run-tests.sh "${commands[@]}"
fi
suite api '*/*'
suite sim "${filters[@]}"
with_pytorch "$(sed -n 's/^gpu  *\([0-9]*\) device.*/\1/p' <<<"$found")"
# Run one program at a time, because a GPU is lost only for the process that lost it.
TEST_JOBS=1 exec scripts/run-tests.sh "${programs[@]}" "${commands[@]}" "$walk"
