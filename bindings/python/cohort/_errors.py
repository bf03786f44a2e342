# SPDX-License-Identifier: Apache-2.0
"""Exceptions, and the causes, verdicts and reports that the library attaches to a failure."""

import ctypes
import enum
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple, Type, TypeVar, cast

from . import _abi
from ._abi import Stage, Status, VerdictKind

E = TypeVar("E", bound=enum.IntEnum)


def known(kind: Type[E], value: int) -> E:
    """Return the member of an enumeration, or the plain number if a newer library added it."""
    try:
        return kind(value)
    except ValueError:
        return cast(E, value)


def ranks_of(words: Sequence[int]) -> FrozenSet[int]:
    """Return the ranks in a bit set: rank r is bit r % 64 of word r / 64."""
    return frozenset(64 * i + bit for i, word in enumerate(words) if word
                     for bit in range(64) if word >> bit & 1)


@dataclass(frozen=True)
class Cause:
    """Why a generation of a group ended (struct cohort_cause).

    Only the first cause of a generation is kept.  Times are in nanoseconds on
    CLOCK_MONOTONIC.  A number that does not apply is 0.
    """

    status: Status  #: status that every call and ticket returns
    kind: VerdictKind
    rank: int  #: rank to blame (the first of several); -1 if none
    nccl: int
    cuda: int
    worker: int  #: code that the rank's worker returned, or passed to Comm.fail()
    ticket: int
    collective: int
    time_ns: int
    since_ns: int
    deadline_ns: int
    joined: FrozenSet[int]  #: ranks that had called
    missing: FrozenSet[int]  #: ranks that had not called
    text: str  #: one line of text, for diagnostics only
    world_rank: int  #: rank in the numbering of the group that was split; -1 if unknown
    details: str  #: several lines of text with all details


@dataclass(frozen=True)
class RankReport:
    """State of one rank in a verdict or a snapshot (struct cohort_rank_report)."""

    rank: int
    device: int
    joined: bool
    started: bool
    done: bool
    alive: Optional[bool]  #: None if unknown
    inside: bool
    tid: int
    thread: str
    ticket: int
    age_ns: int
    call: str
    tag: str
    state: str
    stack: str
    bound: bool
    label: str
    text: str  #: what the rank is doing, for diagnostics only
    #: the thread's Python functions, innermost first: "step (train.py:12) < main (...)"
    python: str = ""


@dataclass(frozen=True)
class Verdict:
    """The reason why a call is stuck or slow, or why a group has ended (struct
    cohort_verdict)."""

    kind: VerdictKind
    stage: Stage
    rank: int  #: rank to blame; -1 if unknown or none
    generation: int
    group: str
    collective: int
    time_ns: int
    since_ns: int
    deadline_ns: int
    joined: FrozenSet[int]
    missing: FrozenSet[int]
    ranks: Tuple[RankReport, ...]
    text: str  #: several lines of text, for diagnostics only
    line: str  #: one line of at most 200 bytes, for logs
    world_rank: int  #: rank in the numbering of the group that was split; -1 if unknown
    call: str  #: the operation that makes no progress: 'all_reduce 7 of "dp"'; or ""


def text_of(raw: Optional[bytes]) -> str:
    """Decode a text of the library.  Names in it that the program chose may not be UTF-8."""
    return (raw or b"").decode("utf-8", "replace")


def cause_of(raw: _abi.cohort_cause) -> Optional[Cause]:
    """Return a cause as an object, or None if there is none."""
    if raw.status == Status.OK:
        return None
    return Cause(known(Status, raw.status), known(VerdictKind, raw.kind), raw.rank,
                 raw.nccl, raw.cuda, raw.worker, raw.ticket, raw.collective,
                 raw.time_ns, raw.since_ns, raw.deadline_ns, ranks_of(raw.joined),
                 ranks_of(raw.missing), text_of(raw.text), raw.world_rank,
                 text_of(raw.details))


#: threading.get_ident() of each thread that the library started, by system thread id.
thread_idents: Dict[int, int] = {}
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMES = 64


