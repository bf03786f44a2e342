# SPDX-License-Identifier: Apache-2.0
"""Communicators except for their collectives: tickets, close, memory, waits and facts."""

import contextlib
import ctypes
import os
import time
from threading import get_ident
import warnings
from dataclasses import dataclass, fields
from functools import partial
from types import FrameType
from typing import (Any, Callable, ContextManager, Dict, Iterable, List, Optional, Sequence, Set,
                    Tuple, TypeVar, Union)

from . import _abi, _library
from ._abi import Platform, Status, Type
from ._arrays import CUDA, HOST, MANAGED, PINNED, Elements, Memory, look, stream_of, type_of
from ._errors import (Cause, CohortError, Handle, RankReport, Stale, known, report_of,
                      text_of)
from ._library import (STILL_OPEN, Number, Owned, Scope, check, count_inside, failure, inside,
                       integer, lib, nanoseconds, record)

#: An array, as described at cohort.Comm.
Array = Any
#: A stream, as described at cohort.Comm; None is the communicator's own.
Stream = Any

R = TypeVar("R", bound="Rank")

# Statuses after which buffers may still be read or written.
_IN_USE = (Status.TIMED_OUT, Status.WEDGED)
_byref = ctypes.byref


def as_bytes(text: Optional[str], what: str = "text") -> Optional[bytes]:
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}, not a str")
    if "\0" in text:
        raise ValueError(f"{what} is {text!r}, which contains a NUL character")
    return text.encode("utf-8", "replace")


def as_path(path: "Union[str, bytes, os.PathLike[str], None]", what: str) -> Optional[bytes]:
    if path is None:
        return None
    try:
        encoded = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{what} is {path!r}, not a path") from None
    if b"\0" in encoded:
        raise ValueError(f"{what} is {path!r}, which contains a NUL character")
    return encoded


def describe(error: Optional[BaseException]) -> str:
    """Return an exception as one line of text, for use as a reason."""
    try:
        text = str(error)
    except BaseException:  # pylint: disable=broad-except # still give some reason
        text = "it has no text"
    text = text.replace("\0", " ")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def status_of(error: Optional[BaseException]) -> int:
    """Return the code with which a rank fails if this exception leaves its worker or block.

    If the program wrapped a CohortError in an exception of its own, that error's status."""
    status = None
    with contextlib.suppress(BaseException):  # a subclass may override status
        seen: Set[int] = set()
        while error and not isinstance(error, CohortError) and id(error) not in seen:
            seen.add(id(error))
            error = error.__cause__ or (None if error.__suppress_context__
                                        else error.__context__)
        status = error.status if isinstance(error, CohortError) else None
    return status if isinstance(status, int) and status and abs(status) < 2**31 \
        else int(Status.WORKER)


@dataclass
class Deadlines:
    """Time limits, in seconds (struct cohort_deadlines).

    None stands for the default, math.inf for no limit.
    """

    init: Optional[float] = None  #: to create and connect ranks; default 120 s
    join: Optional[float] = None  #: from a rank's call to the last rank's; default 300 s
    exec: Optional[float] = None  #: from the last rank's call to completion; default 300 s
    close: Optional[float] = None  #: for a close before it aborts; default 60 s
    abort: Optional[float] = None  #: for an abort to complete; default 10 s

    def _raw(self) -> _abi.cohort_deadlines:
        return _abi.cohort_deadlines(**{
            f"{field.name}_ns": nanoseconds(getattr(self, field.name), 0, f"deadlines.{field.name}")
            for field in fields(self)})


