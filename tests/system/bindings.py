#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test CUDA's own Python bindings, and NCCL by ctypes, on the drop-in libraries.

usage: bindings.py COHORT

The driver's functions come from the package cuda-bindings (cuda.bindings.driver), which
opens libcuda.so.1.  Exit status 0 passed, 1 failed with a message, 77 without the package.
"""

import ctypes
import os
import sys

try:
    from cuda.bindings import driver
except ImportError as problem:
    print(f"bindings: {problem}: skipped")
    sys.exit(77)

COUNT = 1000
BYTES = 4 * COUNT
RANKS = 2
FLOAT, SUM = 7, 0


def cu(answer):
    """Return the values of a driver call; exit on an error."""
    error, *values = answer
    if error != driver.CUresult.CUDA_SUCCESS:
        raise AssertionError(f"{error!r}")
    return values[0] if len(values) == 1 else values


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, expected {wanted!r}")


def floats(*values):
    return (ctypes.c_float * len(values))(*values)


def check_context(device):
    context = cu(driver.cuDevicePrimaryCtxRetain(device))
    cu(driver.cuCtxSetCurrent(context))
    expect("device", int(cu(driver.cuCtxGetDevice())), int(device))
    return context


def check_memory():
    """Check copies both ways, a fill, the attributes of an address, and an error."""
    there = floats(*range(COUNT))
    back = floats(*[0] * COUNT)
    memory = cu(driver.cuMemAlloc(BYTES))
    cu(driver.cuMemcpyHtoD(memory, ctypes.addressof(there), BYTES))
    cu(driver.cuMemcpyDtoH(ctypes.addressof(back), memory, BYTES))
    expect("copy", list(back), list(there))
    cu(driver.cuMemsetD32(memory, 0x40000000, COUNT))
    cu(driver.cuMemcpyDtoH(ctypes.addressof(back), memory, BYTES))
    expect("fill", set(back), {2.0})
    start, size = cu(driver.cuMemGetAddressRange(int(memory) + 8))
    expect("range", (int(start), size), (int(memory), BYTES))
    expect("copy behind the end",
           driver.cuMemcpyDtoH(ctypes.addressof(back), int(memory) + 4,
                               BYTES)[0],
           driver.CUresult.CUDA_ERROR_INVALID_VALUE)
    cu(driver.cuMemFree(memory))


def check_streams():
    """Check that work runs in stream order, and an event between two streams."""
    first = cu(driver.cuStreamCreate(
        driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    second = cu(driver.cuStreamCreate(
        driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    begin, end = (cu(driver.cuEventCreate(0)) for _ in range(2))
    memory = cu(driver.cuMemAllocAsync(BYTES, first))
    pinned = cu(driver.cuMemHostAlloc(BYTES, 0))
    cu(driver.cuEventRecord(begin, first))
    cu(driver.cuMemsetD32Async(memory, 0x3f800000, COUNT, first))
    cu(driver.cuEventRecord(end, first))
    cu(driver.cuStreamWaitEvent(second, end, 0))
    cu(driver.cuMemcpyDtoHAsync(pinned, memory, BYTES, second))
    cu(driver.cuStreamSynchronize(second))
    expect("order", set((ctypes.c_float * COUNT).from_address(int(pinned))),
           {1.0})
    cu(driver.cuEventSynchronize(end))
    if cu(driver.cuEventElapsedTime(begin, end)) < 0:
        raise AssertionError("time goes back")
    cu(driver.cuMemFreeAsync(memory, first))
    cu(driver.cuStreamSynchronize(first))
    cu(driver.cuMemFreeHost(pinned))
    for event in begin, end:
        cu(driver.cuEventDestroy(event))
    for stream in first, second:
        cu(driver.cuStreamDestroy(stream))


def nccl_must(result):
    expect("NCCL", result, 0)


def check_nccl(contexts):
    """Check a sum over the ranks, from one thread, on memory of the bindings."""
    nccl = ctypes.CDLL("libnccl.so.2")
    comms = (ctypes.c_void_p * RANKS)()
    nccl_must(nccl.ncclCommInitAll(comms, RANKS, None))
    memory, streams = [], []
    for rank, context in enumerate(contexts):
        cu(driver.cuCtxSetCurrent(context))
        streams.append(cu(driver.cuStreamCreate(0)))
        memory.append(cu(driver.cuMemAlloc(BYTES)))
        mine = floats(*[i * (rank + 1) for i in range(COUNT)])
        cu(driver.cuMemcpyHtoD(memory[rank], ctypes.addressof(mine), BYTES))
    nccl_must(nccl.ncclGroupStart())
    for rank in range(RANKS):
        at = ctypes.c_void_p(int(memory[rank]))
        nccl_must(nccl.ncclAllReduce(
            at, at, ctypes.c_size_t(COUNT), FLOAT, SUM,
            ctypes.c_void_p(comms[rank]), ctypes.c_void_p(int(streams[rank]))))
    nccl_must(nccl.ncclGroupEnd())
    for rank, context in enumerate(contexts):
        cu(driver.cuCtxSetCurrent(context))
        cu(driver.cuStreamSynchronize(streams[rank]))
        back = floats(*[0] * COUNT)
        cu(driver.cuMemcpyDtoH(ctypes.addressof(back), memory[rank], BYTES))
        expect("sum", list(back), [3.0 * i for i in range(COUNT)])
    for rank in range(RANKS):
        nccl_must(nccl.ncclCommDestroy(ctypes.c_void_p(comms[rank])))


def run():
    cu(driver.cuInit(0))
    expect("devices", cu(driver.cuDeviceGetCount()), RANKS)
    contexts = [check_context(cu(driver.cuDeviceGet(i))) for i in range(RANKS)]
    check_memory()
    check_streams()
    check_nccl(contexts)


def main(arguments):
    if arguments == ["--run"]:
        run()
        print("bindings: ok")
    elif len(arguments) == 1:
        os.execv(arguments[0],
                 [arguments[0], "run", "-n", str(RANKS), "--", sys.executable,
                  __file__, "--run"])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (AssertionError, OSError) as error:
        print(f"bindings: {error}", file=sys.stderr)
        sys.exit(1)
