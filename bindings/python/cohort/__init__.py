# SPDX-License-Identifier: Apache-2.0
"""Drive all GPUs of a machine from one process, with one thread per GPU.

A collective that cannot finish raises an exception that names the rank, the call and the
reason, and the process continues::

    import cohort, numpy

    def worker(comm):
        x = numpy.full(1000, comm.rank, numpy.float32)
        comm.all_reduce(x, op="avg").wait()
        return float(x[0])

    with cohort.Group(4) as group:
        print(group.run(worker))         # [1.5, 1.5, 1.5, 1.5]

The names are those of the C API.  Its headers (include/cohort) are the full contract.
"""

from ._abi import (MAX_RANKS, BootstrapKind, Connect, Launch, Many, Op, Platform, Policy,
                   Stack, Stage, Status, Type, VerdictKind)
from ._arrays import Memory
from ._comm import Batch, Comm, Prepared, PreparedHost, PremulSum
from ._errors import (Aborted, Busy, Cause, CohortError, CudaError, Forked, InitTimeout,
                      Invalid, Mismatch, NcclError, NoDevice, NoLibrary, NoMemory, NoSymbol,
                      Owner, ProcessExited, RankReport, Stale, Stalled, StateError,
                      SystemFailure, ThreadExited, TimedOut, Unsupported, Verdict, Wedged,
                      WorkerError)
from ._group import Group, PlatformInfo, Process, join, probe, quiet, unique_id
from ._library import lib as _lib
from ._options import Options, Table
from ._rank import AbortHandle, Deadlines, Ticket
from ._reducer import Parameter, Reducer, ReducerOptions, Step, View

#: Version of the loaded library, for example "0.2.0".
__version__: str = _lib.cohort_version().decode()

__all__ = [
    "MAX_RANKS", "BootstrapKind", "Connect", "Launch", "Many", "Op", "Platform", "Policy",
    "Stack", "Stage", "Status", "Type", "VerdictKind", "Memory", "Batch", "Comm", "Prepared",
    "PreparedHost", "PremulSum", "Aborted", "Busy", "Cause", "CohortError", "CudaError", "Forked",
    "InitTimeout", "Invalid", "Mismatch", "NcclError", "NoDevice", "NoLibrary", "NoMemory",
    "NoSymbol", "Owner", "ProcessExited", "RankReport", "Stale", "Stalled", "StateError",
    "SystemFailure", "ThreadExited", "TimedOut", "Unsupported", "Verdict", "Wedged",
    "WorkerError", "Group", "PlatformInfo", "Process", "join", "probe",
    "quiet", "unique_id", "Options", "Table", "AbortHandle", "Deadlines", "Ticket", "Parameter",
    "Reducer", "ReducerOptions", "Step", "View",
]
