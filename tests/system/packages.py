#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test NVIDIA's and CuPy's Python packages on the drop-in libraries, if they are installed.

    packages.py COHORT

The parent runs itself under cohort run for each function below, in strict mode, and then under
cohort watch as well, which must change nothing.  A function skips its test by a
ModuleNotFoundError.  If py-spy is installed, cohort watch must also name the Python function in
which a rank of nccl4py hangs.  CuPy's arrays and cuda.bindings.runtime have a CUDA
runtime linked in, so they are refused, and stderr must name the file.
"""

import os
import shutil
import subprocess
import sys
import threading

RANKS = 2
COUNT = 1000
CAUSE = (" has a CUDA runtime linked in, which accepts only NVIDIA's driver; "
         "use a build with libcudart.so\n")


def checked(result):
    """Return what a function of cuda.bindings.driver returned, without its status."""
    status, *rest = result
    assert status == 0, status
    return rest[0] if rest else None


class Vector:
    """COUNT floats on the current device, with memory of the driver."""

    def __init__(self, value):
        import numpy
        from cuda.bindings import driver
        self.driver, self.host = driver, numpy.full(COUNT, value, numpy.float32)
        self.memory = checked(driver.cuMemAlloc(self.host.nbytes))
        checked(driver.cuMemcpyHtoD(self.memory, self.host.ctypes.data, self.host.nbytes))
        self.__cuda_array_interface__ = {"shape": (COUNT,), "typestr": "<f4", "version": 3,
                                         "data": (int(self.memory), False)}

    def has(self, value):
        checked(self.driver.cuMemcpyDtoH(self.host.ctypes.data, self.memory, self.host.nbytes))
        checked(self.driver.cuMemFree(self.memory))
        return (self.host == value).all()


def on_ranks(function):
    """Call function(rank) on a thread for each rank, with its device current."""
    from cuda.bindings import driver
    done = []

    def run(rank):
        checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(rank))))
        function(rank)
        done.append(rank)

    checked(driver.cuInit(0))
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == RANKS


def cuda_bindings():
    from cuda.bindings import driver, runtime

    def check(rank):
        stream = checked(driver.cuStreamCreate(0))
        event = checked(driver.cuEventCreate(0))
        vector, other = Vector(rank), Vector(-1)
        checked(driver.cuMemcpyDtoDAsync(other.memory, vector.memory, 4 * COUNT, stream))
        checked(driver.cuEventRecord(event, stream))
        checked(driver.cuEventSynchronize(event))
        assert vector.has(rank) and other.has(rank)

    on_ranks(check)
    assert checked(driver.cuDeviceGetCount()) == RANKS
    assert runtime.cudaGetDeviceCount()[0] == runtime.cudaError_t.cudaErrorStubLibrary
    return "cuda/bindings/"


def cupy():
    import cupy
    from cupy.cuda import nccl
    from cuda.bindings import driver
    name = nccl.get_unique_id()

    def check(rank):
        stream = checked(driver.cuStreamCreate(0))
        comm = nccl.NcclCommunicator(RANKS, name, rank)
        vector = Vector(rank + 1)
        comm.allReduce(int(vector.memory), int(vector.memory), COUNT, nccl.NCCL_FLOAT32,
                       nccl.NCCL_SUM, int(stream))
        checked(driver.cuStreamSynchronize(stream))
        assert vector.has(3)
        comm.destroy()

    on_ranks(check)
    try:
        cupy.zeros(3)
    except cupy.cuda.runtime.CUDARuntimeError as e:
        assert str(e) == "cudaErrorStubLibrary: CUDA driver is a stub library", e
    else:
        raise AssertionError("cupy made an array")
    return "cupy_backends/"


def join(rank, name):
    """Return a stream of the rank's device, and the rank's communicator."""
    import nccl.core as nccl
    from cuda.core import Device
    device = Device(rank)
    device.set_current()
    return device.create_stream(), nccl.Communicator.init(RANKS, rank, name)


def nccl4py():
    import nccl.core as nccl
    name = nccl.get_unique_id()

    def check(rank):
        stream, comm = join(rank, name)
        part = comm.split(0, rank)
        vector = Vector(rank + 1)
        part.allreduce(vector, vector, nccl.SUM, stream=stream)
        stream.sync()
        assert vector.has(3)
        part.destroy()
        comm.destroy()

    on_ranks(check)


def never_calls(event):
    event.wait()


def hang():
    import nccl.core as nccl
    name = nccl.get_unique_id()

    def check(rank):
        stream, comm = join(rank, name)
        vector = Vector(rank + 1)
        for call in range(2):
            if rank == 1 and call == 1:
                never_calls(threading.Event())
            comm.allreduce(vector, vector, nccl.SUM, stream=stream)
            stream.sync()

    on_ranks(check)


def test_hang(cohort):
    """Return whether cohort watch names the function that hangs, or None without py-spy."""
    path = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
    if not shutil.which("py-spy", path=path):
        print("hang: no py-spy")
        return None
    run = subprocess.run([cohort, "watch", "--deadline", "2s", "--on-stall", "kill", "--", cohort,
                          "run", "-n", str(RANKS), "--", sys.executable, __file__, "--inside",
                          "hang"], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "PATH": path})
    if run.returncode == 77:
        return None
    if (run.returncode == 3 and "rank 1 has not called all_reduce 2 " in run.stderr and
            "never_calls (packages.py:" in run.stderr and "check (packages.py:" in run.stderr):
        return True
    print(f"hang: exit status {run.returncode}\n{run.stdout}{run.stderr}")
    return False


def test(command, name):
    """Return whether a package works, or None if it is not installed."""
    run = subprocess.run(command + [sys.executable, __file__, "--inside", name],
                         capture_output=True, text=True, timeout=120)
    if run.returncode == 77:
        print(run.stdout, end="")
        return None
    refused = run.stdout.strip()
    expected = (run.stderr.startswith("cohort: ") and refused in run.stderr and
                run.stderr.endswith(CAUSE) and run.stderr.count("\n") == 1
                if refused else not run.stderr)
    if run.returncode == 0 and expected:
        return True
    print(f"{name}: exit status {run.returncode}\n{run.stdout}{run.stderr}")
    return False


def inside(name):
    try:
        print(globals()[name]() or "")
    except ModuleNotFoundError as e:
        print(f"{name}: {e}")
        sys.exit(77)


def main():
    if sys.argv[1] == "--inside":
        inside(sys.argv[2])
        return
    run = [sys.argv[1], "run", "-n", str(RANKS), "--strict", "--"]
    results = [test(command, name) for name in ("cuda_bindings", "cupy", "nccl4py")
               for command in (run, [sys.argv[1], "watch", "--", *run])]
    results.append(test_hang(sys.argv[1]))
    sys.exit(1 if False in results else 77 if not any(results) else 0)


if __name__ == "__main__":
    main()
