#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Remove NCCL's shared memory of processes that have exited.  NCCL leaks 34 MB for each rank that
# is killed, or whose process exits before its communicator is destroyed.
#
#	scripts/sweep-nccl.sh BEGIN
#
# Keeps shared memory that is older than the file BEGIN.

set -u

find /dev/shm -maxdepth 1 -name 'nccl-*' -user "$(id -u)" -newer "$1" |
	while read -r file; do
		grep -qsF "$file" /proc/[0-9]*/maps || rm -f "$file"
	done
