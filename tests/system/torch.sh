#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The backend "cohort" of torch.distributed, from the wheel:
# the example, as processes and as threads, the program in docs/pytorch.md, and PyTorch's own
# tests.  $TORCH_PYTHON is a Python that has PyTorch 2.15 or newer and expecttest; without it,
# python3.
#
# usage: torch.sh           exit status 0 passed, 1 failed, 77 skipped

set -eu

python=${TORCH_PYTHON:-python3}
if ! "$python" -c 'from torch.distributed.distributed_c10d import C10DBackend' 2>/dev/null; then
	echo "$python has no PyTorch that takes backends in Python (2.15 or newer)"
	exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 COHORT_LOG=none
unset COHORT_HOST_DEVICES COHORT_FAULTS LD_LIBRARY_PATH
PYTHONPATH=bindings/python python3 - "$scratch" <<'END'
import sys
import cohort_wheel
cohort_wheel.build_wheel(sys.argv[1])
END
python3 -m zipfile -e "$scratch"/*.whl "$scratch/site"
export PYTHONPATH=$scratch/site

# torchrun ARGUMENT... - run the example with three processes, and print its output sorted
torchrun() {
	timeout 100 "$python" -m torch.distributed.run --nproc-per-node 3 examples/ddp.py \
		"$@" 2>&1 | sort
}

# expect PATTERN COUNT - fail unless COUNT lines of the output match
expect() {
	[ "$(grep -c -- "$1" "$scratch/out")" -eq "$2" ] || {
		echo "not $2 times '$1' in:"
		cat "$scratch/out"
		exit 1
	}
}

torchrun >"$scratch/out"
expect "^rank [012] of 3: loss " 3
sed -n 's/^rank .*: //p' "$scratch/out" >"$scratch/losses"
torchrun --hang 2@7 >"$scratch/out" || true
expect "^Got .*timeout of 2 s: .*rank 2 has not called all_reduce" 2
timeout 100 "$python" examples/ddp.py --threads 3 2>&1 | sort >"$scratch/out"
expect "^rank [012] of 3: loss " 3
timeout 100 "$python" examples/ddp.py --threads 3 --hang 2@7 >"$scratch/out" 2>&1 && exit 1
expect "^\[pg 0 rank [01]\] Stalled, timeout of 2 s: rank 2 has not called all_reduce" 1

# The program of the page; a comment at its end says what it prints.
# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^```python$/,/^```$/p' docs/pytorch.md | sed -n '/^import cohort.torch/,/^```$/p' |
	grep -v '^```' >"$scratch/page.py"
(cd "$scratch" && timeout 100 "$python" page.py) >"$scratch/out"
sed -n 's/^print.* # //p' "$scratch/page.py" | diff - "$scratch/out"

if "$python" -c 'import expecttest' 2>/dev/null; then
	timeout 1500 "$python" tests/system/c10d.py 2>"$scratch/log" ||
		{ tail -n 50 "$scratch/log"; exit 1; }
else
	echo "[SKIP] PyTorch's own tests: $python has no expecttest"
fi
