# SPDX-License-Identifier: Apache-2.0
"""Groups: all the devices of a machine from one process, a thread for each."""

import contextlib
import ctypes
import itertools
import os
import threading
import time
import warnings
from dataclasses import dataclass, fields
from functools import partial
from typing import (Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Sequence,
                    Union)

from . import _abi, _library
from ._abi import Launch, Op, Platform, Status
from ._arrays import CUDA, MANAGED, look
from ._comm import AnyOp, Comm, op_of
from ._errors import Cause, CohortError, Handle, RankReport, cause_of, known, report_of, text_of
from ._library import check, failure, integer, lib, nanoseconds
from ._options import Options, raw_options
from ._rank import Array, as_bytes, as_path, describe, inside

_byref = ctypes.byref


@dataclass(frozen=True)
class Process:
    """A process of a group (struct cohort_process)."""

    first_rank: int
    ranks: int  #: 0: it has ended, or left
    watched: bool
    pid: int
    host: str


@dataclass(frozen=True)
class PlatformInfo:
    """What probe() found (struct cohort_platform_info)."""

    platform: Platform
    status: Status  #: OK: usable; else why not
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
    """What is there, or why not (cohort_platform_probe()).

    AUTO is the platform that a group gets which is opened now.  "Not installed" is an
    answer, not an error.  Any thread; may block on the start of the driver.
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
    """What the workers of a run share; a worker that the run leaves behind still needs it."""

    def __init__(self, group: "Group", worker: Callable[[Comm], Any], size: int) -> None:
        self.group = group
        self.worker = worker
        self.left = size
        self.results: List[Any] = [None] * size
        self.errors: Dict[int, BaseException] = {}

    def work(self, handle: int) -> int:
        """What the thread of a rank does."""
        comm = self.group._by_handle[handle]
        place = self.group._comms.index(comm)
        try:
            self.results[place] = self.worker(comm)
            return 0
        except BaseException as error:  # pylint: disable=broad-except # run() raises it
            self.errors[comm.rank] = error
            code = int(error.status) if isinstance(error, CohortError) else 0
            code = code if code else int(Status.WORKER)
            lib.cohort_comm_fail(handle, code, as_bytes(describe(error)))
            return code
        finally:
            if not self.group._handle:
                comm._gone()


_runs: Dict[int, _Run] = {}
_run_numbers = itertools.count(1)


def _work(handle: int, number: int) -> int:
    run = _runs[number]
    try:
        return run.work(handle)
    finally:
        run.left -= 1
        if not run.left:
            del _runs[number]


# One for all runs: a thread may be in it at any time.
_worker = _abi.cohort_worker_fn(_work)


class Group(Handle):
    """Some of the machine's devices, a rank on each (cohort_group_open()).

    devices is a number of devices, 0 for all of them, or a list of their numbers.  Blocks
    until all ranks are connected, or the init deadline has passed; if Ctrl-C interrupts
    that, what is opened after all is closed again.

    A context manager: the end of the block closes the group, and an exception aborts it
    first, as what is in flight may wait for the very code that the exception has skipped.
    """

    def __init__(self, devices: Union[int, Sequence[int]] = 0,
                 options: Optional[Options] = None) -> None:
        self._handle: Optional[int] = None
        self._comms: List[Comm] = []
        self._by_handle: Dict[int, Comm] = {}
        self._past: List[Comm] = []
        self._held: Dict[int, object] = {}
        self._inside: List[None] = []  # one for each thread that is in a wait
        self._running = 0  # calls of run() that have not returned
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
        made = ctypes.c_void_p()

        def give_up(answer: _library.Answer) -> None:
            def close() -> None:
                answer.wait()
                if made.value:
                    lib.cohort_group_close(made)
            _library.kept.append(self._keep)
            threading.Thread(target=close, daemon=True).start()
        answer = _library.aside(
            lambda: lib.cohort_group_open(listed, n, _byref(raw), _byref(made)), give_up)
        if answer.status < 0:
            raise failure(answer.status, text=answer.text or None)
        self._handle = made.value
        self._name = options.name if options and options.name else "cohort"
        _library.opened(self)

    @classmethod
    def open(cls, devices: Union[int, Sequence[int]] = 0, options: Optional[Options] = None,
             **more: Any) -> "Group":
        """A group, with fields of Options as keywords:
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
    def _live(self) -> int:
        if not self._handle:
            raise failure(Status.STATE, text="the group was closed")
        return self._handle

    def _fail(self, status: int) -> Exception:
        return failure(status, _library.cause_of_group, self._handle)

    def _check(self, status: int) -> int:
        return check(status, _library.cause_of_group, self._handle)

    # ---- life ---------------------------------------------------------------------------

    def split(self) -> List[Comm]:
        """The communicators, one per rank, each for a thread of one's own
        (cohort_group_split()).  Raises StateError if that was done before, also by run().
        Does not block."""
        size = self.size
        handles = (ctypes.c_void_p * size)()
        self._check(lib.cohort_group_split(self._live, handles))
        platform = self.platform
        self._by_handle = {handle: Comm(handle, platform, self)
                           for handle in handles if handle}
        self._comms = list(self._by_handle.values())
        return list(self._comms)

    def run(self, worker: Callable[..., Any], *arguments: Any) -> List[Any]:
        """Call worker(comm, *arguments) on every rank, a thread per rank; returns what
        the calls have returned, by rank (cohort_group_run()).

        The thread's communicator is bound to it, and its CUDA device is the rank's.  An
        exception that leaves a worker fails its rank (Comm.fail()): the other ranks' calls
        raise, and so does run(), with the cause, and with the worker's exception as its
        ``__cause__``.  Once there is a cause, run() returns within the abort deadline;
        workers that have not returned then go on (abandoned).

        Blocks until every worker has returned.  If Ctrl-C interrupts the main thread, the
        group is aborted, the workers' calls raise Aborted, and run() raises
        KeyboardInterrupt when they have returned, or at once at the second Ctrl-C.
        """
        if self._live and not self._comms and self.cause is None:
            self.split()
        run = _Run(self, lambda comm: worker(comm, *arguments), len(self._comms))
        number = next(_run_numbers)
        _runs[number] = run
        raw = _abi.cohort_cause()
        handle = self._live

        def give_up(answer: _library.Answer) -> None:
            lib.cohort_group_abort(handle, b"the main thread was interrupted")
            answer.wait()
        self._running += 1
        try:
            answer = _library.aside(lambda: lib.cohort_group_run(
                handle, _worker, number, _byref(raw)), give_up)
        finally:
            self._running -= 1
        status = answer.status
        if not self.abandoned or status in (Status.STATE, Status.INVALID, Status.FORKED):
            _runs.pop(number, None)
        if status == Status.OK:
            return run.results
        if status != raw.status:
            raise failure(status, text=answer.text or None)
        cause = cause_of(raw)
        assert cause
        raise failure(status, lambda _: cause, None, cause.text) from run.errors.get(
            cause.rank) if cause.status == Status.WORKER else None

    def respawn(self, lost: Sequence[int] = ()) -> None:
        """A new generation without the ranks that were lost (cohort_group_respawn()).

        Blocks until the former generation is reclaimed and the new one is connected, up to
        the abort and init deadlines.  Communicators of the former generation raise Stale.
        """
        numbers = [integer(rank, f"lost[{i}]") for i, rank in enumerate(lost)]
        ranks = (ctypes.c_int * len(numbers))(*numbers)
        handle = self._live
        answer = _library.aside(
            lambda: lib.cohort_group_respawn(handle, ranks if numbers else None,
                                             len(numbers)),
            lambda answer: None)
        if answer.status < 0:
            raise failure(answer.status, text=answer.text or None)
        for comm in self._comms:
            comm._drop_answered()
        self._past += self._comms
        self._comms, self._by_handle = [], {}
        self._held.clear()

    def abort(self, reason: Optional[str] = None) -> bool:
        """End every operation and communicator (cohort_group_abort()); True if this call
        did it.  Any thread; does not block."""
        return check(lib.cohort_group_abort(self._live, as_bytes(reason))) == Status.OK

    def close(self) -> None:
        """Close the group and every communicator of it (cohort_group_close()).

        Waits for what is in flight up to the close deadline, then aborts: Aborted, and it
        is closed all the same; so it is after Wedged, when arrays of calls that are not
        done stay alive for good.  StateError: a thread is inside, and it is open as
        before.  Memory of Comm.alloc() is given back.  Closing a group that is closed
        does nothing.
        """
        if not self._handle:
            return
        status = self._close()
        if status.status not in (Status.OK, Status.FORKED):
            raise failure(status.status, text=status.text or None)

    def _is_inside(self) -> bool:
        """Whether a thread is in a call, of the group or of a communicator."""
        return bool(self._inside) or any(
            comm._is_inside() for comm in self._comms + self._past)

    def _close(self) -> _library.Answer:
        handle = self._live
        if self._is_inside():
            return _library.thread_inside()
        if not self._running:
            for comm in self._comms + self._past:
                if comm._handle and not comm._bound:
                    comm._free_memory()

        def give_up(answer: _library.Answer) -> None:
            lib.cohort_group_abort(handle, b"the main thread was interrupted")
            answer.wait()
            ended(answer)

        def ended(answer: _library.Answer) -> None:
            if answer.status not in (Status.STATE, Status.INVALID):
                self._gone(answer.status)
        if any(comm._bound for comm in self._comms):
            # Only this thread's close unbinds what is bound to it.
            answer = _library.Answer()
            answer.status = lib.cohort_group_close(handle)
            answer.text = text_of(lib.cohort_last_error())
        else:
            answer = _library.aside(lambda: lib.cohort_group_close(handle), give_up)
        ended(answer)
        return answer

    def _gone(self, status: int) -> None:
        left: FrozenSet[int] = frozenset(
            number for number, run in list(_runs.items()) if run.group is self)
        if status == Status.WEDGED:
            _library.kept += [self._held, self._keep]
        self._handle = None
        _library.closed(self)
        for comm in self._comms + self._past:
            # Threads that were left behind may still use theirs.
            if not left and not comm._bound:
                comm._gone(status)
            comm._ended = True
        self._held.clear()

    def _abort(self, reason: str) -> None:
        if self._handle and self._forks == _library.forks:
            lib.cohort_group_abort(self._handle, as_bytes(reason))

    def _end(self, patience_s: float) -> None:
        """Abort it and close it; a thread that is inside has some time to leave."""
        self._abort_and_close("the interpreter ends", patience_s)

    def _abort_and_close(self, reason: str, patience_s: float) -> None:
        if not self._handle:
            return
        if self._forks != _library.forks:  # the parent's
            self._gone(Status.FORKED)
            return
        self._abort(reason)
        end = time.monotonic() + patience_s
        while True:
            status = (Status.STATE if self._is_inside()
                      else lib.cohort_group_close(self._handle))
            if status != Status.STATE:
                self._gone(status)
                return
            if time.monotonic() > end:
                _library.kept.append(self)
                return
            time.sleep(0.005)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException],
                 trace: object) -> None:
        if not self._handle:
            return
        if kind is None:
            self.close()
            return
        self._abort_and_close(describe(error), _library.EXIT_S)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and self._forks == _library.forks:
            said = f"{self!r} was not closed"
            self._end(0.0)
            warnings.warn(said, ResourceWarning, source=self)

    # ---- facts ----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of ranks in this process."""
        return int(lib.cohort_group_size(self._live))

    @property
    def platform(self) -> Platform:
        """What the group runs on."""
        return known(Platform, lib.cohort_group_platform(self._live))

    @property
    def launch(self) -> Launch:
        """When a rank's part of a collective is launched."""
        return known(Launch, lib.cohort_group_launch(self._live))

    @property
    def generation(self) -> int:
        """1, and 1 more with each respawn()."""
        return int(lib.cohort_group_generation(self._live))

    @property
    def devices(self) -> List[int]:
        """The devices, by rank."""
        devices = (ctypes.c_int * self.size)()
        self._check(lib.cohort_group_devices(self._live, devices))
        return list(devices)

    @property
    def cause(self) -> Optional[Cause]:
        """What has ended the generation; None if nothing has."""
        return _library.cause_of_group(self._live)

    @property
    def abandoned(self) -> List[int]:
        """The ranks that the last run has left behind."""
        n = lib.cohort_group_abandoned(self._live, None, 0)
        ranks = (ctypes.c_int * max(n, 1))()
        lib.cohort_group_abandoned(self._live, ranks, n)
        return list(ranks[:n])

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
        """What each rank is doing now (cohort_group_snapshot()).  Any thread; does not
        block."""
        reports = (_abi.cohort_rank_report * self.size)()
        self._check(lib.cohort_group_snapshot(self._live, reports, self.size,
                                              ctypes.sizeof(_abi.cohort_rank_report)))
        return [report_of(raw) for raw in reports if raw.rank >= 0]

    def dump(self, directory: Union[str, "os.PathLike[str]", None] = None) -> None:
        """Write down what the ranks have done last, into files (cohort_dump()).

        None is options.dump_directory.  Any thread; blocks on the file system only."""
        self._check(lib.cohort_dump(self._live, as_path(directory, "directory")))

    def stats(self, file: Any) -> None:
        """Write the counters of all ranks as text for Prometheus (cohort_stats_write()).

        file is a descriptor, or has fileno()."""
        number = file if isinstance(file, int) else file.fileno()
        self._check(lib.cohort_stats_write(self._live, number))

    # ---- one thread for all ranks -----------------------------------------------------------

    def _pointers(self, arrays: Sequence[Array], what: str, writable: bool, at: Optional[int]
                  ) -> Any:
        """One pointer per rank, the arrays' count and type, and what keeps them."""
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

    def _queue(self, call: Callable[..., int], keep: object, *arguments: Any) -> int:
        ticket = ctypes.c_uint64()
        try:
            self._check(call(self._live, *arguments, None, _byref(ticket)))
        finally:  # Ctrl-C may come after the call has queued its work
            if ticket.value:
                self._held[ticket.value] = keep
        for number in list(self._held)[:-64]:
            if lib.cohort_group_wait(self._live, number, 0) not in (Status.TIMED_OUT,
                                                                    Status.WEDGED):
                self._held.pop(number, None)
        return ticket.value

    def all_reduce(self, send: Sequence[Array], recv: Optional[Sequence[Array]] = None, *,
                   op: AnyOp = Op.SUM) -> int:
        """All ranks' all-reduce from one thread, before the group is split
        (cohort_group_all_reduce()): an array per rank.  The ticket is for wait()."""
        source, first, keep = self._pointers(send, "send", recv is None, None)
        target, second, more = self._pointers(
            send if recv is None else recv, "recv", True, None)
        Comm._want(second, "recv[0]", first.type, first.count)
        return self._queue(lib.cohort_group_all_reduce, (keep, more), source, target,
                           first.count, first.type, op_of(op))

    def broadcast(self, send: Sequence[Array], recv: Optional[Sequence[Array]] = None, *,
                  root: int = 0) -> int:
        """All ranks' broadcast from one thread (cohort_group_broadcast()); only
        send[root] is read."""
        if not 0 <= integer(root, "root") < self.size:
            raise ValueError(f"root is {root}, not 0 to {self.size - 1}")
        source, first, keep = self._pointers(send, "send", recv is None, root)
        target, second, more = self._pointers(
            send if recv is None else recv, "recv", True, None)
        Comm._want(second, "recv[0]", first.type, first.count)
        return self._queue(lib.cohort_group_broadcast, (keep, more), source, target,
                           first.count, first.type, root)

    @inside
    def wait(self, ticket: int, timeout: Optional[float] = None) -> None:
        """Wait for a ticket of these calls, as Ticket.wait() (cohort_group_wait())."""
        status = _library.wait(partial(lib.cohort_group_wait, self._live,
                                       integer(ticket, "ticket", ctypes.c_uint64)),
                               nanoseconds(timeout))
        if status not in (Status.TIMED_OUT, Status.WEDGED):
            self._held.pop(ticket, None)
        if status != Status.OK:
            raise self._fail(status)


