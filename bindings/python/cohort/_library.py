# SPDX-License-Identifier: Apache-2.0
"""The shared library: where it is, what a result means, and what holds for a process.

Why ctypes: the package then needs no compiler where it is installed, one wheel is for
every Python, and the interpreter lock is released around each call.  The price is one to
five microseconds a collective (bench/binding.py measures it).
"""

import _thread
import atexit
import ctypes
import math
import operator
import os
import sys
import threading
import time
import weakref
from functools import wraps
from types import FrameType
from typing import Any, Callable, List, Optional, Protocol, Tuple, TypeVar, cast

from . import _abi
from ._abi import FOREVER, Status
from ._errors import Cause, CohortError, Handle, cause_of, error_of, text_of

F = TypeVar("F", bound=Callable[..., Any])

# How long a wait of the main thread lasts until Python has looked for signals.
SLICE_NS = 50_000_000
# How long the end of the interpreter waits for what is in flight.
EXIT_S = 2.0


def _load() -> ctypes.CDLL:
    """The library beside this file, as in a wheel, else the one that the loader finds."""
    name = f"libcohort.so.{_abi.VERSION_MAJOR}"
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    path = beside if os.path.exists(beside) else name
    try:
        loaded = ctypes.CDLL(path)
        for function, (result, arguments) in _abi.FUNCTIONS.items():
            made = getattr(loaded, function)
            made.restype = result
            made.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise ImportError(f"cohort needs {name} {_abi.VERSION} or newer: {error}; it was "
                          f"looked for at {beside} and in the loader's path") from error
    version = loaded.cohort_version().decode()
    major, minor = (int(part) for part in version.split(".")[:2])
    if major != _abi.VERSION_MAJOR or minor < _abi.VERSION_MINOR:
        raise ImportError(f"cohort {_abi.VERSION} does not work with {path}, which is "
                          f"version {version}")
    for struct in ctypes.Structure.__subclasses__():
        if struct.__module__ != _abi.__name__:
            continue
        size = loaded.cohort_struct_size(struct.__name__.encode())
        if size != ctypes.sizeof(struct):
            raise ImportError(f"struct {struct.__name__} has {ctypes.sizeof(struct)} bytes "
                              f"in cohort {_abi.VERSION}, and {size} in {path}")
    return loaded


lib = _load()


def bare(name: str) -> Any:
    """A function that takes its arguments as ctypes objects, without converting them."""
    return ctypes.CFUNCTYPE(ctypes.c_int)((name, lib))


def integer(value: Any, what: str, kind: Any = ctypes.c_int, flag: bool = False) -> int:
    """A number that a type of C holds: ctypes would cut off what it does not.

    A truth value is a number only for a flag, which is 0 or 1."""
    if isinstance(value, bool) and not flag:
        raise TypeError(f"{what} is {value!r}, not an integer")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, not an integer") from None
    if kind(number).value != number or flag and number not in (0, 1):
        raise ValueError(f"{what} is {number}, which is out of range")
    return number


def real(value: Any, what: str) -> float:
    """A number that a double holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {value!r}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is {value}, which is out of range") from None


def nanoseconds(seconds: Optional[float], default: int = FOREVER, what: str = "timeout"
                ) -> int:
    """A time in seconds as the library wants it; None is the default."""
    if seconds is None:
        return default
    try:
        # float() also takes text.
        if isinstance(seconds, bool) or not (
                hasattr(seconds, "__float__") or hasattr(seconds, "__index__")):
            raise TypeError
        number = float(seconds)
    except OverflowError:
        number = math.inf if seconds > 0 else -math.inf
    except TypeError:
        raise TypeError(f"{what} is {seconds!r}, not a number of seconds") from None
    if not number >= 0:
        raise ValueError(f"{what} is {seconds!r} seconds: it must be 0 or more")
    return FOREVER if math.isinf(number * 1e9) else min(int(number * 1e9), FOREVER - 1)


def cause_of_comm(comm: Optional[int]) -> Optional[Cause]:
    """What has ended a communicator's group."""
    raw = _abi.cohort_cause()
    known = lib.cohort_comm_cause(comm, ctypes.byref(raw)) if comm else Status.INVALID
    return cause_of(raw) if known == Status.OK else None


def cause_of_group(group: Optional[int]) -> Optional[Cause]:
    """What has ended a group."""
    raw = _abi.cohort_cause()
    known = lib.cohort_group_cause(group, ctypes.byref(raw)) if group else Status.INVALID
    return cause_of(raw) if known == Status.OK else None


def failure(status: int, ask: Optional[Callable[[Optional[int]], Optional[Cause]]] = None,
            handle: Optional[int] = None, text: Optional[str] = None) -> CohortError:
    """The exception of a result that is none the caller wants.

    The text is asked for first: it is that of the thread's last call.
    """
    if text is None:
        text = text_of(lib.cohort_last_error() if status < 0
                       else lib.cohort_status_text(status))
    cause = ask(handle) if ask and status < 0 else None
    if cause and status not in (cause.status, Status.STALE, Status.WEDGED):
        cause = None
    return error_of(status, text, cause)


