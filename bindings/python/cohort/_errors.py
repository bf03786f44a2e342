# SPDX-License-Identifier: Apache-2.0
"""Exceptions, and what the library says of a failure: causes, verdicts, reports."""

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
    """The member of an enumeration, or the number itself of a newer library."""
    try:
        return kind(value)
    except ValueError:
        return cast(E, value)


def ranks_of(words: Sequence[int]) -> FrozenSet[int]:
    """A set of ranks: rank r is bit r % 64 of word r / 64."""
    return frozenset(64 * i + bit for i, word in enumerate(words) if word
                     for bit in range(64) if word >> bit & 1)


@dataclass(frozen=True)
class Cause:
    """Why a generation of a group has ended (struct cohort_cause).

    Written once: the first cause wins.  Times are nanoseconds, on CLOCK_MONOTONIC;
    numbers that say nothing are 0.
    """

    status: Status  #: what every call and ticket answers
    kind: VerdictKind
    rank: int  #: to blame, the first of several; -1: none
    nccl: int
    cuda: int
    worker: int  #: what the rank's worker returned, or gave to Comm.fail()
    ticket: int
    collective: int
    time_ns: int
    since_ns: int
    deadline_ns: int
    joined: FrozenSet[int]  #: ranks that had called
    missing: FrozenSet[int]  #: ranks that were waited for
    text: str  #: all of this in one line, for diagnostics
    world_rank: int  #: rank by its number in the group that was split; -1 if not known
    details: str  #: text with all that is known, in several lines


@dataclass(frozen=True)
class RankReport:
    """What a verdict, or a snapshot, says of one rank (struct cohort_rank_report)."""

    rank: int
    device: int
    joined: bool
    started: bool
    done: bool
    alive: Optional[bool]  #: None: not known
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
    text: str  #: what the rank is doing, for people
    #: the thread's Python functions now, the innermost first: "step (train.py:12) < main (...)"
    python: str = ""


@dataclass(frozen=True)
class Verdict:
    """What does not go on, or has ended, and why (struct cohort_verdict)."""

    kind: VerdictKind
    stage: Stage
    rank: int  #: to blame; -1: not known, or none is
    generation: int
    group: str
    collective: int
    time_ns: int
    since_ns: int
    deadline_ns: int
    joined: FrozenSet[int]
    missing: FrozenSet[int]
    ranks: Tuple[RankReport, ...]
    text: str  #: all of this in several lines, for diagnostics
    line: str  #: the same in one line of at most 200 bytes, for logs
    world_rank: int  #: rank by its number in the group that was split; -1 if not known


def text_of(raw: Optional[bytes]) -> str:
    """A text of the library's: UTF-8, but for names that the program gave."""
    return (raw or b"").decode("utf-8", "replace")


def cause_of(raw: _abi.cohort_cause) -> Optional[Cause]:
    """A cause as an object; None if there is none."""
    if raw.status == Status.OK:
        return None
    return Cause(known(Status, raw.status), known(VerdictKind, raw.kind), raw.rank,
                 raw.nccl, raw.cuda, raw.worker, raw.ticket, raw.collective,
                 raw.time_ns, raw.since_ns, raw.deadline_ns, ranks_of(raw.joined),
                 ranks_of(raw.missing), text_of(raw.text), raw.world_rank,
                 text_of(raw.details))


#: Python's identifiers of the threads that the library started, by their system thread ids.
thread_idents: Dict[int, int] = {}
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMES = 64


def _python_of(tid: int) -> str:
    """The Python functions that a thread is in, without those of this package."""
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
    """A report as an object."""
    return RankReport(raw.rank, raw.device, bool(raw.joined), bool(raw.started),
                      bool(raw.done), None if raw.alive < 0 else bool(raw.alive),
                      bool(raw.inside), raw.tid, text_of(raw.thread), raw.ticket,
                      raw.age_ns, text_of(raw.call), text_of(raw.tag),
                      text_of(raw.state), text_of(raw.stack), bool(raw.bound),
                      text_of(raw.label), text_of(raw.text),
                      _python_of(raw.tid) if raw.tid else "")


