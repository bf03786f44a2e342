# SPDX-License-Identifier: Apache-2.0
"""Groups: all devices of a machine from one process, one thread per device."""

import contextlib
import ctypes
import itertools
import os
import threading
import time
import warnings
import weakref
from dataclasses import dataclass, fields
from functools import partial
from types import FrameType
from typing import (Any, Callable, ContextManager, Dict, Iterable, List, Optional, Sequence,
                    Tuple, Union)

from . import _abi, _library
from ._abi import MAX_RANKS, Op, Platform, Status
from ._arrays import CUDA, MANAGED, look
from ._comm import AnyOp, Comm, op_of, raw_id
from ._errors import (Cause, CohortError, Handle, RankReport, StateError, TimedOut, cause_of,
                      known, report_of, text_of, thread_idents)
from ._library import (Number, Scope, check, check_worker, count_inside, failure, inside,
                       integer, lib, nanoseconds, record)
from ._options import Options, raw_options
from ._rank import Array, as_bytes, as_path, describe, status_of

# Statuses after which a close has closed nothing.
_REFUSED = (Status.STATE, Status.INVALID)
_byref = ctypes.byref


@dataclass(frozen=True)
class Process:
    """A process of a group (struct cohort_process)."""

    first_rank: int
    ranks: int  #: number of ranks; 0 if the process has exited or left
    watched: bool
    pid: int
    host: str


@dataclass(frozen=True)
class PlatformInfo:
    """The result of probe() (struct cohort_platform_info)."""

    platform: Platform
    status: Status  #: OK if usable; otherwise the reason in short
    reason: str
    devices: int
    nccl_version: int
    runtime_version: int
    driver_version: int
    nccl_file: str
    runtime_file: str
    notes: str
    is_drop_in: int
    launch: int


def probe(platform: Platform = Platform.AUTO) -> PlatformInfo:
    """Check whether a platform can be used, and why not (cohort_platform_probe()).

    AUTO checks the platform that a new group would get.  If a library is not installed, the
    result says so, and no exception is raised.  Any thread; may block while the driver starts.
    """
    raw = _abi.cohort_platform_info(size=ctypes.sizeof(_abi.cohort_platform_info))
    check(lib.cohort_platform_probe(integer(platform, "platform"), _byref(raw)))
    said: Dict[str, Any] = {}
    for field in fields(PlatformInfo):
        value = getattr(raw, field.name)
        said[field.name] = text_of(value) if isinstance(value, (bytes, type(None))) else value
    said["platform"] = known(Platform, raw.platform)
    said["status"] = known(Status, raw.status)
    return PlatformInfo(**said)


# ---- runs -------------------------------------------------------------------------

class _Run:
    """State shared by the workers of a run; an abandoned worker keeps using it."""

    def __init__(self, group: "Group", worker: Callable[[Comm], Any]) -> None:
        self.group = group
        self.worker = worker
        self.comms = group._comms
        self.returned: List[int] = []  # handles of the workers that have returned
        self.over = False  # run() has returned
        self.results: List[Any] = [None] * len(self.comms)
        self.errors: Dict[int, BaseException] = {}

    def work(self, handle: int) -> int:
        """Run the worker of the rank with this handle, and record its result."""
        place = next(i for i, comm in enumerate(self.comms) if comm._made == handle)
        comm = self.comms[place]
        try:
            self.results[place] = self.worker(comm)
            return 0
        except BaseException as error:  # pylint: disable=broad-except # run() raises it
            self.errors[comm.rank] = error
            code = status_of(error)
            lib.cohort_comm_fail(handle, code, as_bytes(describe(error)))
            return code
        finally:
            if not self.group._raw:
                comm._gone()

    def exceptions(self, cause: Cause) -> Dict[int, BaseException]:
        """Return each rank's exception, except those that only report the group's end."""
        own = ((rank, own_of(error, cause, rank == cause.rank))
               for rank, error in sorted(self.errors.items()))
        return {rank: error for rank, error in own if error}


