#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reducer from Python, by ctypes alone.

usage: average.py [LIBCOHORT.SO]

Two ranks on the host platform, each with a thread; gradients are ctypes arrays.
"""

import ctypes
import os
import sys
import threading

RANKS, COUNT = 2, 1000
F32 = 7
FOREVER = 2**64 - 1

os.environ["COHORT_PLATFORM"] = "host"
lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libcohort.so")
lib.cohort_last_error.restype = ctypes.c_char_p
lib.cohort_comm_stream.restype = ctypes.c_void_p


class Parameter(ctypes.Structure):
    """struct cohort_parameter"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("gradient", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("type", ctypes.c_int),
    ]


def check(rc):
    """Errors are negative; each thread has its own error text."""
    if rc < 0:
        raise RuntimeError(lib.cohort_last_error().decode())
    return rc


def average(comm, rank, results):
    """One step of a rank."""
    gradient = (ctypes.c_float * COUNT)(*[float(rank)] * COUNT)
    parameter = Parameter(b"weight", ctypes.addressof(gradient), COUNT, F32)
    reducer = ctypes.c_void_p()
    check(lib.cohort_reducer_create(comm, ctypes.byref(parameter),
                                    ctypes.c_size_t(1), None,
                                    ctypes.byref(reducer)))
    try:
        stream = ctypes.c_void_p(lib.cohort_comm_stream(comm))
        check(lib.cohort_reducer_begin(reducer, stream))
        check(lib.cohort_reducer_ready(reducer, ctypes.c_size_t(0)))
        check(lib.cohort_reducer_finish(reducer, ctypes.c_uint64(FOREVER)))
        results[rank] = gradient[COUNT - 1]
    finally:
        lib.cohort_reducer_free(reducer)


def main():
    """Open, split, a thread for each rank, close."""
    group = ctypes.c_void_p()
    comms = (ctypes.c_void_p * RANKS)()
    results = [None] * RANKS
    check(lib.cohort_group_open(None, RANKS, None, ctypes.byref(group)))
    check(lib.cohort_group_split(group, comms))
    threads = [
        threading.Thread(target=average,
                         args=(ctypes.c_void_p(comms[r]), r, results))
        for r in range(RANKS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(lib.cohort_group_close(group))
    for rank, result in enumerate(results):
        print(f"rank {rank}: {result}")
    return 0 if None not in results else 1


sys.exit(main())
