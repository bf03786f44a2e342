# SPDX-License-Identifier: Apache-2.0
"""Load the shared library, convert its results, and track state that is global to a process.

The package uses ctypes so that it installs without a compiler, one wheel works for every
Python version, and each call releases the interpreter lock.  This costs one to five
microseconds per collective (measured by bench/binding.py).
"""

import _thread
import atexit
import ctypes
import enum
import inspect
import math
import operator
import os
import sys
import threading
import time
import weakref
from functools import wraps
from types import FrameType
from typing import Any, Callable, List, Optional, Protocol, Tuple, Type as TypingType, TypeVar, cast

from . import _abi
from ._abi import FOREVER, Status
from ._errors import Cause, CohortError, Handle, cause_of, error_of, text_of

F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=enum.IntEnum)

# Longest uninterrupted wait of the main thread.  Between two waits Python checks for signals.
SLICE_NS = 50_000_000
# How long the exit of the interpreter waits for threads inside calls, in seconds.
EXIT_S = 2.0


def _load() -> ctypes.CDLL:
    """Load the library next to this file (as in a wheel), else from the loader's path."""
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
        raise ImportError(f"cohort needs {name} {_abi.VERSION} or newer: {error}; searched "
                          f"{beside} and the loader's path") from error
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
    """Return a C function that takes ctypes objects without conversion."""
    return ctypes.CFUNCTYPE(ctypes.c_int)((name, lib))


def integer(value: Any, what: str, kind: Any = ctypes.c_int, flag: bool = False) -> int:
    """Return value as an integer that fits the C type kind.

    ctypes would truncate the value silently.  A bool is accepted only with flag, which allows
    0 and 1."""
    if isinstance(value, bool) and not flag:
        raise TypeError(f"{what} is {value!r}, not an integer")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, not an integer") from None
    if kind(number).value != number or flag and number not in (0, 1):
        raise ValueError(f"{what} is {number}, which is out of range")
    return number


def check_worker(worker: Any, what: str) -> None:
    """Raise TypeError if worker is an async or generator function, whose call runs nothing."""
    for function in (worker, getattr(type(worker), "__call__", None)):
        if (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
                or inspect.isasyncgenfunction(function)):
            raise TypeError(f"{what} is {worker!r}, an async or generator function, which runs "
                            "nothing when it is called: pass a plain function")


def member(kind: TypingType[E], value: Any, what: str) -> E:
    """Return the member of an enumeration for a number or for the member itself.

    A member of another enumeration is rejected, because its number means something else."""
    if isinstance(value, enum.Enum) and not isinstance(value, kind):
        raise ValueError(f"{what} is {value!r}, a {type(value).__name__}")
    return kind(integer(value, what))


def real(value: Any, what: str) -> float:
    """Return value as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {value!r}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is {value}, which is out of range") from None


def nanoseconds(seconds: Optional[float], default: int = FOREVER, what: str = "timeout"
                ) -> int:
    """Convert seconds to nanoseconds; None becomes the default."""
    if seconds is None:
        return default
    try:
        # Check the type first, because float() would also accept a string.
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
    """Return the cause that ended a communicator's group, or None."""
    raw = _abi.cohort_cause()
    known = lib.cohort_comm_cause(comm, ctypes.byref(raw)) if comm else Status.INVALID
    return cause_of(raw) if known == Status.OK else None


def cause_of_group(group: Optional[int]) -> Optional[Cause]:
    """Return the cause that ended a group, or None."""
    raw = _abi.cohort_cause()
    known = lib.cohort_group_cause(group, ctypes.byref(raw)) if group else Status.INVALID
    return cause_of(raw) if known == Status.OK else None


