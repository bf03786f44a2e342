#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test groups that bootstrap through a launcher's PMIx server: the library's declarations
# of PMIx against pmix.h; Open MPI's mpirun on one machine, and on several hosts, which are
# namespaces of this machine; and a group on NVIDIA's NCCL between such hosts.
#
# usage: pmix.sh COHORT LIB WHOLE...   (WHOLE is an archive of the library's objects)
#                                      exit status 0 passed, 1 failed, 77 skipped

set -eu

usage='usage: pmix.sh COHORT LIB WHOLE'
cohort=${1:?$usage}
lib=${2:?$usage}
whole=${3:?$usage}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Hide a PMIx launcher that runs these tests.
unset PMIX_NAMESPACE PMIX_RANK
tried=0

compile() {
	${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Isrc "$@"
}

if pkg-config --exists pmix 2>/dev/null; then
	# shellcheck disable=SC2046 # split at spaces
	compile -c -o "$scratch/abi.o" $(pkg-config --cflags pmix) tests/system/pmix_abi.c
	tried=1
else
	echo "[SKIP] pmix.h: not installed (Debian: libpmix-dev)"
fi

compile -o "$scratch/pmix" tests/system/pmix.c "$whole" -pthread -ldl -lm
rc=0
"$scratch/pmix" refused || rc=$?
case $rc in
0) tried=1 ;;
77) echo "[SKIP] libpmix.so.2: not installed (Debian: libpmix2)" ;;
*) exit 1 ;;
esac

launch() {
	timeout -k 5 120 mpirun --oversubscribe "$@" </dev/null >"$scratch/log" 2>&1 || {
		echo "mpirun $*: exit status $?"
		cat "$scratch/log"
		exit 1
	}
}

# expect N TEXT - fail unless N lines of the log contain TEXT
expect() {
	[ "$(grep -cE -e "$2" "$scratch/log")" -eq "$1" ] || {
		echo "not $1 times '$2':"
		cat "$scratch/log"
		exit 1
	}
}

# leaves_out WHAT WHY - skip the rest
leaves_out() {
	echo "[SKIP] $1: $2"
	[ "$tried" -eq 1 ] || exit 77
	exit 0
}

mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
	leaves_out mpirun "mpirun is not Open MPI's (Debian: openmpi-bin)"
timeout 60 mpirun -n 1 true </dev/null >/dev/null 2>&1 ||
	leaves_out mpirun "it cannot start a process here"
launch -n 3 "$scratch/pmix" gather
expect 3 ' of 3: gather'
launch -n 1 "$scratch/pmix" gather
launch -n 3 "$scratch/pmix" absent
expect 3 ' of 3: absent'
launch -n 1 "$scratch/pmix" stopped

# A host is a UTS and a PID namespace: it has its own name, and does not see processes of
# other hosts.
cat >"$scratch/agent" <<'END'
#!/bin/sh
host=$1
shift
exec unshare --uts --pid --fork --kill-child --mount-proc \
	sh -c 'hostname "$1" && shift && exec sh -c "$*"' sh "$host" "$*"
END
chmod +x "$scratch/agent"
unshare --uts --pid --fork --mount-proc hostname a 2>/dev/null ||
	leaves_out "several hosts" "this user cannot create namespaces"
hosts=(--mca plm_rsh_agent "$scratch/agent" --host "east:2,west:2")
timeout 60 mpirun "${hosts[@]}" -n 4 true </dev/null >/dev/null 2>&1 ||
	leaves_out "several hosts" "mpirun cannot start a process there"
launch "${hosts[@]}" -n 4 "$scratch/pmix" gather
expect 4 ' of 4: gather'
launch "${hosts[@]}" -n 4 "$scratch/pmix" absent

"$cohort" run --nccl auto -- true >/dev/null 2>&1 ||
	leaves_out "a group between hosts" "NVIDIA's NCCL is not installed"
compile -o "$scratch/processes" examples/processes.c -L"$lib" -lcohort
export LD_LIBRARY_PATH=$lib
launch "${hosts[@]}" -n 4 "$cohort" run -n 8 --nccl auto -- "$scratch/processes" 2
expect 1 'generation 1: 8 ranks'