def reports(error: BaseException, cause: Cause, is_to_blame: bool) -> bool:
    """Return whether a rank's exception only reports the end of the group, or the end of a
    split communicator because of the same rank."""
    if not isinstance(error, CohortError):
        return False
    found = getattr(error, "cause", None)
    return isinstance(found, Cause) and (
        found == cause or not is_to_blame
        and (found.status, found.world_rank) == (cause.status, cause.world_rank))


def own_of(error: Optional[BaseException], cause: Cause, is_to_blame: bool
           ) -> Optional[BaseException]:
    """Return the rank's own exception: error or, if error only reports the end of the group,
    the exception that was being handled when error was raised; None if there is none.  A
    TimedOut that was being handled is the fault of the rank that was waited for."""
    seen: List[BaseException] = []
    while error is not None and error not in seen and (
            reports(error, cause, is_to_blame) or seen and isinstance(error, TimedOut)):
        seen.append(error)
        error = error.__cause__ or error.__context__
    return None if error in seen else error


_runs: Dict[int, _Run] = {}
_run_numbers = itertools.count(1)


def _work(handle: int, number: int) -> int:
    run = _runs[number]
    tid = threading.get_native_id()
    thread_idents[tid] = threading.get_ident()
    try:
        return run.work(handle)
    finally:
        thread_idents.pop(tid, None)
        run.returned.append(handle)
        if len(run.returned) == len(run.comms):
            _runs.pop(number, None)


# The callback of all runs.  It is never freed, because a thread may be in it at any time.
_worker = _abi.cohort_worker_fn(_work)