def failure(status: int, ask: Optional[Callable[[Optional[int]], Optional[Cause]]] = None,
            handle: Optional[int] = None, text: Optional[str] = None) -> CohortError:
    """Return the exception for a status that the caller did not expect.

    Reads the error text before it makes any other call, which would overwrite the text.
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
    """Raise the exception of a negative status; return any other status."""
    if status < 0:
        raise failure(status, ask, handle)
    return status


# ---- signals ------------------------------------------------------------------
#
# Python runs signal handlers on the main thread, between two bytecode instructions.  To
# notice Ctrl-C, the main thread waits in slices.  Calls that block without a timeout are made
# by another thread, which also stores their results.
#
# A handler that raises can interrupt between any two instructions: between a C call and
# the statement that stores its result, or between a statement and the try block or finally
# clause after it.  Hence three rules:
#  - C writes each handle into a cell that its owner has recorded before the call.
#  - record() stores the status of each call that releases something.  The state of the object
#    is derived from that status.
#  - The frame of a thread's call records that the thread is inside.  A finished frame does not
#    count.

_main = threading.main_thread().ident


def on_main() -> bool:
    """Return whether this is the main thread, where Python runs signal handlers."""
    return threading.get_ident() == _main


def wait(call: Callable[[int], int], limit_ns: int) -> int:
    """Call call(timeout_ns) until it is done or limit_ns have passed; in slices on the main
    thread."""
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
    """Call a C function, append (begins, its status) to a list, and return the status.

    extend(), zip(), map() and iter() are implemented in C, so no signal handler can run
    between the call and the append."""
    answers.extend(zip((begins,), map(call, *zip(arguments)) if arguments
                       else iter(call, answers)))
    return answers[-1][1]


class Number(ctypes.c_uint64):
    """A cell that receives a ticket's number; usable as a key, compared by identity."""

    __hash__ = object.__hash__


_frame = sys._getframe


def inside(method: F) -> F:
    """Decorate a method that may block in C: a close is refused until the method returns.

    The method first records its frame and then reads the handle.  A close first removes the
    handle and then counts the frames.  The interpreter lock orders the two."""
    @wraps(method)
    def noted(self: Any, *arguments: Any, **more: Any) -> Any:
        if self._inside:  # a stale frame would keep its callers' objects alive
            count_inside(self._inside)
        self._inside.append(_frame())
        try:
            return method(self, *arguments, **more)
        finally:
            self._inside.remove(_frame())
    return cast(F, noted)


def count_inside(notes: List[Optional[FrameType]]) -> int:
    """Return how many of these frames are still running, and remove the others.

    A signal handler can leave a finished frame in the list.  frame.clear() raises for a frame
    that is running, but not for a finished one.  Reading another thread's frame would be
    unsafe, because it may finish at any time."""
    n = 0
    for frame in list(notes):
        try:
            if frame is None:  # entered by a thread on which no signal handler runs
                n += 1
                continue
            frame.clear()
            notes.remove(frame)
        except RuntimeError:
            n += 1
        except ValueError:  # another thread has removed it already
            pass
    return n


class Owned(weakref.ref):  # type: ignore[type-arg]
    """An object's handle in C, which must be released once.

    C writes the handle into the cell.  If the object is dropped, on any thread, this weak
    reference is appended to a list of the object's communicator, whose next call releases the
    handle.  If the garbage collector drops the object, the communicator must still be
    referenced: its group, or the parent that it was split from, refers to it."""

    __slots__ = ("cell", "keep", "call", "_before", "_answers")

    def __new__(cls, of: object, dropped: List["Owned"], *_: Any) -> "Owned":
        return super().__new__(cls, of, dropped.append)  # type: ignore[arg-type]

    def __init__(self, of: object, dropped: List["Owned"], cell: Any, keep: object,
                 call: Any, *before: Any) -> None:
        super().__init__(of, dropped.append)  # type: ignore[call-arg]
        self.cell = cell
        self.keep: Any = keep  #: objects that C may use until the release
        self.call = call
        self._before = before
        self._answers: List[Tuple[bool, int]] = []

    @property
    def handle(self) -> int:
        """The handle; 0 before C has written it and after its release."""
        if self._answers and self._answers[-1][1] in (Status.OK, Status.WEDGED, Status.STALE):
            return 0
        return self.cell.value or 0

    def give_back(self) -> int:
        """Release the handle unless it was already released; return the status."""
        handle = self.handle
        return record(self._answers, False, self.call, *self._before, handle) if handle \
            else int(Status.OK)


