#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run the drill repeatedly while the machine is busy: there must be no wrong verdict, no false
# alarm and no leak.  The delay of verdicts is printed, but not checked.
#
#	scripts/drill-load.sh COHORT ROUNDS SECONDS
#
# Two background processes compute all the time.  A round runs the drill with 4 ranks in two
# processes, and with 2, 4 and 8 ranks in one process.  No drill starts after SECONDS.

set -u

cohort=$1
rounds=$2
seconds=$3
scratch=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT

for _ in 1 2; do
	(while :; do :; done) &
	busy+=($!)
done

cells=0
wrong=0
done=0
while [ "$done" -lt "$rounds" ] && [ "$SECONDS" -lt "$seconds" ]; do
	for ranks in '4 --processes 2' 2 4 8; do
		[ "$SECONDS" -lt "$seconds" ] || break 2
		# shellcheck disable=SC2086 # $ranks may contain an option
		timeout -k 5 300 "$cohort" drill --ranks $ranks --slack 100000 \
			>"$scratch/out" 2>&1
		rc=$?
		read -r n _ < <(grep ' cells, .* right, ' "$scratch/out"; echo 0)
		cells=$((cells + n))
		if [ "$rc" -ne 0 ] || [ "$n" -eq 0 ]; then
			echo "round $((done + 1)), $ranks: exit status $rc"
			grep -A 2 -e WRONG -e '^cohort drill' "$scratch/out"
			wrong=$((wrong + 1))
		fi
		sed -n "s/^noticed after the bound/--ranks $ranks: &/p" \
			"$scratch/out" >>"$scratch/late"
	done
	done=$((done + 1))
done

cat "$scratch/late"
echo "$done rounds, $cells cells, $wrong drills with a wrong one, $SECONDS s"
[ "$wrong" -eq 0 ] && [ "$cells" -gt 0 ]