class Group(Handle):
    """A group of devices of this machine, with one rank on each (cohort_group_open()).

    devices is a number of devices (0 for all) or a list of device numbers.  Blocks until
    all ranks are connected or the init deadline expires.  If Ctrl-C interrupts the open, and
    the group still opens later, it is closed again.

    As a context manager, the group is closed at the end of the block.  An exception in the
    block aborts the group first, because operations in flight may be waiting for code that
    the exception skipped.
    """

    def __init__(self, devices: Union[int, Sequence[int]] = 0,
                 options: Optional[Options] = None) -> None:
        self._cell = ctypes.c_void_p()
        self._closes: List[Tuple[bool, int]] = []
        self._shut = False  # a close is in progress
        self._unwanted = False  # Ctrl-C came during the open
        self._comms: List[Comm] = []
        self._handles: Any = ()  # communicator handles, as written by C
        self._past: "weakref.WeakSet[Comm]" = weakref.WeakSet()
        self._former: List[Comm] = []  # communicators of earlier generations that own memory
        self._held: Dict[Number, object] = {}
        self._inside: List[Optional[FrameType]] = []  # one frame per call in progress
        self._left: List[None] = []  # one item per call made on behalf of the main thread
        self._forks = _library.forks
        listed = None
        if isinstance(devices, Iterable) and not isinstance(devices, (str, bytes)):
            numbers = [integer(device, f"devices[{i}]") for i, device in enumerate(devices)]
            n = len(numbers)
            listed = (ctypes.c_int * n)(*numbers)
            if not n:
                raise ValueError("devices is empty: give a number, 0 for all of them")
        else:
            n = integer(devices, "devices")
        raw, self._keep = raw_options(options or Options())
        self._name = options.name if options and options.name else "cohort"
        _library.opened(self)

        def call() -> int:
            status = int(lib.cohort_group_open(listed, n, _byref(raw), _byref(self._cell)))
            if self._unwanted:
                self._end(_library.EXIT_S)
            return status

        def give_up(answer: _library.Answer) -> None:
            self._unwanted = True
            if answer.done:
                self._end(_library.EXIT_S)
        answer = _library.aside(call, give_up)
        if answer.status < 0:
            raise failure(answer.status, text=answer.text or None)

    @classmethod
    def open(cls, devices: Union[int, Sequence[int]] = 0, options: Optional[Options] = None,
             **more: Any) -> "Group":
        """Open a group, with fields of Options as keywords:
        Group.open(4, name="dp", deadlines=Deadlines(join=30))."""
        if options is not None and more:
            raise TypeError("give options, or their fields, not both")
        return cls(devices, options or Options(**more))

    def __repr__(self) -> str:
        if not self._handle:
            return f"<cohort.Group {self._name!r}, closed>"
        return (f"<cohort.Group {self._name!r}: {self.size} ranks, generation "
                f"{self.generation}>")

    # ---- results ----------------------------------------------------------------------

    @property
    def _raw(self) -> Optional[int]:
        """The handle to close; None after a close has succeeded."""
        if self._closes and self._closes[-1][1] not in _REFUSED:
            return None
        return self._cell.value

    @property
    def _handle(self) -> Optional[int]:
        return None if self._shut else self._raw

    @property
    def _live(self) -> int:
        handle = self._handle
        if not handle:
            raise failure(Status.STATE, text="the group was closed")
        return handle

    def _fail(self, status: int) -> Exception:
        return failure(status, _library.cause_of_group, self._handle)

    def _check(self, status: int) -> int:
        return check(status, _library.cause_of_group, self._handle)

    # ---- open, run and close ------------------------------------------------------------

    def split(self) -> List[Comm]:
        """Return the communicators, one per rank, for threads that the program starts
        (cohort_group_split()).  Does not block.  Raises StateError if the group was split
        before, which run() also does."""
        size = self.size
        # If Ctrl-C interrupted a split, the next split completes it.
        if self._comms or len(self._handles) != size or not self._handles[0]:
            handles = self._handles if self._comms else (ctypes.c_void_p * size)()
            self._handles = handles
            self._check(lib.cohort_group_split(self._live, handles))
        platform = self.platform
        self._comms = [Comm(handle, platform, self) for handle in self._handles if handle]
        return list(self._comms)

    def run(self, worker: Callable[..., Any], *arguments: Any) -> List[Any]:
        """Call worker(comm, *arguments) on every rank, one thread per rank, and return the
        results by rank (cohort_group_run()).

        Each communicator is bound to its thread, and the thread's CUDA device is the rank's.
        An exception that leaves a worker fails its rank (Comm.fail()): the calls of all other
        ranks raise.  Then run() raises the cause, with the workers' exceptions in
        CohortError.exceptions and in its ``__cause__``.  Once there is a cause, run() returns
        within the abort deadline; workers that have not returned by then keep running and
        are listed in abandoned.

        Blocks until every worker has returned.  If Ctrl-C interrupts the main thread, the
        group is aborted, the workers' calls raise Aborted, and run() raises KeyboardInterrupt
        once they have returned, or immediately on a second Ctrl-C.
        """
        check_worker(worker, "worker")
        if self._live and not self._comms and self.cause is None:
            self.split()
        run = _Run(self, lambda comm: worker(comm, *arguments))
        number = next(_run_numbers)
        raw = _abi.cohort_cause()

        def call() -> int:
            _runs[number] = run  # before using the handle: a close takes it, then reads _runs
            status = int(lib.cohort_group_run(self._handle, _worker, number, _byref(raw)))
            run.over = True
            if status in (Status.STATE, Status.INVALID, Status.FORKED) or not self.abandoned:
                _runs.pop(number, None)
            return status

        def give_up(answer: _library.Answer) -> None:
            self._abort("the main thread was interrupted")
            answer.wait()
        answer = self._aside(call, give_up)
        status = answer.status
        if status == Status.OK:
            return run.results
        if status != raw.status:
            raise failure(status, text=answer.text or None)
        cause = cause_of(raw)
        assert cause
        error = failure(status, lambda _: cause, None, cause.text)
        error.exceptions = run.exceptions(cause)
        try:
            raise error from error.exceptions.get(
                cause.rank, next(iter(error.exceptions.values()), None))
        finally:
            # The exceptions' frames refer to these locals, and the cycle would keep the workers'
            # arrays alive.
            run.errors.clear()
            del error

    def respawn(self, lost: Sequence[int] = ()) -> None:
        """Start a new generation without the ranks that were lost (cohort_group_respawn()).

        lost has the ranks to leave out, for example Group.lost.  Blocks until the previous
        generation is reclaimed and the new one is connected, up to the abort and init
        deadlines.  Communicators of the previous generation raise Stale.  If Ctrl-C
        interrupts the main thread, the respawn continues, and a close waits for it.
        """
        if not isinstance(lost, Iterable):
            raise TypeError(f"lost is {lost!r}, not a list of ranks")
        numbers = [integer(rank, f"lost[{i}]") for i, rank in enumerate(lost)]
        ranks = (ctypes.c_int * len(numbers))(*numbers)
        answer = self._aside(partial(self._respawn_here, ranks if numbers else None,
                                     len(numbers)), lambda answer: None)
        if answer.status < 0:
            raise failure(answer.status, text=answer.text or None)

    @inside
    def _respawn_here(self, lost: Any, n: int) -> int:
        status = int(lib.cohort_group_respawn(self._live, lost, n))
        if status >= 0:
            self._begin_generation()
        return status

    def _aside(self, call: Callable[[], int], give_up: Callable[[_library.Answer], None]
               ) -> _library.Answer:
        """Make a call on another thread if this is the main thread, and count the call."""
        caller = threading.get_ident()

        def noted() -> int:
            left = [None] if threading.get_ident() != caller else []
            self._left += left
            try:
                return call()
            finally:
                del self._left[:len(left)]
        return _library.aside(noted, give_up)

    def _begin_generation(self) -> None:
        self._former = [comm for comm in [*self._former, *self._comms] if comm._retire()]
        for comm in self._comms:
            self._past.add(comm)
        self._comms, self._handles = [], ()
        self._held.clear()

    def abort(self, reason: Optional[str] = None) -> bool:
        """End every operation and communicator (cohort_group_abort()).

        Returns True if this call ended the group, False if it had already ended.  Any
        thread; does not block."""
        return check(lib.cohort_group_abort(self._live, as_bytes(reason))) == Status.OK

    def close(self) -> None:
        """Close the group and all of its communicators (cohort_group_close()).

        Waits for operations in flight up to the close deadline, then aborts them and raises
        Aborted.  If the abort does not complete either, raises Wedged, and arrays of
        unfinished calls are never freed.  The group is closed in both cases.  If a thread is
        inside a call, raises StateError and leaves the group open.  Frees the memory of
        Comm.alloc().  Closing a closed group does nothing.
        """
        if not self._raw:
            return
        answer = self._close(self._close_here)
        if answer.status not in (Status.OK, Status.FORKED):
            raise failure(answer.status, text=answer.text or None)

    def _close(self, call: Callable[[], int]) -> _library.Answer:
        # The group's handle must not be used during its close, but an abort handle can be.
        comm = next((comm for comm in self._comms if comm._handle), None)
        handle = comm.abort_handle() if comm and comm._forks == _library.forks else None

        def give_up(answer: _library.Answer) -> None:
            if handle:
                handle.fire("the main thread was interrupted")
            answer.wait()
        main = _library.on_main()

        def call_alone() -> int:
            # After Ctrl-C a respawn may still connect a new generation, so keep aborting.
            # In the child of a fork no call is in progress.
            while main and self._left and self._forks == _library.forks:
                self._abort("the main thread was interrupted")
                time.sleep(0.005)
            return call()
        # A communicator that is bound to this thread can be unbound only by this thread.
        return _library.aside(call_alone, give_up,
                              any(comm._bound_here for comm in self._comms), must=True)

    def _is_inside(self) -> bool:
        """Return whether another thread is in a call of the group or a communicator.

        Ignore communicators of abandoned workers: C keeps them until the workers return."""
        runs = [run for run in list(_runs.values()) if run.group is self and run.over]
        abandoned = [comm for run in runs for comm in run.comms
                     if comm._made not in run.returned]
        return count_inside(self._inside) > 1 or any(
            comm._count_inside() for comm in [*self._comms, *self._past]
            if comm not in abandoned)

    def _is_busy(self) -> bool:
        """Return whether a thread of this process is in another call, or in run()."""
        return self._forks == _library.forks and (self._is_inside() or self._is_running())

    def _is_running(self, over: bool = False) -> bool:
        """Return whether a run is in progress; with over, even if it abandoned threads."""
        return any(run.group is self and (over or not run.over) for run in list(_runs.values()))

    @inside
    def _close_here(self) -> int:
        handle = self._raw
        if not handle:
            return Status.OK
        busy = failure(Status.STATE, text="a thread is inside a call of the group")
        if self._is_busy():
            raise busy
        shut = [comm for comm in [*self._comms, *self._past]
                if comm._handle and (comm._bound_here or not comm._bound)]
        self._shut = True  # no new call can start
        if not self._is_running(True):
            for comm in shut:
                comm._handle = None
        try:
            if self._is_busy():  # a call started after the first check
                raise busy
            if not self._is_running(True):
                for comm in shut:
                    comm._free_memory()
            status = record(self._closes, False, lib.cohort_group_close, handle)
            if status not in _REFUSED:
                self._gone(status)
            return status
        finally:
            if self._raw:
                for comm in shut:
                    comm._handle = comm._made
                self._shut = False

    def _gone(self, status: int) -> None:
        left = self._is_running(True)
        if status == Status.WEDGED:
            _library.kept += [self._held, self._keep]
        _library.closed(self)
        for comm in [*self._comms, *self._past]:
            # Abandoned threads may still use their communicators.
            if not left and (comm._bound_here or not comm._bound):
                comm._gone(status)
            else:
                comm._ended = True
        self._held.clear()

    def _abort(self, reason: str) -> None:
        handle = self._raw
        if handle and self._forks == _library.forks:
            lib.cohort_group_abort(handle, as_bytes(reason))

    def _end(self, patience_s: float) -> None:
        """Abort and close the group; threads in a call have patience_s seconds to leave."""
        self._abort_and_close("the interpreter exits", patience_s)

    def _abort_and_close(self, reason: str, patience_s: float) -> None:
        if not self._raw:
            return
        if self._forks != _library.forks:  # the handle belongs to the parent process
            self._closes.append((False, Status.FORKED))
            self._gone(Status.FORKED)
            return
        self._abort(reason)
        end = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(StateError):
                if self._close_here() != Status.STATE:
                    return
            if time.monotonic() > end:
                _library.kept.append(self)
                return
            time.sleep(0.005)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException],
                 trace: object) -> None:
        if kind is None:
            self.close()
        elif self._raw:
            def call() -> int:
                self._abort_and_close(describe(error), _library.EXIT_S)
                return Status.OK
            self._close(call)

    def __del__(self) -> None:
        if hasattr(self, "_forks") and self._raw and self._forks == _library.forks:
            said = f"{self!r} was not closed"
            for comm in self._comms:
                comm._unbind_here()
            _library.abandon(self)
            if not self._unwanted:
                warnings.warn(said, ResourceWarning, source=self)

    # ---- facts ----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of ranks in this process."""
        return int(lib.cohort_group_size(self._live))

    @property
    def platform(self) -> Platform:
        """The platform that the group runs on."""
        return known(Platform, lib.cohort_group_platform(self._live))

    @property
    def generation(self) -> int:
        """Number of the generation: 1 at first, plus 1 for each respawn()."""
        return int(lib.cohort_group_generation(self._live))

    @property
    def devices(self) -> List[int]:
        """The device number of each rank."""
        devices = (ctypes.c_int * self.size)()
        self._check(lib.cohort_group_devices(self._live, devices))
        return list(devices)

    @property
    def cause(self) -> Optional[Cause]:
        """The cause that ended the generation, or None."""
        return _library.cause_of_group(self._live)

    @property
    def abandoned(self) -> List[int]:
        """The ranks whose workers had not returned when the last run ended."""
        return self._ranks(lib.cohort_group_abandoned)

    @property
    def lost(self) -> List[int]:
        """The ranks to pass to respawn() after the group has ended; empty if no rank is to
        blame (cohort_group_lost())."""
        return self._ranks(lib.cohort_group_lost)

    def _ranks(self, ask: Callable[..., int]) -> List[int]:
        ranks = (ctypes.c_int * MAX_RANKS)()
        return list(ranks[:ask(self._live, ranks, MAX_RANKS)])

    @property
    def process(self) -> int:
        """The number of this process in the group."""
        return int(lib.cohort_group_process(self._live))

    @property
    def processes(self) -> List[Process]:
        """The processes of the group, by number."""
        n = lib.cohort_group_processes(self._live, None, 0)
        raw = (_abi.cohort_process * max(n, 1))()
        lib.cohort_group_processes(self._live, raw, n)
        return [Process(one.first_rank, one.ranks, bool(one.watched), one.pid,
                        text_of(one.host)) for one in raw[:n]]

    def snapshot(self) -> List[RankReport]:
        """Return the state of each rank (cohort_group_snapshot()).

        Any thread; does not block."""
        reports = (_abi.cohort_rank_report * self.size)()
        self._check(lib.cohort_group_snapshot(self._live, reports, self.size,
                                              ctypes.sizeof(_abi.cohort_rank_report)))
        return [report_of(raw) for raw in reports if raw.rank >= 0]

    def dump(self, directory: Union[str, "os.PathLike[str]", None] = None) -> None:
        """Write the recorded operations of all ranks to files (cohort_dump()).

        directory None stands for Options.dump_directory.  Any thread; blocks only on the
        file system."""
        self._check(lib.cohort_dump(self._live, as_path(directory, "directory")))

    # ---- one thread for all ranks -----------------------------------------------------------

    def _pointers(self, arrays: Sequence[Array], what: str, writable: bool, at: Optional[int]
                  ) -> Any:
        """Return one pointer per rank, the Elements of the first array, and the objects to keep
        alive."""
        size = self.size
        if len(arrays) != size:
            raise ValueError(f"{what} has {len(arrays)} arrays, not {size}, one for each rank")
        pointers = (ctypes.c_void_p * size)()
        keep: List[object] = []
        first = None
        for rank, array in enumerate(arrays):
            if at is not None and rank != at:
                continue
            stream = lib.cohort_group_stream(self._live, rank) or 0
            found = look(array, f"{what}[{rank}]", writable, stream)
            if (found.place in (CUDA, MANAGED)) == (self.platform == Platform.HOST):
                raise BufferError(f"{what}[{rank}] is not in memory of the rank's device")
            first = first or found
            Comm._want(found, f"{what}[{rank}]", first.type, first.count)
            pointers[rank] = found.address
            keep.append(found.keep)
        assert first
        return pointers, first, keep

    def _queue(self, call: Callable[..., int], send: Sequence[Array],
               recv: Optional[Sequence[Array]], at: Optional[int], argument: int) -> int:
        """Make a call that reads all arrays of send, or only send[at]; return its ticket."""
        source, first, keep = self._pointers(send, "send", recv is None, at)
        target, second, more = self._pointers(
            send if recv is None else recv, "recv", True, None)
        Comm._want(second, "recv[0]", first.type, first.count)
        ticket = Number()
        handle = self._live
        # Before the call, because Ctrl-C may come after it is queued.
        self._held[ticket] = keep, more
        status = call(handle, source, target, first.count, first.type, argument, None,
                      _byref(ticket))
        if status < 0:
            del self._held[ticket]
        self._check(status)
        for cell in list(self._held)[:-64]:
            if lib.cohort_group_wait(handle, cell.value, 0) not in (Status.TIMED_OUT,
                                                                    Status.WEDGED):
                self._held.pop(cell, None)
        return ticket.value

    def all_reduce(self, send: Sequence[Array], recv: Optional[Sequence[Array]] = None, *,
                   op: AnyOp = Op.SUM) -> int:
        """Queue the all-reduce of all ranks from one thread (cohort_group_all_reduce()).

        send and recv have one array per rank.  Allowed only before split() and run().
        Returns a ticket for Group.wait()."""
        return self._queue(lib.cohort_group_all_reduce, send, recv, None, op_of(op))

    def broadcast(self, send: Sequence[Array], recv: Optional[Sequence[Array]] = None, *,
                  root: int = 0) -> int:
        """Queue the broadcast of all ranks from one thread (cohort_group_broadcast()).

        send and recv have one array per rank; only send[root] is read.  Returns a ticket for
        Group.wait()."""
        if not 0 <= integer(root, "root") < self.size:
            raise ValueError(f"root is {root}, not 0 to {self.size - 1}")
        return self._queue(lib.cohort_group_broadcast, send, recv, root, root)

    @inside
    def wait(self, ticket: int, timeout: Optional[float] = None) -> None:
        """Wait for a ticket of all_reduce() or broadcast(), up to timeout seconds
        (cohort_group_wait()).

        Raises the same exceptions as Ticket.wait()."""
        status = _library.wait(partial(lib.cohort_group_wait, self._live,
                                       integer(ticket, "ticket", ctypes.c_uint64)),
                               nanoseconds(timeout))
        if status not in (Status.TIMED_OUT, Status.WEDGED):
            for cell in list(self._held):
                if cell.value == ticket:
                    self._held.pop(cell, None)
        if status != Status.OK:
            raise self._fail(status)


