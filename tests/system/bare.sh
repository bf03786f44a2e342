#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check that scripts/bare.sh fails on a machine where it cannot create its root, because
# there it proves nothing.

set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\necho there is no mirror\nexit 1\n' >"$folder/debootstrap"
chmod +x "$folder/debootstrap"

rc=0
PATH=$folder:$PATH scripts/bare.sh bookworm >"$folder/log" 2>&1 || rc=$?
last=$(tail -n 1 "$folder/log")
if [ "$rc" -ne 1 ] || [ "$last" != "0 passed, 1 failed, 0 skipped" ]; then
	cat "$folder/log"
	echo "scripts/bare.sh made no root, and ended with status $rc"
	exit 1
fi
