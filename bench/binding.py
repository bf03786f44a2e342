#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how much longer an all-reduce takes from Python than from C.

usage: binding.py [--calls N] [--rounds N] [--ranks N,N,...] [--counts N,N,...]

In one process, on the threads and arrays of one group, a loop in C (which the script compiles
with CC) and an equal loop in Python take turns in each round.  The loops make a call and wait
for it.  Prints medians over the rounds, in microseconds per call: the time in C, and how much
longer each way of calling from Python takes.

Needs bindings/python in PYTHONPATH, and libcohort.so in LD_LIBRARY_PATH.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array

import cohort

SOURCE = """
#include <cohort/cohort.h>
int loop(struct cohort_comm *comm, void *data, size_t count, int calls)
{
	void *stream = cohort_comm_stream(comm);
	uint64_t ticket;
	int rc = 0;

	while (rc == 0 && calls--) {
		rc = cohort_all_reduce(comm, data, data, count, COHORT_F32, COHORT_MAX,
		                       stream, &ticket);
		if (rc == 0)
			rc = cohort_wait(comm, ticket, COHORT_FOREVER);
	}
	return rc;
}
"""


def compiled(folder):
    """Compile the C loop, and return its function."""
    source, binary = os.path.join(folder, "loop.c"), os.path.join(folder, "loop.so")
    with open(source, "w", encoding="ascii") as file:
        file.write(SOURCE)
    include = os.path.join(os.path.dirname(__file__), "..", "include")
    subprocess.run([*(os.environ.get("CC") or "cc").split(), "-O2", "-shared", "-fPIC",
                    f"-I{include}", "-o", binary, source], check=True)
    # Make the C loop use the library that the package has loaded.
    ctypes.CDLL(cohort._lib._name, mode=ctypes.RTLD_GLOBAL)
    loop = ctypes.CDLL(binary).loop
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return loop


def by_c(loop):
    """Return a function that runs the C loop."""
    def way(comm, data, calls):
        if loop(comm._handle, data.buffer_info()[0], len(data), calls):
            raise RuntimeError("the loop has failed")
    return way


def by_method(comm, data, calls):
    """Call Comm.all_reduce(), and wait for its ticket."""
    for _ in range(calls):
        comm.all_reduce(data, op="max").wait()


def by_prepared(comm, data, calls):
    """Call a prepared all-reduce, and wait for its ticket."""
    call = comm.prepare_all_reduce(data, op="max")
    for _ in range(calls):
        call().wait()


def by_run(comm, data, calls):
    """Run a prepared all-reduce, which also waits."""
    run = comm.prepare_all_reduce(data, op="max").run
    for _ in range(calls):
        run()


def by_host(comm, data, calls):
    """Run a prepared all-reduce on host memory, which makes one C call."""
    run = comm.prepare_all_reduce_host(data, op="max").run
    for _ in range(calls):
        run()


def main():
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--counts", default="1,256,16384")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = {"C": by_c(compiled(folder)), "prepared, run()": by_run,
                "prepared": by_prepared, "method": by_method, "host, run()": by_host}

    def worker(comm, count):
        data, times = array("f", [1.0]) * count, {name: [] for name in ways}
        for _ in range(arguments.rounds + 1):
            for name, way in ways.items():
                comm.barrier().wait()
                began = time.perf_counter()
                way(comm, data, arguments.calls)
                times[name].append((time.perf_counter() - began) / arguments.calls * 1e6)
        return {name: took[1:] for name, took in times.items()}

    print("ranks  elements     C us" + "".join(f"{'+ ' + name:>18}" for name in list(ways)[1:]))
    for ranks in map(int, arguments.ranks.split(",")):
        for count in map(int, arguments.counts.split(",")):
            with cohort.Group.open(ranks, platform="host") as group:
                times = group.run(worker, count)[0]
            more = [statistics.median(a - b for a, b in zip(times[name], times["C"]))
                    for name in list(ways)[1:]]
            print(f"{ranks:5}  {count:8}  {statistics.median(times['C']):7.2f}"
                  + "".join(f"{one:18.2f}" for one in more))
    return 0


if __name__ == "__main__":
    sys.exit(main())
