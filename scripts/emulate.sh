#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run a command such that it can start programs for AArch64, which run in QEMU with the libraries
# in FOLDER (scripts/sysroot.sh).
#
#	scripts/emulate.sh FOLDER COMMAND...
#
# The kernel starts QEMU, in a namespace with its own list of binary formats (Linux 6.7), so the
# machine's settings do not change.  If that is impossible, prints the reason and exits with 77.

set -euo pipefail

give_up() {
	echo "$*"
	exit 77
}

QEMU_LD_PREFIX=$(realpath "${1:?usage: emulate.sh FOLDER COMMAND...}")
export QEMU_LD_PREFIX TEST_QEMU=1
shift

qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1) ||
	give_up "QEMU is not installed (Debian: qemu-user-static)"
own=(unshare --user --map-root-user --mount)
formats=/proc/sys/fs/binfmt_misc
mounted="mount -t binfmt_misc none $formats"
"${own[@]}" sh -c "$mounted" 2>/dev/null ||
	give_up "the kernel has no binary formats per namespace (Linux 6.7 has)"
# Match the header of a 64-bit little-endian ELF file, a program or a shared object, for machine 183
# (AArch64).  The flag P keeps the program's name, and the flag F opens QEMU now.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# Limit the address space, because QEMU before 8.0 uses 24 bytes for each page of it: 400 MB for the
# simulator's reservations.  With less address space, the simulator reserves less.
ulimit -v $((12 << 20))
# shellcheck disable=SC2016 # variables of the inner shell
exec "${own[@]}" sh -ec "$mounted"'
	printf "%s" "$1" >'$formats'/register
	shift
	exec "$@"' sh ":aarch64:M::$magic:$mask:$qemu:PF" "$@"