class Ticket:
    """The result of a call in flight.  Any thread may wait for it or query it, repeatedly."""

    __slots__ = ("comm", "_cell")

    def __init__(self, comm: "Rank", number: Union[int, Number]) -> None:
        self.comm = comm
        self._cell = number if isinstance(number, Number) else Number(
            integer(number, "number", ctypes.c_uint64))

    @property
    def number(self) -> int:
        """The ticket's number in the C API; 0 while its batch is open."""
        return self._cell.value

    def wait(self, timeout: Optional[float] = None) -> None:
        """Wait until the call is done (cohort_wait()).

        timeout is in seconds; None waits as long as the deadlines allow.  If wait() returns,
        the output is valid.  Raises TimedOut if the call is still running; wait again.
        Otherwise raises the cause: the output is undefined, and the arrays are no longer in
        use, except after Wedged.
        """
        self.comm._wait(self._cell, nanoseconds(timeout))

    def done(self) -> bool:
        """Return whether the call is done, without waiting; raises the cause if it failed."""
        return self.comm._is_done(self._cell)

    def after(self, stream: Stream) -> None:
        """Make work that is later queued on stream wait for this call (cohort_stream_after()).

        A submitting call; does not block."""
        comm = self.comm
        comm._check(lib.cohort_stream_after(
            comm._live, self.number, stream_of(stream, comm.stream)))


class AbortHandle(Handle):
    """A handle that can end a group from any thread, even during or after its close.

    Without a communicator, the handle is for a group that is not open yet, or for ranks that
    have not joined: pass it as Options.abort, and fire() also makes the open or join raise
    Aborted.  A handle applies to one generation.
    """

    def __init__(self, comm: Optional["Rank"] = None) -> None:
        self._handles: List[Tuple[bool, int]] = []
        self._put: List[Tuple[bool, int]] = []
        made = record(self._handles, True, lib.cohort_comm_abort_handle, comm._live) \
            if comm is not None else record(self._handles, True, lib.cohort_abort_create)
        if not made:
            raise failure(Status.FORKED if _library.forks else Status.NO_MEMORY
                          if comm is None else Status.STALE)

    def __del__(self) -> None:
        if getattr(self, "_put", None) == [] and self._handle:
            record(self._put, False, lib.cohort_abort_put, self._handle)

    @property
    def _handle(self) -> int:
        return self._handles[0][1] if self._handles else 0

    def fire(self, reason: Optional[str] = None) -> bool:
        """End the group (cohort_abort_fire()); return True if this call ended it.

        May be called from any thread and from a signal.signal() handler.  Does not block.
        """
        status = lib.cohort_abort_fire(self._handle, as_bytes(reason))
        if status < 0:  # cohort_abort_fire() sets no error text
            raise failure(status, text=text_of(lib.cohort_status_text(status)))
        return bool(status == Status.OK)

    @property
    def fired(self) -> bool:
        """Whether the group has a cause (cohort_abort_fired())."""
        return bool(lib.cohort_abort_fired(self._handle))


def refer(refs: object, what: object) -> bool:
    """Return whether refs contain the object what, or a view of it."""
    if isinstance(refs, memoryview):
        refs = refs.obj
        while refs is not None and refs is not what:
            refs = getattr(refs, "base", None)  # NumPy's reference to the memory's owner
    return refs is what or isinstance(refs, (tuple, list)) and any(
        refer(one, what) for one in refs)


