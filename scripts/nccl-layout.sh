#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Print the layout of the structures of a version of NCCL, for a table in src/sim/nvidia/kernel.
#
#	nccl-layout.sh LIBRARY
#
# Uses gdb to read the debug information in NVIDIA's libraries, which takes half a minute.
# Also prints the sizes of the library's tables, which distinguish its builds.

set -euo pipefail

library=$1
types=(KernelComm DevChannel DevChannelPeer ConnInfo ConnFifo DevProfiler
	DevKernelArgs DevWorkBatch DevWorkP2p DevWorkColl DevWorkCollReg DevWorkBcast)

script=$(mktemp)
trap 'rm -f "$script"' EXIT
for type in "${types[@]}"; do
	echo "python"
	echo "try: gdb.execute('ptype /o struct nccl$type')"
	echo "except gdb.error as error: print(error)"
	echo "end"
done >"$script"
gdb -nx -batch -x "$script" "$library"
nm -S "$library" | grep -E ' ncclDev(FuncRowToId|KernelForFunc|KernelList)$' |
	while read -r _ bytes _ name; do
		echo "$name $((16#$bytes))"
	done