class Scope(Handle):
    """A context manager that makes one C call at the start of a block and one at the end.

    If the first call succeeded, the second call is made exactly once: by the with statement
    or, if a signal handler prevents that, when this object is dropped."""

    _answers: List[Tuple[bool, int]] = []

    def __init__(self, comm: Any, begin: Tuple[Any, ...], end: Tuple[Any, ...],
                 value: Optional[Callable[[], Any]] = None) -> None:
        self._of = comm  # a communicator or None
        self._begin = begin
        self._end = end
        self._value = value
        self._answers = []

    @property
    def open(self) -> bool:
        """Whether the first call was made and the second call was not."""
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
    """The result of a call on another thread."""

    def __init__(self, status: int = Status.SYSTEM) -> None:
        self.done = False
        # A signal handler may leave the condition of a threading.Event inconsistent.
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self.status = status
        self.text = ""
        self.error: Optional[BaseException] = None

    def take(self, call: Callable[[], int]) -> None:
        """Make the call, and store its result or its exception."""
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
        """Wait until the call has returned, but at most patience_s seconds.

        Waits in slices, because a signal just before a wait does not interrupt that wait."""
        end = time.monotonic() + patience_s
        while not self.done and time.monotonic() < end:
            self._lock.acquire(timeout=SLICE_NS / 1e9)


def aside(call: Callable[[], int], interrupted: Callable[[Answer], None],
          here: bool = False, must: bool = False) -> Answer:
    """Make a blocking call, on another thread if this is the main thread.

    The call must store its own results, because no signal handler runs on the other thread.
    If a handler raises on this thread, interrupted() is called, which may wait for the answer;
    then the exception is re-raised.  If here is true, this thread makes the call.  If must is
    true, the call is made even if the handler raises before the call has started."""
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
            except RuntimeError:  # the interpreter is exiting and starts no threads
                work()
            answer.wait()
        except BaseException:
            # If the other thread takes the lock first, it makes the call.
            if must:
                _thread.start_new_thread(work, ())
            if must or not begun.acquire(blocking=False):
                interrupted(answer)
            raise
    if answer.error:
        raise answer.error
    return answer


# ---- open objects, and exit of the process ----------------------------------------

class Closable(Protocol):
    """An object that must be closed before the interpreter exits."""

    def _abort(self, reason: str) -> None:
        """Abort the object if it belongs to this process; must not raise."""

    def _end(self, patience_s: float) -> None:
        """Abort and close the object; must not raise."""


# Statuses after which a close has closed nothing.
STILL_OPEN = (Status.TIMED_OUT, Status.OWNER, Status.BUSY, Status.STATE, Status.INVALID)
# Number of forks between the process that loaded the library and this one.
forks = 0

_open: "weakref.WeakSet[Closable]" = weakref.WeakSet()

# Objects that are never freed: arrays that an incomplete abort may still write to, and
# callbacks that a library thread may be running.
kept: List[Any] = []


def opened(what: Closable) -> None:
    """Register an object to be closed when the interpreter exits."""
    _open.add(what)


def closed(what: Closable) -> None:
    """Unregister an object that was closed."""
    _open.discard(what)


def abandon(what: Closable) -> None:
    """Close a dropped object on its own thread.

    The garbage collector may drop the object on the thread of a rank for which the object's
    devices wait, so a close on that thread could deadlock."""
    opened(what)  # its weak reference in _open may be gone
    try:
        _thread.start_new_thread(what._end, (0.0,))
    except RuntimeError:  # the interpreter is exiting and starts no threads
        what._end(0.0)


@atexit.register
def _at_exit() -> None:
    """Close open objects, so that no library thread calls into a finished interpreter."""
    there = list(_open)
    # Abort all first, because the close of one object may wait for another object's work.
    for what in there:
        what._abort("the interpreter exits")
    for what in there:
        what._end(EXIT_S)


def _after_fork() -> None:
    """Forget the parent's groups in the child of a fork."""
    global _main, forks  # pylint: disable=global-statement
    forks += 1
    _main = threading.main_thread().ident
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
