#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test the Python binding with the shared library in directory $1: its declarations match
# bindings/cohort_abi.json, its tests pass, its wheel works alone, and its README's programs
# print what the README says.  NumPy and PyTorch arrays are tested with the first Python
# that has them.
#
# With asan, for a library that GCC compiled with AddressSanitizer, run only the tests; they
# check what C does with Python's memory.
#
# usage: bindings_python.sh LIB [asan]      exit status 0 passed, 1 failed, 77 skipped

set -eu

lib=$PWD/${1:?usage: bindings_python.sh LIB [asan]}
asan=
if [ "${2-}" = asan ]; then
	linked=$(ldd "$lib/libcohort.so")
	asan=$(awk '/libasan/ && $3 ~ /^\// { print $3 }' <<<"$linked")
	[ -n "$asan" ] || { echo "the library does not use GCC's libasan.so; build it with GCC"; exit 77; }
fi
binding=$PWD/bindings/python
if ! command -v python3 >/dev/null; then
	echo "python3 is not installed"
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

# in_tree COMMAND... - run a command with the package of this tree
in_tree() {
	PYTHONPATH=$binding LD_LIBRARY_PATH=$lib timeout 500 "$@"
}
if [ -n "$asan" ]; then
	# PyTorch loads the C++ library, which AddressSanitizer looks for only at startup.
	export LD_PRELOAD="$asan libstdc++.so.6" PYTHONMALLOC=malloc
	export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
fi

# quietly COMMAND... - run a command; show its output only if it fails
quietly() {
	"$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
}

# In QEMU only the first Python can load the library.
pythons=(python3)
[ -n "${TEST_QEMU-}" ] || pythons+=(/usr/bin/python3)

# having MODULE - print the first Python, 3.9 or newer, that has MODULE
having() {
	local python

	for python in "${pythons[@]}"; do
		if "$python" -c "import sys, $1; sys.exit(sys.version_info < (3, 9))" \
			2>/dev/null; then
			echo "$python"
			return
		fi
	done
	return 1
}

# Turn off the log lines about ended groups, so that a failure prints only the test's own output.
for file in "$binding"/tests/test_*.py; do
	COHORT_LOG=none quietly in_tree python3 "$file"
done
if numpy=$(having numpy); then
	COHORT_LOG=none quietly in_tree "$numpy" "$binding/tests/test_arrays.py" NumPy
else
	echo "[SKIP] NumPy arrays: NumPy is not installed"
fi
if torch=$(having torch); then
	COHORT_LOG=none quietly in_tree "$torch" "$binding/tests/test_arrays.py" PyTorch
	COHORT_LOG=none quietly in_tree "$torch" "$binding/tests/test_torch.py"
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

# Build the wheel twice, compare both bit for bit, and use it alone.
mkdir "$scratch/wheel1" "$scratch/wheel2"
PYTHONPATH=$binding python3 - "$scratch/wheel1" "${lib%/*}" <<'END'
import sys
import cohort_wheel
cohort_wheel.build_wheel(sys.argv[1], {"build": sys.argv[2]})
END
if python3 -m pip --version >/dev/null 2>&1; then
	quietly python3 -m pip wheel --quiet --no-deps --no-index -w "$scratch/wheel2" \
		"$binding"
	cmp "$scratch"/wheel?/*.whl
else
	echo "[SKIP] pip wheel: pip is not installed"
fi
# The source distribution has every file from which the wheel is built.
mkdir "$scratch/wheel3"
PYTHONPATH=$binding python3 - "$scratch" <<'END'
import sys
import cohort_wheel
cohort_wheel.build_sdist(sys.argv[1])
END
tar -xzf "$scratch"/cohort_comm-*.tar.gz -C "$scratch"
(
	cd "$scratch"/cohort_comm-*/
	make -s -n VARIANT=release build/lib/libcohort.so.0 build/portable/cohort \
		build/lib/drop-in/libcuda.so.1 \
		>"$scratch/log"
	# Call the build backend that pyproject.toml names, with this tree's binaries.
	python3 - "$scratch/wheel3" "${lib%/*}" <<-'END'
		import re
		import sys
		with open("pyproject.toml", encoding="utf-8") as file:
		    sys.path[:0] = re.findall(r'^backend-path = \["(.*)"\]', file.read(), re.M)
		import cohort_wheel
		cohort_wheel.build_wheel(sys.argv[1], {"build": sys.argv[2]})
	END
)
cmp "$scratch"/wheel1/*.whl "$scratch"/wheel3/*.whl

if python3 -m venv "$scratch/venv" >/dev/null 2>&1; then
	python=$scratch/venv/bin/python
	quietly "$python" -m pip install --quiet --no-deps --no-index --no-compile \
		"$scratch"/wheel1/*.whl
	site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	command=$scratch/venv/bin/cohort
else
	echo "[SKIP] pip install, C with the wheel, cohort run: python3 -m venv does not work"
	python=python3 site=$scratch/site
	python3 -m zipfile -e "$scratch"/wheel1/*.whl "$site"
	command=$(echo "$site"/cohort_comm-*.data/scripts/cohort)
	chmod +x "$command"
fi

# The wheel alone provides the command, and suffices to build a program in C.
[ "$("$command" --version)" = "$("${lib%/*}/cohort" --version)" ]
quietly "$command" demo --verify --epochs 3
if [ "$python" != python3 ]; then
	awk '$0 == "```c" { inside = 1; next } inside && /^```$/ { exit } inside' \
		README.md >"$scratch/program.c"
	read -ra flags < <("$python" -m cohort --cflags --libs)
	${CC:-cc} -o "$scratch/program" "$scratch/program.c" "${flags[@]}"
	"$scratch/program" | sort | diff - <(printf 'rank %d: 4.5\n' 0 1 2 3 4 5 6 7)
	others=$(ldd "$command" "$site"/cohort/*.so.* | grep '=>' |
		grep -vE '(linux-vdso|lib(c|m|dl|pthread))\.so\.') || true
	[ -z "$others" ] || { echo "the wheel needs more than glibc:$others"; exit 1; }
	${CC:-cc} -Isrc -Isrc/sim/include -o "$scratch/threads" tests/system/programs/threads.c \
		-L"$lib/drop-in" -lnccl -lcudart -pthread
	[ "$("$command" run -n 4 --strict -- "$scratch/threads")" = OK ]
	rc=0
	"$python" -m cohort >"$scratch/out" 2>&1 || rc=$?
	[ $rc -eq 2 ] && grep -q "nothing to print: use --cflags, --libs or both" "$scratch/out"
fi
rc=0
in_tree python3 -m cohort --cflags >"$scratch/out" 2>&1 || rc=$?
[ $rc -eq 1 ] && grep -q "/include: this package is not from a wheel; use pkg-config" "$scratch/out"

# Run each program of the README with the wheel; "# ..." lines at its end are its output.
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
	(cd "$scratch" && PYTHONPATH=$site timeout 100 "$python" "$program") >"$scratch/out"
	sed -n 's/^ *# //p' "$program" | diff -u --label README.md --label printed - "$scratch/out"
	programs=$((programs + 1))
done
[ $programs -eq 2 ]
if pytest=$(having pytest); then
	(cd "$scratch" && PYTHONPATH=$site quietly timeout 100 "$pytest" -m pytest -q \
		-p no:cacheprovider fixture*.py)
else
	echo "[SKIP] the pytest fixture: pytest is not installed"
fi
