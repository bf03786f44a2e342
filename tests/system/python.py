#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test the shared library from another language, with only ctypes.

usage: python.py LIBCOHORT.SO

Two ranks on the host platform, each on a Python thread, make one all-reduce.  Errors must
arrive as codes and texts.  Exit status 0, or 1 with a message.
"""

import ctypes
import sys
import threading

OK, INVALID = 0, -1
HOST = 2
F32, SUM = 7, 0
FOREVER = 2**64 - 1
COUNT = 1001


class Options(ctypes.Structure):
    """The first fields of the options, and room for the others."""
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("platform", ctypes.c_int),
        ("others", ctypes.c_uint64 * 128),
    ]


class PlatformInfo(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("platform", ctypes.c_int),
        ("status", ctypes.c_int),
        ("reason", ctypes.c_char * 256),
        ("devices", ctypes.c_int),
        ("nccl_version", ctypes.c_int),
        ("runtime_version", ctypes.c_int),
        ("driver_version", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 8),
    ]


def load(path):
    lib = ctypes.CDLL(path)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    ticket = ctypes.POINTER(ctypes.c_uint64)
    for name in "cohort_version", "cohort_last_error", "cohort_status_text":
        getattr(lib, name).restype = ctypes.c_char_p
    lib.cohort_type_size.restype = size
    lib.cohort_comm_stream.restype = pointer
    lib.cohort_comm_stream.argtypes = [pointer]
    lib.cohort_comm_rank.argtypes = [pointer]
    lib.cohort_comm_size.argtypes = [pointer]
    lib.cohort_group_options_init.restype = None
    lib.cohort_group_close.argtypes = [pointer]
    lib.cohort_group_split.argtypes = [pointer, pointer]
    lib.cohort_alloc.argtypes = [pointer, size, ctypes.POINTER(pointer)]
    lib.cohort_free.argtypes = [pointer, pointer]
    lib.cohort_copy.argtypes = [pointer, pointer, pointer, size, pointer]
    lib.cohort_all_reduce.argtypes = [
        pointer, pointer, pointer, size, number, number, pointer, ticket]
    lib.cohort_wait.argtypes = [pointer, ctypes.c_uint64, ctypes.c_uint64]
    lib.cohort_synchronize.argtypes = [pointer, ctypes.c_uint64]
    return lib


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, expected {wanted!r}")


def check_facts(lib):
    version = lib.cohort_version().decode()
    expect("version parts", len(version.split(".")), 3)
    expect("status text", lib.cohort_status_text(OK), b"success")
    if not lib.cohort_status_text(12345):
        raise AssertionError("no text for an unknown status")
    expect("size of float32", lib.cohort_type_size(F32), 4)
    expect("size of no type", lib.cohort_type_size(99), 0)

    info = PlatformInfo(size=ctypes.sizeof(PlatformInfo))
    expect("probe", lib.cohort_platform_probe(HOST, ctypes.byref(info)), OK)
    expect("probed platform", info.platform, HOST)
    expect("probed status", info.status, OK)
    expect("probed reason", info.reason, b"")
    if info.devices < 2:
        raise AssertionError(f"{info.devices} devices")


def open_group(lib, ranks):
    options = Options()
    lib.cohort_group_options_init(ctypes.byref(options))
    expect("room for the options", options.size <= ctypes.sizeof(Options), True)
    options.platform = HOST
    options.name = b"python"
    group = ctypes.c_void_p()
    rc = lib.cohort_group_open(None, ranks, ctypes.byref(options),
                               ctypes.byref(group))
    expect(f"open ({lib.cohort_last_error().decode()})", rc, OK)
    expect("group size", lib.cohort_group_size(group), ranks)
    comms = (ctypes.c_void_p * ranks)()
    expect("split", lib.cohort_group_split(group, comms), OK)
    return group, [ctypes.c_void_p(comm) for comm in comms]


def be_a_rank(lib, comm, rank, problems):
    """Sum i * (rank + 1) over the ranks, in device memory."""
    try:
        floats = ctypes.c_float * COUNT
        mine = floats(*[i * (rank + 1) for i in range(COUNT)])
        memory, ticket = ctypes.c_void_p(), ctypes.c_uint64()
        stream = lib.cohort_comm_stream(comm)
        expect("rank", lib.cohort_comm_rank(comm), rank)
        expect("alloc", lib.cohort_alloc(comm, ctypes.sizeof(mine),
                                         ctypes.byref(memory)), OK)
        expect("copy in", lib.cohort_copy(comm, memory, mine,
                                          ctypes.sizeof(mine), stream), OK)
        expect("all_reduce", lib.cohort_all_reduce(
            comm, memory, memory, COUNT, F32, SUM, stream,
            ctypes.byref(ticket)), OK)
        expect("wait", lib.cohort_wait(comm, ticket, FOREVER), OK)
        expect("copy out", lib.cohort_copy(comm, mine, memory,
                                           ctypes.sizeof(mine), stream), OK)
        expect("synchronize", lib.cohort_synchronize(comm, FOREVER), OK)
        expect("sum", list(mine), [3.0 * i for i in range(COUNT)])
        expect("free", lib.cohort_free(comm, memory), OK)
    except AssertionError as problem:
        problems.append(f"rank {rank}: {problem}")


def check_all_reduce(lib, comms):
    problems = []
    threads = [
        threading.Thread(target=be_a_rank, args=(lib, comm, rank, problems))
        for rank, comm in enumerate(comms)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect("problems of the ranks", problems, [])


def check_error(lib, comm):
    """Check that an invalid type gives a code and a text that names it, and queues nothing."""
    x = ctypes.c_float(1)
    rc = lib.cohort_all_reduce(comm, ctypes.byref(x), ctypes.byref(x), 1, 77,
                               SUM, lib.cohort_comm_stream(comm), None)
    expect("all_reduce of type 77", rc, INVALID)
    text = lib.cohort_last_error().decode()
    if "type" not in text or "77" not in text:
        raise AssertionError(f"the text does not name the type: {text!r}")
    rc = lib.cohort_all_reduce(comm, ctypes.byref(x), ctypes.byref(x),
                               2**63, F32, SUM, lib.cohort_comm_stream(comm),
                               None)
    expect("all_reduce of 2**63 elements", rc, INVALID)
    text = lib.cohort_last_error().decode()
    if "count" not in text or str(2**63) not in text:
        raise AssertionError(f"the text does not name the count: {text!r}")
    expect("all_reduce on nothing", lib.cohort_all_reduce(
        None, None, None, 1, F32, SUM, None, None), INVALID)


def main(path):
    lib = load(path)
    check_facts(lib)
    group, comms = open_group(lib, 2)
    check_all_reduce(lib, comms)
    check_error(lib, comms[0])
    check_all_reduce(lib, comms)
    expect("close", lib.cohort_group_close(group), OK)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except (AssertionError, OSError) as error:
        print(f"python: {error}", file=sys.stderr)
        sys.exit(1)
    print("python: ok")
