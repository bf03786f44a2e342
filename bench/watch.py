#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what cohort watch adds to an all-reduce of two ranks.

usage: watch.py [--pairs N] COHORT

Two threads call

- an NCCL whose functions only return, so that the difference is the recorder's;
- the simulator's NCCL, for 4 B and 1 MiB, and wait for the stream after each call,

alone and under cohort watch in turn.  Prints the median time of a call alone, and the median of
the differences of the pairs, in nanoseconds.
"""

import argparse
import os
import statistics
import subprocess
import tempfile

NCCL = """
static int comms[2];
int ncclGetUniqueId(char *id) { return *id = 1, 0; }
int ncclGetVersion(int *version) { return *version = 22809, 0; }
int ncclCommInitRank(void **comm, int n, struct { char bytes[128]; } id, int rank)
{ *comm = &comms[rank]; return 0; }
int ncclCommUserRank(void *comm, int *rank) { return *rank = (int *)comm - comms, 0; }
int ncclCommCount(void *comm, int *count) { return *count = 2, 0; }
int ncclCommCuDevice(void *comm, int *device) { return *device = (int *)comm - comms, 0; }
int ncclAllReduce(const void *send, void *recv, unsigned long n, int type, int op, void *comm,
                  void *stream) { return 0; }
"""

PROGRAM = """
#include <nccl.h>
#ifdef DEVICES
#include <cuda_runtime.h>
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static size_t count;
static ncclUniqueId id;
static double best[2];
static void must(int error)
{
	if (error)
		exit(1);
}
static void *run(void *arg)
{
	const int rank = (int)(intptr_t)arg;
	struct timespec from, to;
	cudaStream_t stream = NULL;
	float *data = NULL;
	ncclComm_t comm;
	double ns;
#ifdef DEVICES
	must(cudaSetDevice(rank));
	must(cudaMalloc((void **)&data, count * sizeof(*data)));
	must(cudaStreamCreate(&stream));
#endif
	must(ncclCommInitRank(&comm, 2, id, rank));
	for (int i = 0; i < ROUNDS; i++) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		for (int k = 0; k < CALLS; k++) {
			must(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, stream));
#ifdef DEVICES
			must(cudaStreamSynchronize(stream));
#endif
		}
		clock_gettime(CLOCK_MONOTONIC, &to);
		ns = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
		if (!i || ns < best[rank])
			best[rank] = ns;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t threads[2];
	count = strtoul(argv[1], NULL, 10) / 4;
	must(ncclGetUniqueId(&id));
	for (intptr_t r = 0; r < 2; r++)
		pthread_create(&threads[r], NULL, run, (void *)r);
	for (int r = 0; r < 2; r++)
		pthread_join(threads[r], NULL);
	printf("%f\\n", (best[0] + best[1]) / 2 / CALLS);
}
"""


def compile_c(name, text, *flags):
    """Compile the C text to the file name."""
    with open(name + ".c", "w", encoding="utf-8") as out:
        out.write(text)
    subprocess.run([*os.environ.get("CC", "cc").split(), "-O2", name + ".c", *flags, "-o", name],
                   check=True)
    return name


def build(cohort, folder):
    """Return the commands to measure: name, how to run it, program and its arguments."""
    nccl = os.path.join(folder, "libnccl.so.2")
    compile_c(nccl, NCCL, "-w", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2")
    headers = ["-Isrc", "-Isrc/sim/include", "-pthread"]
    empty = compile_c(os.path.join(folder, "empty"), PROGRAM, *headers, "-DROUNDS=50",
                      "-DCALLS=20000", nccl, "-Wl,-rpath," + folder)
    libraries = os.path.join(os.path.dirname(cohort), "lib", "drop-in")
    simulated = compile_c(os.path.join(folder, "simulated"), PROGRAM, *headers, "-DDEVICES",
                          "-DROUNDS=20", "-DCALLS=50", "-L" + libraries, "-lnccl", "-lcudart")
    run = [cohort, "run", "-n", "2", "--", simulated]
    return [("returns", ["--marks", "off"], [empty, "4"]),
            ("simulated, 4 B", ["--marks", "off"], [*run, "4"]),
            ("simulated, 4 B", ["--marks", "on"], [*run, "4"]),
            ("simulated, 1 MiB", ["--marks", "off"], [*run, "1048576"]),
            ("simulated, 1 MiB", ["--marks", "on"], [*run, "1048576"])]


def measure(command):
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("cohort")
    options = parser.parse_args()
    print(f"{'NCCL':18} {'watch':12} {'alone':>10} {'watched':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, marks, program in build(options.cohort, folder):
            alone, more = [], []
            for _ in range(options.pairs):
                alone.append(measure(program))
                more.append(measure([options.cohort, "watch", *marks, "--", *program]) - alone[-1])
            print(f"{name:18} {' '.join(marks)[2:]:12} {statistics.median(alone):7.0f} ns "
                  f"{statistics.median(more):+7.0f} ns")


if __name__ == "__main__":
    main()
