#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Print a line for facts.c for each constant, each type with braces, and each member of a
# structure or union that the headers FILE... define.
#
#	declared.sh FILE...
#
# Leaves out what is not CUDA's or NCCL's: definitions after a headline that says so, the
# version of NCCL that a structure belongs to, a structure that has no name in their headers;
# and members of members.

set -eu

for file; do
	awk '
		/ not part of CUDA/ { exit }
		/MAGIC|NCCL_CONFIG_VERSION/ { next }
		/^#define [A-Za-z_0-9]+ [(0-9]/ { print "ABI_VALUE(" $2 ")," }
		/^\t[A-Za-z_0-9]+ = / { print "ABI_VALUE(" $1 ")," }
		/^(typedef|struct|enum) .*\{/ { type = $1 " " $2; members = 0 }
		/^\t[^\t].*;/ {
			gsub(/;.*|\[[^]]*\]|[*}]/, "")
			count = split($0, list, ",")
			for (i = 1; i <= count; i++)
				if ((words = split(list[i], word, " ")))
					member[++members] = word[words]
		}
		/^\}|\};$/ {
			if ($1 == "}")
				type = substr($2, 1, length($2) - 1)
			if (type ~ /ncclConfig_t|CUstreamMemOpValueParams_st/)
				next
			print "ABI_SIZE(" type "),"
			for (i = 1; i <= members; i++)
				print "ABI_OFFSET(" type ", " member[i] "),"
		}' "$file"
done