# ---- ranks that join by id ----------------------------------------------------------------

def unique_id(platform: Platform = Platform.AUTO) -> bytes:
    """Create an id for one communicator of a platform, whose ranks pass it to join() or to
    Comm.subset() (cohort_unique_id())."""
    raw = _abi.cohort_unique_id()
    check(lib.cohort_unique_id(Platform(platform), _byref(raw)))
    return bytes(raw.bytes)


def join(identity: bytes, size: int, rank: int, device: int,
         options: Optional[Options] = None) -> Comm:
    """Join a communicator as one rank (cohort_comm_join()).

    identity comes from unique_id() and must be the same on all ranks.  Every rank must join,
    each from its own thread or process.  Blocks until all have joined or the init deadline
    expires.  If Ctrl-C interrupts the join, and the join still succeeds later, the rank leaves
    again.  Close the communicator, or use it as a context manager.
    """
    raw, keep = raw_options(options or Options())
    this = raw_id(identity)
    numbers = [integer(size, "size"), integer(rank, "rank"), integer(device, "device")]
    joined: List[Comm] = []
    unwanted: List[None] = []

    def leave() -> None:
        for comm in joined:
            comm._end(_library.EXIT_S)

    def call() -> int:
        made = ctypes.c_void_p()
        status = int(lib.cohort_comm_join(_byref(this), *numbers, _byref(raw), _byref(made)))
        if made.value:
            comm = Comm(made.value, Platform(lib.cohort_comm_platform(made)), keep)
            comm._joined = True
            _library.opened(comm)
            joined.append(comm)
        if unwanted:
            leave()
        return status

    def give_up(answer: _library.Answer) -> None:
        unwanted.append(None)
        if answer.done:
            leave()
    answer = _library.aside(call, give_up)
    if answer.status < 0:
        raise failure(answer.status, text=answer.text or None)
    return joined.pop()


def quiet() -> ContextManager[None]:
    """Prevent collectives of this process from being launched during a with block, so that
    the program can allocate or free GPU memory (cohort_quiet_begin(), cohort_quiet_end()).

    For threads that call for no rank.  Keep the block short.  Blocks while a collective is
    being launched."""
    return Scope(None, (lib.cohort_quiet_begin,), (lib.cohort_quiet_end,))
