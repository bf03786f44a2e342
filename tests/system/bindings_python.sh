#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python binding on the shared library in directory $1: its declarations are those of
# bindings/cohort_abi.json, its tests pass, its wheel works by itself, and its README's
# programs print what it says.  Arrays of NumPy and PyTorch are tested with the first
# Python that has them.
#
# With a library that GCC has compiled with AddressSanitizer, only the tests: what C does with
# memory of Python's is checked then.
#
# usage: bindings_python.sh LIB [asan]      exit status 0 passed, 1 failed, 77 skipped

set -eu

lib=$PWD/${1:?usage: bindings_python.sh LIB [asan]}
asan=
if [ "${2-}" = asan ]; then
	linked=$(ldd "$lib/libcohort.so")
	asan=$(awk '/libasan/ && $3 ~ /^\// { print $3 }' <<<"$linked")
	[ -n "$asan" ] || { echo "the library has no libasan.so, which is GCC's"; exit 77; }
fi
binding=$PWD/bindings/python
if ! command -v python3 >/dev/null; then
	echo "there is no python3"
	exit 77
fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
	echo "python3 is older than 3.9"
	exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export COHORT_PLATFORM=host PYTHONDONTWRITEBYTECODE=1
unset COHORT_HOST_DEVICES COHORT_FAULTS PYTHONPATH

python3 "$binding/generate.py" --check

# in_tree COMMAND... - with the package of this tree
in_tree() {
	PYTHONPATH=$binding LD_LIBRARY_PATH=$lib timeout 300 "$@"
}
if [ -n "$asan" ]; then
	# PyTorch loads the C++ library, and AddressSanitizer looks for it only at the start.
	export LD_PRELOAD="$asan libstdc++.so.6" PYTHONMALLOC=malloc
	export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
fi

# quietly COMMAND... - show what it prints if it fails
quietly() {
	"$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
}

# having MODULE - the first Python that has it
having() {
	local python

	for python in python3 /usr/bin/python3; do
		if "$python" -c "import sys, $1; sys.exit(sys.version_info < (3, 9))" \
			2>/dev/null; then
			echo "$python"
			return
		fi
	done
	return 1
}

for file in "$binding"/tests/test_*.py; do
	quietly in_tree python3 "$file"
done
if numpy=$(having numpy); then
	quietly in_tree "$numpy" "$binding/tests/test_arrays.py" NumPy
else
	echo "[SKIP] arrays of NumPy: it is not installed"
fi
if torch=$(having torch); then
	quietly in_tree "$torch" "$binding/tests/test_arrays.py" PyTorch
fi
[ -z "$asan" ] || exit 0
if [ -n "$torch" ]; then
	in_tree "$torch" examples/train.py --epochs 4 >"$scratch/out"
	grep -qx "those of one rank are equal to the bit" "$scratch/out"
	# The demo's accuracy after 30 epochs is 0.969.
	awk '/accuracy/ { exit !($NF >= 0.93) }' "$scratch/out"
	in_tree "$torch" examples/train.py --epochs 2 --hang 2@30 --join-deadline 0.5 \
		>"$scratch/out"
	grep -q "^rank 2: outside: rank 2 has not called all_reduce 33 of \"train\" " "$scratch/out"
	grep -q "^3 ranks, 46 steps" "$scratch/out"
	in_tree "$torch" examples/train.py --ranks 0 2>"$scratch/out" && exit 1
	grep -q "error: --ranks is 0, not 1 or more" "$scratch/out"
	in_tree "$torch" examples/train.py --hang 2 2>"$scratch/out" && exit 1
	grep -q "error: --hang is 2, not RANK@STEP" "$scratch/out"
else
	echo "[SKIP] examples/train.py: PyTorch is not installed"
fi

# The wheel: made twice, the same to the bit, and used without anything else.
mkdir "$scratch/wheel1" "$scratch/wheel2"
PYTHONPATH=$binding python3 - "$scratch/wheel1" "$lib" <<'END'
import sys
import cohort_wheel
cohort_wheel.build_wheel(sys.argv[1], {"library": sys.argv[2]})
END
if [ "$1" = build/lib ] && python3 -m pip --version >/dev/null 2>&1; then
	quietly python3 -m pip wheel --quiet --no-deps --no-index -w "$scratch/wheel2" \
		"$binding"
	cmp "$scratch"/wheel?/*.whl
	quietly python3 -m pip install --quiet --no-deps --no-index --no-compile \
		--target "$scratch/site" "$scratch"/wheel1/*.whl
else
	echo "[SKIP] pip wheel: there is no pip"
	python3 -m zipfile -e "$scratch"/wheel1/*.whl "$scratch/site"
fi

# Each program of the README, with the wheel; lines "# ..." at its end say what it prints.
python3 - "$binding/README.md" "$scratch" <<'END'
import re
import sys
with open(sys.argv[1], encoding="utf-8") as file:
    blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
for i, block in enumerate(blocks):
    kind = "fixture" if "pytest" in block else "program"
    with open(f"{sys.argv[2]}/{kind}{i}.py", "w", encoding="utf-8") as file:
        file.write(block)
END
programs=0
for program in "$scratch"/program*.py; do
	(cd "$scratch" && PYTHONPATH=$scratch/site timeout 100 python3 "$program") >"$scratch/out"
	sed -n 's/^ *# //p' "$program" | diff -u --label README.md --label printed - "$scratch/out"
	programs=$((programs + 1))
done
[ $programs -eq 2 ]
if pytest=$(having pytest); then
	(cd "$scratch" && PYTHONPATH=$scratch/site quietly timeout 100 "$pytest" -m pytest -q \
		-p no:cacheprovider fixture*.py)
else
	echo "[SKIP] the fixture for pytest: it is not installed"
fi