class Rank(Handle):
    """A communicator without the collectives, which cohort.Comm adds."""

    def __init__(self, handle: int, platform: Platform, owner: object = None) -> None:
        self._handle: Optional[int] = handle
        self._owner = owner  # keeps the group or the parent communicator open
        self._made = handle
        self._closes: List[Tuple[bool, int]] = []
        # Arrays in use, by the cell of their ticket's number (0 until the call is made).
        self._held: Dict[Number, object] = {}
        self._copies: List[object] = []
        self._inside: List[Optional[FrameType]] = []  # one frame per call in progress
        self._owned: Dict[int, Owned] = {}
        self._dropped: List[Owned] = []
        self._giving: List[Optional[FrameType]] = []  # one frame per thread that releases handles
        self._registered: Dict[int, Owned] = {}
        self._most = 64
        self._bindings: List[Tuple[bool, int]] = []
        self._binder = 0  # thread that called bind() last
        self._joined = False
        self._ended = False  # the group was closed while another thread had this
        self._forks = _library.forks
        # Open children; a dropped child stays here until its memory is released.
        self._children: Set["Rank"] = set()
        self._on_host = platform == Platform.HOST
        self.platform = platform
        self.rank: int = lib.cohort_comm_rank(handle)
        self.size: int = lib.cohort_comm_size(handle)
        self.device: int = lib.cohort_comm_device(handle)
        self.generation: int = lib.cohort_comm_generation(handle)
        self.origin: int = lib.cohort_comm_origin(handle)  #: its rank in generation 1
        self.stream: int = lib.cohort_comm_stream(handle) or 0  #: its own stream

    @property
    def _bound(self) -> bool:
        """Whether the last successful bind() or unbind() was a bind()."""
        return next((binds for binds, status in reversed(self._bindings)
                     if status == Status.OK), False)

    @property
    def _bound_here(self) -> bool:
        return self._bound and self._binder == get_ident()

    @property
    def _raw(self) -> Optional[int]:
        """The handle to close; None after a close of this or of its group has succeeded."""
        if self._closes and self._closes[-1][1] not in STILL_OPEN:
            return None
        if not self._ended and getattr(self._owner, "_raw", self) is None:
            return None
        return self._made

    def __repr__(self) -> str:
        return (f"<cohort.{type(self).__name__}: rank {self.rank} of {self.size}, generation "
                f"{self.generation}{'' if self._handle else ', closed'}>")

    # ---- results ------------------------------------------------------------------

    @property
    def _live(self) -> int:
        if not self._handle:
            raise failure(Status.STATE, text="the communicator or its group was closed")
        return self._handle

    def _fail(self, status: int) -> Exception:
        return failure(status, _library.cause_of_comm, self._handle)

    def _check(self, status: int) -> int:
        return check(status, _library.cause_of_comm, self._handle)

    def _refused(self, status: int, refs: object) -> Exception:
        """Return the exception for a failed call; if it may still use refs, keep them alive."""
        if not self._handle:
            return failure(Status.STATE, text="the communicator or its group was closed")
        if status == Status.WEDGED:
            _library.kept.append(refs)
        return self._fail(status)

    def _trim(self) -> None:
        """Release the arrays of tickets that are done."""
        self._drop_answered()
        self._most = max(64, 2 * len(self._held))

    @inside
    def _drop_answered(self) -> None:
        handle = self._raw
        for cell in list(self._held):
            # The cell is 0 if this thread is about to make the call, or if a signal handler
            # prevented it.
            if lib.cohort_wait(handle, cell.value, 0) not in _IN_USE if cell.value \
                    else self._count_inside() == 1:
                self._held.pop(cell, None)
        if self._copies and lib.cohort_synchronize(handle, 0) not in _IN_USE:
            self._copies.clear()

    def _uses(self, what: object) -> bool:
        """Return whether a pending call, a reducer or a premul_sum() uses this object."""
        self._drop_answered()
        lasting = [owned.keep for owned in list(self._owned.values())
                   if owned.handle and owned.call is not lib.cohort_deregister]
        return any(refer(refs, what) for refs in
                   [*list(self._held.values()), *self._copies, *lasting])

    def _answered(self, cell: Number, status: int) -> None:
        """Release the arrays of a ticket that was waited for, unless they are in use."""
        if status not in _IN_USE:
            self._held.pop(cell, None)
        if status != Status.OK:
            raise self._fail(status)

    @inside
    def _is_done(self, cell: Number) -> bool:
        status = lib.cohort_wait(self._live, cell.value, 0)
        if status == Status.TIMED_OUT:
            return False
        self._answered(cell, status)
        return True

    def _count_inside(self) -> int:
        """Return the number of calls in progress on this communicator and its children."""
        return count_inside(self._inside) + sum(
            child._count_inside() for child in list(self._children))

    @inside
    def _wait(self, cell: Number, limit_ns: int) -> None:
        handle = self._live
        number = cell.value
        if get_ident() != _library._main:
            status = lib.cohort_wait(handle, number, limit_ns)
        else:
            status = _library.wait(partial(lib.cohort_wait, handle, number), limit_ns)
        self._answered(cell, status)

    # ---- arrays -------------------------------------------------------------------

    def _array(self, array: Array, what: str, writable: bool, stream: Optional[int]) -> Elements:
        """Return the Elements of an array for a device call on stream, or without a stream."""
        found = look(array, what, writable, -1 if stream is None else stream,
                     stream == self.stream)
        if isinstance(array, Memory):
            array._users.add(self)
        if self._on_host:
            if found.place not in (HOST, PINNED):
                raise BufferError(f"{what} is on a GPU, but the group is on the host platform")
        elif found.place == HOST:
            raise BufferError(f"{what} is in host memory; use the call with _host, or "
                              "copy it to memory of Comm.alloc()")
        elif found.place in (CUDA, MANAGED) and found.device not in (-1, self.device):
            raise BufferError(f"{what} is on device {found.device}, but the rank is on device "
                              f"{self.device}")
        if None not in (stream, found.stream) and found.stream != stream:
            if stream != self.stream:
                raise BufferError(f"{what} is computed on another stream; pass that stream")
            self._check(lib.cohort_after_stream(self._live, found.stream))
        return found

    @staticmethod
    def _want(found: Elements, what: str, kind: Type, count: int) -> None:
        if found.type != kind:
            raise TypeError(f"{what} has elements of {found.type.name}, not of {kind.name}")
        if found.count != count:
            raise ValueError(f"{what} has {found.count} elements, not {count}")

    # ---- memory of the device ---------------------------------------------------------

    def alloc(self, shape: Union[int, Sequence[int]], kind: Union[Type, str] = Type.F32, *,
              registered: bool = False) -> Memory:
        """Allocate memory on the rank's device (cohort_alloc(), cohort_alloc_registered()).

        shape is a number of elements or a sequence of extents; kind is their type."""
        extents = tuple(shape) if isinstance(shape, Iterable) \
            and not isinstance(shape, (str, bytes)) else (shape,)
        if self._dropped:
            self._give_back_dropped()
        return Memory(self, tuple(integer(extent, "shape", ctypes.c_size_t)
                                  for extent in extents), type_of(kind), registered)

    def _own(self, of: object, cell: Any, keep: object, call: Any, *before: Any) -> Owned:
        """Register a handle that the next C call will write to a cell."""
        owned = Owned(of, self._dropped, cell, keep, call, *before)
        self._owned[id(owned)] = owned
        return owned

    def _disown(self, owned: Owned) -> int:
        """Release a handle; return the status."""
        status = owned.give_back()
        if not owned.handle:
            if status == Status.WEDGED:
                _library.kept.append(owned.keep)
            owned.keep = None
            self._owned.pop(id(owned), None)
        return status

    def _give_back_dropped(self) -> None:
        """Release the handles of objects that were dropped, on any thread."""
        self._giving.append(_library._frame())
        try:
            if count_inside(self._giving) == 1:
                kept = 0
                while kept < len(self._dropped):  # releasing an object may drop another one
                    owned = self._dropped[kept]
                    if self._disown(owned) == Status.INVALID or not owned.handle:
                        self._dropped.pop(kept)
                    else:
                        kept += 1
        finally:
            self._giving.remove(_library._frame())

    def _retire(self) -> bool:
        """Release all that a communicator of an earlier generation no longer needs.

        Returns whether the communicator still owns memory."""
        left = [child._retire() for child in list(self._children)]
        self._drop_answered()
        for owned in list(self._owned.values()):
            if owned.call is lib.cohort_deregister:
                self._disown(owned)
        self._give_back_dropped()
        return any(left) or any(owned.call in (lib.cohort_free, lib.cohort_reducer_free)
                                for owned in list(self._owned.values()))

    @inside
    def copy(self, recv: Array, send: Array, *, stream: Stream = None) -> None:
        """Copy send to recv in stream order (cohort_copy()).

        Each array is in host memory or on the rank's device.  synchronize() waits for the
        copy."""
        queue = stream_of(stream, self.stream)
        target, source = look(recv, "recv", True, queue), look(send, "send", False, queue)
        self._want(target, "recv", source.type, source.count)
        if self._dropped:
            self._give_back_dropped()
        if len(self._copies) % 64 == 63:
            self._drop_answered()
        # The caller gets no ticket for a copy, so the arrays are kept here.
        pair = (target.keep, source.keep)
        self._copies.append(pair)
        status = lib.cohort_copy(self._live, target.address, source.address,
                                 source.count * lib.cohort_type_size(source.type), queue)
        if status not in (Status.OK, Status.WEDGED):
            self._copies[:] = [one for one in self._copies if one is not pair]
        self._check(status)

    def register(self, memory: Array) -> int:
        """Register memory with NCCL (cohort_register()); return a number for deregister().

        The array stays alive until deregister() or the close of the communicator."""
        found = self._array(memory, "memory", True, None)
        cell = ctypes.c_void_p()
        owned = self._own(self, cell, found.keep, lib.cohort_deregister, self._live)
        self._check(lib.cohort_register(
            self._live, found.address, found.count * lib.cohort_type_size(found.type),
            _byref(cell)))
        self._registered[owned.handle] = owned
        return owned.handle

    def deregister(self, registration: int) -> None:
        """Undo register() (cohort_deregister())."""
        number = integer(registration, "registration", ctypes.c_size_t)
        handle, owned = self._live, self._registered.get(number)
        self._check(self._disown(owned) if owned else lib.cohort_deregister(handle, number))
        self._registered.pop(number, None)

    # ---- waiting --------------------------------------------------------------------

    @inside
    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Wait for everything submitted so far (cohort_synchronize()).

        timeout is in seconds.  Any thread.  Raises the same exceptions as Ticket.wait()."""
        waiting = list(self._held)
        copies = len(self._copies)
        handle = self._live
        if self._dropped:
            self._give_back_dropped()
        status = _library.wait(partial(lib.cohort_synchronize, handle), nanoseconds(timeout))
        if status not in _IN_USE:
            for cell in waiting:
                if cell.value:
                    self._held.pop(cell, None)
            del self._copies[:copies]
        if status != Status.OK:
            raise self._fail(status)

    def after_stream(self, stream: Stream) -> None:
        """Make later work on the communicator's own stream wait for the work that is already
        queued on stream (cohort_after_stream()).  A submitting call; does not block."""
        self._check(lib.cohort_after_stream(self._live, stream_of(stream, self.stream)))

    # ---- cause, failure and close -----------------------------------------------------

    @property
    def cause(self) -> Optional[Cause]:
        """The cause that ended the group, or None (cohort_comm_cause())."""
        return _library.cause_of_comm(self._handle)

    def fail(self, code: int, text: Optional[str] = None) -> bool:
        """Report that this rank cannot continue, and end the group (cohort_comm_fail()).

        code is chosen by the program and must not be 0.  Returns False if the group had
        already ended.  Any thread; does not block."""
        return self._check(lib.cohort_comm_fail(
            self._live, integer(code, "code"), as_bytes(text))) == Status.OK

    def abort_handle(self) -> AbortHandle:
        """Return a handle that can end the group (cohort_comm_abort_handle()).  Any thread."""
        return AbortHandle(self)

    def bind(self) -> None:
        """Allow only the calling thread to use this communicator (cohort_comm_bind()).

        If the thread exits without unbind(), the group ends.  Workers of a run are bound."""
        if not self._bound:
            self._binder = get_ident()
        self._check(record(self._bindings, True, lib.cohort_comm_bind, self._live))

    def unbind(self) -> None:
        """Allow any thread to use this communicator again (cohort_comm_unbind())."""
        self._check(record(self._bindings, False, lib.cohort_comm_unbind, self._live))
        if self._ended:
            self._gone()

    def _unbind_here(self) -> None:
        """Unbind the communicator if it is bound to this thread."""
        if self._bound_here:
            record(self._bindings, False, lib.cohort_comm_unbind, self._made)

    def close(self) -> None:
        """Close the communicator: this rank leaves (cohort_comm_close()).

        First frees memory of alloc() that no call uses, and the reducers that use it, even
        if the close is then refused.  Then waits for its tickets, up to the close deadline.
        After TimedOut, Busy, Owner, StateError and Invalid the communicator is still open.
        After any other error it is closed; the error is the result of its tickets.

        Closing a communicator that is closed or of a reclaimed generation does nothing.
        Communicators from join() or split() end when their last rank closes.
        """
        handle = self._raw
        if not handle:
            return
        answer = self._close()
        if answer.status not in (Status.OK, Status.FORKED):
            # A closed communicator of an open group can still be queried.
            if not self._raw and (self._joined or isinstance(self._owner, Rank)):
                handle = None
            raise failure(answer.status, _library.cause_of_comm, handle, answer.text or None)

    def _close(self) -> _library.Answer:
        # The communicator's handle must not be used during its close, but an abort handle can be.
        mine = self._handle and self._forks == _library.forks
        try:
            handle = self.abort_handle() if mine else None
        except Stale:  # its generation was reclaimed, so there is nothing to close
            self._gone()
            return _library.Answer(Status.OK)

        def give_up(answer: _library.Answer) -> None:
            if handle:
                handle.fire("interrupted")
            answer.wait(_library.EXIT_S)
        # A communicator that is bound to this thread must be closed by this thread.
        return _library.aside(self._close_here, give_up, self._bound_here, must=True)

    @inside
    def _close_here(self) -> int:
        handle = self._raw
        if not handle:
            return Status.OK
        self._handle = None  # no new call can start
        if (self._forks == _library.forks and self._count_inside() > 1
                and (self._joined or isinstance(self._owner, Rank))):
            self._handle = handle
            raise failure(Status.STATE, text="a thread is inside a call")
        self._free_memory()
        status = record(self._closes, False, lib.cohort_comm_close, handle)
        if status in STILL_OPEN:
            self._handle = handle
        else:
            self._gone(status)
        return status

    def _free_memory(self) -> None:
        """Free unused memory and objects, which cohort_comm_close() does not free."""
        for child in list(self._children):
            child._free_memory()
        for call in (lib.cohort_reducer_free, lib.cohort_op_destroy, lib.cohort_deregister,
                     lib.cohort_free):
            for owned in list(self._owned.values()):
                if owned.call is call and self._is_spare(owned):
                    self._disown(owned)

    def _is_spare(self, owned: Owned) -> bool:
        """Return whether _free_memory() should release the object, because nothing uses it."""
        if owned.call is lib.cohort_reducer_free:  # the close frees reducers without Memory
            return any(isinstance(one, Memory) for one in owned.keep)
        if owned.call is lib.cohort_deregister:
            return not self._uses(owned.keep)
        memory = owned()
        return not isinstance(memory, Memory) or not memory._is_used()

    def _gone(self, status: int = Status.OK) -> None:
        """Forget the handle, and all objects that the communicator kept alive."""
        if status == Status.WEDGED:
            _library.kept.extend([*self._held.values(), *self._copies,
                                  *(owned.keep for owned in list(self._owned.values()))])
        self._handle = None
        self._made = 0
        self._held.clear()
        self._copies.clear()
        self._owned.clear()
        self._dropped.clear()
        self._registered.clear()
        _library.closed(self)
        for child in list(self._children):
            child._gone(status)
        if isinstance(self._owner, Rank):
            self._owner._children.discard(self)

    def _abort(self, reason: str) -> None:
        handle = self._raw
        if handle and self._forks == _library.forks:
            lib.cohort_comm_fail(handle, Status.WORKER, as_bytes(reason))

    def _end(self, patience_s: float) -> None:
        """Abort and close the communicator when the interpreter exits."""
        if self._raw and self._forks == _library.forks:
            self._abort("the interpreter exits")
            end = time.monotonic() + patience_s
            while self._count_inside():
                if time.monotonic() > end:
                    _library.kept.append(self)
                    return
                time.sleep(0.005)
            self._close_here()

    def __del__(self) -> None:
        if getattr(self, "_joined", False) and self._raw and self._forks == _library.forks:
            said = f"{self!r} was not closed"
            self._unbind_here()
            _library.abandon(self)
            warnings.warn(said, ResourceWarning, source=self)

    def __enter__(self: R) -> R:
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException],
                 trace: object) -> None:
        if kind is None:
            self.close()
        elif self._raw:
            lib.cohort_comm_fail(self._raw, status_of(error), as_bytes(describe(error)))
            with contextlib.suppress(CohortError):
                self._close()

    # ---- settings for later calls -------------------------------------------------------

    def tag(self, text: Optional[str]) -> None:
        """Label this rank's later calls; the label appears in verdicts (cohort_tag())."""
        self._check(lib.cohort_tag(self._live, as_bytes(text)))

    def deadlines(self, *, join: Optional[float] = None, exec: Optional[float] = None
                  ) -> ContextManager[None]:
        """Use other deadlines, in seconds, for the calls of a with block
        (cohort_deadline_push())."""
        raw = Deadlines(join=join, exec=exec)._raw()
        return Scope(self, (lib.cohort_deadline_push, self._live, _byref(raw)),
                     (lib.cohort_deadline_pop, self._live))

    def paused(self) -> ContextManager[None]:
        """Suspend the deadlines of collectives during a with block, in which this rank is
        busy for a good reason (cohort_pause(), cohort_resume())."""
        return Scope(self, (lib.cohort_pause, self._live),
                     (lib.cohort_resume, self._live))

    def native(self) -> ContextManager[int]:
        """Provide the ncclComm_t during a with block, for NCCL calls that Cohort lacks
        (cohort_comm_native_enter(), cohort_comm_native_leave())."""
        native = ctypes.c_void_p()
        return Scope(self, (lib.cohort_comm_native_enter, self._live, _byref(native)),
                     (lib.cohort_comm_native_leave, self._live), lambda: native.value or 0)

    # ---- facts ----------------------------------------------------------------------------

    @inside
    def group_rank(self, rank: int) -> int:
        """Return the rank's number in the group that this communicator was split from
        (cohort_comm_group_rank()); -1 if unknown.

        Any thread; does not block."""
        return int(lib.cohort_comm_group_rank(self._live, integer(rank, "rank")))

    @inside
    def snapshot(self) -> List[RankReport]:
        """Return the state of each rank of this process (cohort_comm_snapshot()).

        Any thread; does not block."""
        reports = (_abi.cohort_rank_report * self.size)()
        self._check(lib.cohort_comm_snapshot(self._live, reports, self.size,
                                             ctypes.sizeof(_abi.cohort_rank_report)))
        return [report_of(raw) for raw in reports if raw.rank >= 0]

    @inside
    def stats(self) -> Dict[str, Union[int, List[int]]]:
        """Return counters of the rank and its group (struct cohort_stats).  Any thread."""
        raw = _abi.cohort_stats(size=ctypes.sizeof(_abi.cohort_stats))
        self._check(lib.cohort_stats(self._live, _byref(raw)))
        return {name: value if isinstance(value, int) else list(value)
                for name, *_ in raw._fields_ if name not in ("size", "reserved")
                for value in [getattr(raw, name)]}