def check(status: int, ask: Optional[Callable[[Optional[int]], Optional[Cause]]] = None,
          handle: Optional[int] = None) -> int:
    """Raise a negative result; return any other."""
    if status < 0:
        raise failure(status, ask, handle)
    return status


# ---- signals ------------------------------------------------------------------
#
# Python runs its signal handlers on the main thread, between two instructions of its own.
# So that Ctrl-C is heard, the main thread waits in slices, and has another thread make
# calls that block without a timeout, and store what they have changed.
#
# A handler that raises can separate any two instructions: a call of C from the statement
# that stores its result, a statement from the try block or the finally clause that follows.
# Hence three rules:
#  - C writes each handle that it gives into a cell that the owner has noted before the call.
#  - record() stores the answer of each call that takes something back, and the state of the
#    object is derived from that answer.
#  - A thread that is inside a call is noted by its frame: a frame that has ended is stale.

_main = threading.main_thread().ident


def on_main() -> bool:
    """Whether this is the thread that Python's signal handlers run on."""
    return threading.get_ident() == _main


def wait(call: Callable[[int], int], limit_ns: int) -> int:
    """A call that waits up to its argument and may be made again when that has passed."""
    if threading.get_ident() != _main or limit_ns <= SLICE_NS:
        return call(limit_ns)
    end = None if limit_ns == FOREVER else time.monotonic_ns() + limit_ns
    while True:
        left = SLICE_NS if end is None else max(0, end - time.monotonic_ns())
        status = call(min(left, SLICE_NS))
        if status != Status.TIMED_OUT or left == 0:
            return status


def record(answers: List[Tuple[bool, int]], begins: bool, call: Callable[..., Any],
           *arguments: Any) -> int:
    """Make a call of C and append (begins, its answer) to a list.

    extend(), zip(), map() and iter() are C: no signal handler runs between the call's
    return and the append."""
    answers.extend(zip((begins,), map(call, *zip(arguments)) if arguments
                       else iter(call, answers)))
    return answers[-1][1]


class Number(ctypes.c_uint64):
    """A cell for the number of a ticket, and a key, by identity."""

    __hash__ = object.__hash__


_frame = sys._getframe


def inside(method: F) -> F:
    """Decorate a method whose thread may be in a call of C for long: nothing is closed
    until it returns.

    The method notes its frame and then reads the handle; a close takes the handle away and
    then counts the notes.  The interpreter lock orders the two."""
    @wraps(method)
    def noted(self: Any, *arguments: Any, **more: Any) -> Any:
        if self._inside:  # a stale note would keep what its callers have
            count_inside(self._inside)
        self._inside.append(_frame())
        try:
            return method(self, *arguments, **more)
        finally:
            self._inside.remove(_frame())
    return cast(F, noted)


def count_inside(notes: List[Optional[FrameType]]) -> int:
    """The number of these frames that threads are in.

    A signal handler may have kept a frame that has ended from being removed: clear() raises
    for all others.  Another thread's frame must not be read, as it may end in the middle."""
    n = 0
    for frame in list(notes):
        try:
            if frame is None:  # of a thread that no signal handler runs on
                n += 1
                continue
            frame.clear()
            notes.remove(frame)
        except RuntimeError:
            n += 1
        except ValueError:  # another thread has removed it
            pass
    return n


class Owned(weakref.ref):  # type: ignore[type-arg]
    """A handle that C has given to an object, and takes back once.

    C writes its handle into the cell.  When the object is dropped, in whatever thread, the
    weak reference is appended to a list of the communicator's, which gives it back with
    its next call.  The garbage collector does that only if something else refers to the
    communicator: its group does, or the parent that it was split from."""

    __slots__ = ("cell", "keep", "call", "_before", "_answers")

    def __new__(cls, of: object, dropped: List["Owned"], *_: Any) -> "Owned":
        return super().__new__(cls, of, dropped.append)  # type: ignore[arg-type]

    def __init__(self, of: object, dropped: List["Owned"], cell: Any, keep: object,
                 call: Any, *before: Any) -> None:
        super().__init__(of, dropped.append)  # type: ignore[call-arg]
        self.cell = cell
        self.keep: Any = keep  #: what C may use until then
        self.call = call
        self._before = before
        self._answers: List[Tuple[bool, int]] = []

    @property
    def handle(self) -> int:
        """The handle; 0 before C has given it, and after C has taken it back."""
        if self._answers and self._answers[-1][1] in (Status.OK, Status.WEDGED, Status.STALE):
            return 0
        return self.cell.value or 0

    def give_back(self) -> int:
        """Give it back, unless that was done."""
        handle = self.handle
        return record(self._answers, False, self.call, *self._before, handle) if handle \
            else int(Status.OK)