def verdict_of(raw: _abi.cohort_verdict) -> Verdict:
    """A verdict as an object.  Reports may be longer than those we know."""
    first = ctypes.cast(raw.ranks, ctypes.c_void_p).value or 0
    reports = tuple(report_of(_abi.cohort_rank_report.from_address(
        first + i * raw.rank_size)) for i in range(raw.size if first else 0))
    return Verdict(known(VerdictKind, raw.kind), known(Stage, raw.stage), raw.rank,
                   raw.generation, text_of(raw.group), raw.collective, raw.time_ns,
                   raw.since_ns, raw.deadline_ns, ranks_of(raw.joined),
                   ranks_of(raw.missing), reports, text_of(raw.text), text_of(raw.line),
                   raw.world_rank)


class Handle:
    """What stands for something of the library's: there is one, and it is given back once."""

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


class CohortError(Exception):
    """A call that failed; the base of all errors of the library.

    Python's own exceptions stand for what this package refuses itself: a TypeError for
    what is no array or has a type that no rank can reduce, a ValueError for a count, a
    BufferError for an array that is read-only, not contiguous, or elsewhere.

    Where Group.run() raises it, ``exceptions`` has the exceptions of the workers, except
    those by which the calls of other ranks reported the same cause.  ``__cause__`` is the
    exception of the rank to blame, or of the first rank that has one if that rank has none.
    """

    def __init__(self, status: int, text: str, cause: Optional[Cause] = None) -> None:
        super().__init__(text)
        self.status: Status = known(Status, status)
        self.text = text
        #: what has ended the group; None if this call alone failed
        self.cause = cause
        #: of Group.run(): the exception of each rank's worker that has one, by rank
        self.exceptions: Dict[int, BaseException] = {}

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (int(self.status), self.text, self.cause)

    @property
    def rank(self) -> int:
        """The rank to blame; -1: none."""
        return self.cause.rank if self.cause else -1

    @property
    def details(self) -> str:
        """The details of the cause, in several lines; the text if there is no cause."""
        return self.cause.details if self.cause else self.text

    @property
    def verdict(self) -> VerdictKind:
        """What the cause says of that rank; NONE without a cause."""
        return self.cause.kind if self.cause else VerdictKind.NONE


class TimedOut(CohortError, TimeoutError):
    """Not done when the caller's timeout passed; the operation goes on."""


class Invalid(CohortError, ValueError):
    """An invalid argument; the text names it and its value."""


class StateError(CohortError):
    """Not possible in the object's state."""


class NoMemory(CohortError, MemoryError):
    """Out of memory."""


class Busy(CohortError):
    """Another thread is inside this communicator."""


class Owner(CohortError):
    """The communicator, or the step, belongs to another thread."""


class Unsupported(CohortError):
    """Not supported here."""


class NoLibrary(CohortError):
    """NCCL, CUDA or PMIx is not installed."""


class NoSymbol(CohortError):
    """A function is missing in such a library."""


class NoDevice(CohortError):
    """No driver, or no devices."""


class CudaError(CohortError):
    """CUDA has failed; ``cause.cuda`` is its code."""


class NcclError(CohortError):
    """NCCL has failed; ``cause.nccl`` is its code."""


class SystemFailure(CohortError):
    """The operating system has refused something."""


class Aborted(CohortError):
    """The group was aborted."""


class WorkerError(CohortError):
    """A rank's worker has failed, or the rank gave up."""


class Wedged(CohortError):
    """An abort could not be completed: buffers may still be written to."""


class Mismatch(CohortError):
    """Ranks made different calls."""


class Forked(CohortError):
    """In the child of a fork nothing works."""


class ThreadExited(CohortError):
    """The thread of a bound rank has exited."""


class Stalled(CohortError):
    """A collective was not done in its time: ``rank`` is who did not come."""


class InitTimeout(CohortError):
    """Ranks did not connect in time."""


class Stale(CohortError):
    """The communicator is of a former generation."""


class ProcessExited(CohortError):
    """A process of the group has exited."""


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
    """The exception of a status, which is of its class."""
    return CLASSES.get(status, CohortError)(status, text, cause)
