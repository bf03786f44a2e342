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
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Protocol, TypeVar

from . import _abi
from ._abi import FOREVER, Status
from ._errors import Cause, cause_of, error_of, text_of

T = TypeVar("T")

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


def integer(value: Any, what: str, kind: Any = ctypes.c_int) -> int:
    """A number that a type of C holds: ctypes would cut off what it does not."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, not an integer") from None
    if kind(number).value != number:
        raise ValueError(f"{what} is {number}, which is out of range")
    return number


def nanoseconds(seconds: Optional[float], default: int = FOREVER, what: str = "timeout"
                ) -> int:
    """A time in seconds as the library wants it; None is the default."""
    if seconds is None:
        return default
    try:
        valid = seconds >= 0
    except TypeError:
        raise TypeError(f"{what} is {seconds!r}, not a number of seconds") from None
    if not valid:
        raise ValueError(f"{what} is {seconds!r} seconds: it must be 0 or more")
    return FOREVER if math.isinf(seconds * 1e9) else min(int(seconds * 1e9), FOREVER - 1)


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
            handle: Optional[int] = None, text: Optional[str] = None) -> Exception:
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
# calls that block without a timeout.

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


class Answer:
    """What a call on another thread has come to."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.status: int = Status.SYSTEM
        self.text = ""
        self.error: Optional[BaseException] = None

    def wait(self) -> None:
        """Wait for it.  A signal that comes just before a wait begins does not end that
        wait, so it is one of several."""
        while not self.done.wait(SLICE_NS / 1e9):
            pass


def thread_inside() -> Answer:
    """The answer of a close that is refused because a thread is inside a call."""
    answer = Answer()
    answer.status, answer.text = Status.STATE, "a thread is inside a call"
    return answer


def aside(call: Callable[[], Any], interrupted: Callable[[Answer], None]) -> Answer:
    """Make a call that blocks, on another thread if this is the main one.

    If a signal handler raises meanwhile, interrupted() is called, which may wait for the
    answer, and the exception goes on.
    """
    answer = Answer()
    begun = threading.Lock()

    def work() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            answer.status = call()
            if answer.status < 0:
                answer.text = text_of(lib.cohort_last_error())
        except BaseException as error:  # pylint: disable=broad-except # raised below
            answer.error = error
        finally:
            answer.done.set()

    if not on_main():
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
            if not begun.acquire(blocking=False):
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


# How often this process was forked from another that had the library.
forks = 0

_open: Dict[int, "weakref.ref[Closable]"] = {}

# Arrays that an abort which did not complete may still write to, and callbacks that a
# thread of the library may be in: never freed.
kept: List[Any] = []


def opened(what: Closable) -> None:
    """Have the end of the interpreter close it."""
    _open[id(what)] = weakref.ref(what)


def closed(what: Closable) -> None:
    """It is closed."""
    _open.pop(id(what), None)


@atexit.register
def _at_exit() -> None:
    """End what is open, so that no thread of the library calls a Python that is gone."""
    there = [what for what in (reference() for reference in list(_open.values()))
             if what is not None]
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