class Scope(Handle):
    """A state between two calls of C, as a context manager.

    The second call is made once if the first has succeeded, at the latest when this object
    is dropped: a signal handler may keep a with statement from making it."""

    _answers: List[Tuple[bool, int]] = []

    def __init__(self, comm: Any, begin: Tuple[Any, ...], end: Tuple[Any, ...],
                 value: Optional[Callable[[], Any]] = None) -> None:
        self._of = comm  # a communicator, or None
        self._begin = begin
        self._end = end
        self._value = value
        self._answers = []

    @property
    def open(self) -> bool:
        """Whether it is between the two calls."""
        return self._answers[-1:] in ([(True, Status.OK)], [(False, Status.BUSY)])

    def __enter__(self) -> Any:
        if self._answers:
            raise failure(Status.STATE, text="this context was entered before")
        assert self._of is None or self._of._live
        try:
            status = record(self._answers, True, *self._begin)
            if status < 0:
                raise self._of._fail(status) if self._of else failure(status)
            return self._begun()
        except BaseException:
            self._leave()
            raise

    def _begun(self) -> Any:
        return self._value() if self._value else None

    def _leave(self) -> None:
        if self.open and (self._of is None or self._of._handle):
            record(self._answers, False, *self._end)

    def __exit__(self, *_: object) -> Optional[bool]:
        self._leave()
        return None

    def __del__(self) -> None:
        self._leave()


class Answer:
    """What a call on another thread has come to."""

    def __init__(self, status: int = Status.SYSTEM) -> None:
        self.done = False
        # Not an Event: a signal handler may leave its condition inconsistent.
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self.status = status
        self.text = ""
        self.error: Optional[BaseException] = None

    def take(self, call: Callable[[], int]) -> None:
        """Make the call, and keep what it returns or raises."""
        try:
            self.status = call()
            if self.status < 0:
                self.text = text_of(lib.cohort_last_error())
        except BaseException as error:  # pylint: disable=broad-except # aside() raises it
            self.error = error
        finally:
            self.done = True
            self._lock.release()

    def wait(self, patience_s: float = math.inf) -> None:
        """Wait for it.  A signal that comes just before a wait begins does not end that
        wait, so it is one of several."""
        end = time.monotonic() + patience_s
        while not self.done and time.monotonic() < end:
            self._lock.acquire(timeout=SLICE_NS / 1e9)


def aside(call: Callable[[], int], interrupted: Callable[[Answer], None],
          here: bool = False, must: bool = False) -> Answer:
    """Make a call that blocks, on another thread if this is the main one.

    No signal handler runs on that thread, so the call also stores what it has changed.
    If a handler raises on this thread, interrupted() is called, which may wait for the
    answer, and the exception is passed on.  With here, this thread makes the call.  With
    must, the call is made even if the handler raises before it has begun."""
    answer = Answer()
    begun = threading.Lock()

    def work() -> None:
        if begun.acquire(blocking=False):
            answer.take(call)

    if here or not on_main():
        work()
    else:
        try:
            try:
                _thread.start_new_thread(work, ())
            except RuntimeError:  # the interpreter ends, and starts no threads any more
                work()
            answer.wait()
        except BaseException:
            # Whoever takes the lock first decides whether the call is made.
            if must:
                _thread.start_new_thread(work, ())
            if must or not begun.acquire(blocking=False):
                interrupted(answer)
            raise
    if answer.error:
        raise answer.error
    return answer


# ---- what is open, and the end of the process -------------------------------------

class Closable(Protocol):
    """What is open until it is closed."""

    def _abort(self, reason: str) -> None:
        """Abort it, if it is this process's; raise nothing."""

    def _end(self, patience_s: float) -> None:
        """Abort it and close it; raise nothing."""


# Answers after which a close has closed nothing.
STILL_OPEN = (Status.TIMED_OUT, Status.OWNER, Status.BUSY, Status.STATE, Status.INVALID)
# How often this process was forked from another that had the library.
forks = 0

_open: "weakref.WeakSet[Closable]" = weakref.WeakSet()

# Arrays that an abort which did not complete may still write to, and callbacks that a
# thread of the library may be in: never freed.
kept: List[Any] = []


def opened(what: Closable) -> None:
    """Have the end of the interpreter close it."""
    _open.add(what)


def closed(what: Closable) -> None:
    """It is closed."""
    _open.discard(what)


def abandon(what: Closable) -> None:
    """End what was dropped, on a thread of its own: the garbage collector drops things on
    any thread, maybe on a rank's for which the devices of this one wait."""
    opened(what)  # its weak references may be gone
    try:
        _thread.start_new_thread(what._end, (0.0,))
    except RuntimeError:  # the interpreter ends, and starts no threads any more
        what._end(0.0)


@atexit.register
def _at_exit() -> None:
    """End what is open, so that no thread of the library calls a Python that is gone."""
    there = list(_open)
    # The end of one may wait for work that another has on its devices.
    for what in there:
        what._abort("the interpreter ends")
    for what in there:
        what._end(EXIT_S)


def _after_fork() -> None:
    """The child has none of the parent's groups."""
    global _main, forks  # pylint: disable=global-statement
    forks += 1
    _main = threading.main_thread().ident
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
