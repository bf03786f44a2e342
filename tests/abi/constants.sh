#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Print a line for facts.c for each constant, and for each structure, union and enumeration,
# that the headers FILE... define.
#
#	constants.sh FILE...
#
# Left out are what is not CUDA's or NCCL's: what follows such a headline, the version of NCCL
# that a structure is of, and a name that we gave to what has none there.

set -eu

for file; do
	sed -nE '
		/^.* not CUDA/q
		/MAGIC|NCCL_CONFIG_VERSION|ncclConfig_t|CUstreamMemOpValueParams_st/d
		s/^\t(\w+) = .*/ABI_VALUE(\1),/p
		s/^#define (\w+) [(0-9].*/ABI_VALUE(\1),/p
		s/^((struct|enum) \w+) \{.*/ABI_SIZE(\1),/p
		s/^\} (\w+);/ABI_SIZE(\1),/p' "$file"
done