# ---- ranks that join by id ----------------------------------------------------------------

def unique_id() -> bytes:
    """A new id, for one communicator whose ranks join() by it (cohort_unique_id())."""
    raw = _abi.cohort_unique_id()
    check(lib.cohort_unique_id(_byref(raw)))
    return bytes(raw.bytes)


def join(identity: bytes, size: int, rank: int, device: int,
         options: Optional[Options] = None) -> Comm:
    """Be one rank of a communicator, a thread or a process per rank (cohort_comm_join()).

    Every rank must join, each from a thread of its own: blocks until all have, or the
    init deadline has passed; if Ctrl-C interrupts that, what is joined after all is left
    again.  Close the communicator, or use it as a context manager.
    """
    raw, keep = raw_options(options or Options())
    this = _abi.cohort_unique_id()
    if not isinstance(identity, bytes):
        raise TypeError(f"identity is {identity!r}, not bytes of unique_id()")
    if len(identity) != ctypes.sizeof(this):
        raise ValueError(f"identity has {len(identity)} bytes, not {ctypes.sizeof(this)}")
    ctypes.memmove(_byref(this), identity, len(identity))
    numbers = [integer(size, "size"), integer(rank, "rank"), integer(device, "device")]
    made = ctypes.c_void_p()

    def give_up(answer: _library.Answer) -> None:
        def leave() -> None:
            answer.wait()
            if made.value:
                lib.cohort_comm_fail(made, Status.WORKER, b"interrupted")
                lib.cohort_comm_close(made)
        _library.kept.append(keep)
        threading.Thread(target=leave, daemon=True).start()
    answer = _library.aside(lambda: lib.cohort_comm_join(
        _byref(this), *numbers, _byref(raw), _byref(made)), give_up)
    if answer.status < 0:
        raise failure(answer.status, text=answer.text or None)
    platform = Platform(lib.cohort_comm_platform(made))
    comm = Comm(made.value or 0, platform, keep)
    comm._joined = True
    _library.opened(comm)
    return comm


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep collectives of this process from being launched, for a program's own memory
    operations inside (cohort_quiet_begin(), cohort_quiet_end()).

    For threads that are no rank's; keep it short.  Blocks while one is being launched."""
    check(lib.cohort_quiet_begin())
    try:
        yield
    finally:
        lib.cohort_quiet_end()
