#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Remove the shared memory of processes that are gone: NCCL leaves 34 MB behind for each rank
# that is killed, or that ends before its communicator does.
#
#	scripts/sweep-nccl.sh BEGIN
#
# BEGIN: a file; what is older than it stays.

set -u

find /dev/shm -maxdepth 1 -name 'nccl-*' -user "$(id -u)" -newer "$1" |
	while read -r file; do
		grep -qsF "$file" /proc/[0-9]*/maps || rm -f "$file"
	done
