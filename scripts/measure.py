#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the size of the tree, and the depth of a call's stack.

    make && make VARIANT=debug && scripts/measure.py

The frames of a call and the threads of a group are measured with the debug build.  Without
that build, gdb or a compiler they are omitted, and the table says so.
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIB = os.path.join(ROOT, "build/debug/lib")
DROP_IN = os.path.join(ROOT, "build/lib/drop-in")

PROGRAM = r"""
#include <stdio.h>
#include <string.h>

#include <cohort/cohort.h>

static void print_threads(const char *when)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "Threads:", 8) == 0)
			printf("%s %s", when, line + 9);
	if (f)
		fclose(f);
}

int main(void)
{
	struct cohort_group *group, *other;
	struct cohort_comm *comm;
	uint64_t ticket;
	void *memory;

	print_threads("before");
	if (cohort_group_open(NULL, 1, NULL, &group) ||
	    cohort_group_split(group, &comm) || cohort_alloc(comm, 4, &memory) ||
	    cohort_all_reduce(comm, memory, memory, 1, COHORT_F32, COHORT_SUM,
	                      NULL, &ticket) ||
	    cohort_wait(comm, ticket, COHORT_FOREVER) ||
	    cohort_group_open(NULL, 1, NULL, &other)) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	print_threads("after");
	return 0;
}
"""


def files(folder, ends=(".c", ".h")):
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    return [name for name in listed if name.endswith(ends)]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def kinds(text):
    """Return the numbers of lines of code, of comment lines, and of blank lines."""
    code = comment = blank = 0
    inside = False
    for line in text.split("\n")[:-1]:
        line = line.strip()
        begins = line.startswith("/*")
        if inside or begins:
            comment += 1
            inside = "*/" not in line
        elif line:
            code += 1
        else:
            blank += 1
    return code, comment, blank


def functions(text):
    """Return the number of lines in the body of each function."""
    return [body.count("\n") for body in
            re.findall(r"^[a-z][^;{}]*\)\n\{\n(.*?)^\}$", text, re.M | re.S)]


def members(text, struct):
    """Return the members of a struct in a header, without those of nested structs."""
    body = re.search(r"^struct %s \{\n(.*?)^\};" % struct, text, re.M | re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return re.findall(r"(\w+)(?:\[[^]]*\])?(?=[,;])|\(\*(\w+)\)\(", body)


def options():
    text = read("include/cohort/options.h")
    names = [a or b for a, b in members(text, "cohort_group_options")]
    deadlines = [a or b for a, b in
                 members(read("include/cohort/deadline.h"), "cohort_deadlines")]
    keep = {"size", "reserved", "deadlines"}
    return (len([n for n in names if n not in keep]),
            len([n for n in deadlines if n not in keep]))


def variables():
    listed = re.findall(r'^\t"(COHORT_\w+)",', read("src/base/environment.c"), re.M)
    assert listed
    simulator = [v for v in listed if v.startswith("COHORT_HOST_") or v == "COHORT_FAULTS"]
    return len(listed) - len(simulator), len(simulator)


def targets():
    return len(set(re.findall(r"^#   make ([a-z][a-z-]*)", read("Makefile"), re.M)))


def run_program():
    """Return the backtrace at ncclAllReduce(), as pairs of function and file, and the number of
    threads of the library with two groups."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "one.c"), os.path.join(folder, "one")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        subprocess.run([os.environ.get("CC", "cc"), "-g", "-I", os.path.join(ROOT, "include"),
                        source, "-o", program, "-L", LIB, "-lcohort"], check=True)
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIB, "COHORT_LOG": "none",
               "COHORT_PLATFORM": "gpu", "COHORT_GPU_LIBRARIES": DROP_IN}
        said = subprocess.run([program], env=env, capture_output=True, text=True, check=True)
        threads = dict(line.split() for line in said.stdout.splitlines())
        gdb = subprocess.run(
            ["gdb", "-batch", "-ex", "set breakpoint pending on",
             "-ex", "break ncclAllReduce", "-ex", "run", "-ex", "bt", program],
            env=env, capture_output=True, text=True, check=False)
    frames = re.findall(r"^#\d+ .*? in (\w+) \(.*? at (src/(?!sim)[\w/.]+):\d+", gdb.stdout,
                        re.M)
    return frames, int(threads["after"]) - int(threads["before"])


def rows():
    yield "part", "lines", "code", "comment", "blank", "files"
    floors = sorted({name.split("/")[1] for name in files("src") if name.count("/") > 1})
    for title, folder in [(f"src/{f}", f"src/{f}") for f in floors] + [
            ("src", "src"), ("include", "include"), ("tests", "tests"), ("bench", "bench")]:
        names = files(folder)
        code, comment, blank = map(sum, zip(*(kinds(read(n)) for n in names)))
        yield title, code + comment + blank, code, comment, blank, len(names)


def facts():
    bodies = [n for name in files("src", (".c",)) for n in functions(read(name))]
    exported = re.findall(r"^\tcohort_\w+;", read("src/cohort.map"), re.M)
    short = sum(1 for n in bodies if n <= 3)
    yield "functions in src", f"{len(bodies)}, mean {sum(bodies) / len(bodies):.1f} lines, " \
        f"{100 * short // len(bodies)} % of three or fewer"
    yield "members of struct cohort_comm", len(members(read("src/core/comm.h"), "cohort_comm"))
    yield "group options and deadlines", "%d + %d" % options()
    yield "variables, and those of the simulator", "%d + %d" % variables()
    yield "exported functions", len(exported)
    yield "make targets", targets()
    try:
        frames, threads = run_program()
    except (OSError, subprocess.CalledProcessError) as error:
        yield "frames, files and threads", f"not measured: {error}"
        return
    yield "frames from cohort_all_reduce() to ncclAllReduce()", len(frames)
    yield "files of these", len({file for _, file in frames})
    yield "the frames", ", ".join(function for function, _ in reversed(frames))
    yield "threads of the library with two groups", threads


def main():
    for row in rows():
        print("".join(f"{cell:>10}" if i else f"{cell:<16}" for i, cell in enumerate(row)))
    print()
    for name, value in facts():
        print(f"{name}: {value}")


if __name__ == "__main__":
    sys.exit(main())