def _python_of(tid: int) -> str:
    """Return the call stack of a thread, without the functions of this package."""
    ident = thread_idents.get(tid) or next(
        (thread.ident for thread in threading.enumerate() if thread.native_id == tid), None)
    frame = sys._current_frames().get(ident or 0)
    names: List[str] = []
    while frame is not None and len(names) < _FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            names.append(f"{code.co_name} ({os.path.basename(code.co_filename)}:"
                         f"{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(names)


def report_of(raw: _abi.cohort_rank_report) -> RankReport:
    """Return a report as an object."""
    return RankReport(raw.rank, raw.device, bool(raw.joined), bool(raw.started),
                      bool(raw.done), None if raw.alive < 0 else bool(raw.alive),
                      bool(raw.inside), raw.tid, text_of(raw.thread), raw.ticket,
                      raw.age_ns, text_of(raw.call), text_of(raw.tag),
                      text_of(raw.state), text_of(raw.stack), bool(raw.bound),
                      text_of(raw.label), text_of(raw.text),
                      _python_of(raw.tid) if raw.tid else "")


def verdict_of(raw: _abi.cohort_verdict) -> Verdict:
    """Return a verdict as an object.  A newer library may use longer report structures."""
    first = ctypes.cast(raw.ranks, ctypes.c_void_p).value or 0
    reports = tuple(report_of(_abi.cohort_rank_report.from_address(
        first + i * raw.rank_size)) for i in range(raw.size if first else 0))
    return Verdict(known(VerdictKind, raw.kind), known(Stage, raw.stage), raw.rank,
                   raw.generation, text_of(raw.group), raw.collective, raw.time_ns,
                   raw.since_ns, raw.deadline_ns, ranks_of(raw.joined),
                   ranks_of(raw.missing), reports, text_of(raw.text), text_of(raw.line),
                   raw.world_rank, text_of(raw.call))


class Handle:
    """Base class of objects that own a handle of the library and cannot be copied."""

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


class CohortError(RuntimeError):
    """Base class of all errors of the library.

    Arguments that this package itself rejects raise Python's own exceptions: TypeError for
    an object that is not an array or has an unsupported element type, ValueError for a
    wrong count, BufferError for an array that is read-only, not contiguous, or in the wrong
    memory.

    If Group.run() raises the error, ``exceptions`` has the exceptions of the workers, except
    those that only report the same cause.  ``__cause__`` is the exception of the rank to
    blame or, if that rank has none, of the first rank that has one.
    """

    def __init__(self, status: int, text: str, cause: Optional[Cause] = None) -> None:
        super().__init__(text)
        self.status: Status = known(Status, status)
        self.text = text
        #: cause that ended the group; None if only this call failed
        self.cause = cause
        #: exception of each rank's worker that raised one, by rank; only from Group.run()
        self.exceptions: Dict[int, BaseException] = {}

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (int(self.status), self.text, self.cause)

    @property
    def rank(self) -> int:
        """The rank to blame, or -1 if none."""
        return self.cause.rank if self.cause else -1

    @property
    def details(self) -> str:
        """The details of the cause, in several lines, or the text if there is no cause."""
        return self.cause.details if self.cause else self.text

    @property
    def verdict(self) -> VerdictKind:
        """The kind of failure that the cause blames on the rank; NONE without a cause."""
        return self.cause.kind if self.cause else VerdictKind.NONE


class TimedOut(CohortError, TimeoutError):
    """The caller's timeout expired; the operation continues."""


class Invalid(CohortError, ValueError):
    """An invalid argument; the text names it and its value."""


class StateError(CohortError):
    """The object's state does not allow this call."""


class NoMemory(CohortError, MemoryError):
    """Out of memory."""


class Busy(CohortError):
    """Another thread is inside this communicator."""


class Owner(CohortError):
    """The communicator, or the reducer's step, belongs to another thread."""


class Unsupported(CohortError):
    """Not supported by this platform, library version or configuration."""


class NoLibrary(CohortError):
    """NCCL, CUDA or PMIx is not installed."""


class NoSymbol(CohortError):
    """A function is missing in NCCL, CUDA or PMIx."""


class NoDevice(CohortError):
    """There is no GPU driver, or there are no devices."""


class CudaError(CohortError):
    """A CUDA call failed; ``cause.cuda`` is its code."""


class NcclError(CohortError):
    """An NCCL call failed; ``cause.nccl`` is its code."""


class SystemFailure(CohortError):
    """A system call failed."""


class Aborted(CohortError):
    """The group was aborted."""


class WorkerError(CohortError):
    """A rank's worker failed, or the rank gave up (Comm.fail())."""


class Wedged(CohortError):
    """An abort did not complete; buffers may still be written to."""


class Mismatch(CohortError):
    """Ranks made different calls, or calls with different arguments."""


class Forked(CohortError):
    """Cohort cannot be used in the child of a fork."""


class ThreadExited(CohortError):
    """The thread of a bound rank exited."""


class Stalled(CohortError):
    """A collective missed its deadline; ``rank`` is the rank to blame."""


class InitTimeout(CohortError):
    """Ranks did not connect before the init deadline."""


class Stale(CohortError):
    """The communicator belongs to an earlier generation."""


class ProcessExited(CohortError):
    """A process of the group exited."""


CLASSES: Dict[int, Type[CohortError]] = {
    Status.TIMED_OUT: TimedOut,
    Status.INVALID: Invalid,
    Status.STATE: StateError,
    Status.NO_MEMORY: NoMemory,
    Status.BUSY: Busy,
    Status.OWNER: Owner,
    Status.UNSUPPORTED: Unsupported,
    Status.NO_LIBRARY: NoLibrary,
    Status.NO_SYMBOL: NoSymbol,
    Status.NO_DEVICE: NoDevice,
    Status.CUDA: CudaError,
    Status.NCCL: NcclError,
    Status.SYSTEM: SystemFailure,
    Status.ABORTED: Aborted,
    Status.WORKER: WorkerError,
    Status.WEDGED: Wedged,
    Status.MISMATCH: Mismatch,
    Status.FORKED: Forked,
    Status.THREAD_EXITED: ThreadExited,
    Status.STALLED: Stalled,
    Status.INIT_TIMEOUT: InitTimeout,
    Status.STALE: Stale,
    Status.PROCESS_EXITED: ProcessExited,
}


def error_of(status: int, text: str, cause: Optional[Cause] = None) -> CohortError:
    """Return the exception of a status, in the class of that status."""
    return CLASSES.get(status, CohortError)(status, text, cause)
