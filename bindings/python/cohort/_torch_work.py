# SPDX-License-Identifier: Apache-2.0
"""Works, which calls of torch.distributed return, and sends and receives between ranks."""

import contextlib
import datetime
import queue
import re
import threading
import time
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ._abi import Status
from ._errors import CohortError, TimedOut
from ._library import lib

if not hasattr(distributed_c10d, "C10DBackend"):
    raise ImportError(f"PyTorch {torch.__version__} supports no backends in Python: use 2.15 "
                      "or newer")


def blame(rank: int) -> str:
    """Return the start of an abort's reason that names the rank to blame."""
    return f"rank {rank} is to blame; " if rank >= 0 else ""


def _translated(numbers: Iterable[int], ranks: Sequence[int]) -> FrozenSet[int]:
    return frozenset(ranks[one] for one in numbers if one < len(ranks))


class CohortBackendError(dist.DistBackendError):  # type: ignore[misc]
    """The reason why a call of torch.distributed failed.

    rank is the rank to blame, by its number in the process group, or -1 if no single rank
    is to blame.  global_rank is its number among all processes or threads.  joined has the
    ranks that had called, and missing has the ranks that had not.  verdict is the whole
    verdict, in several lines.
    """

    __module__ = "cohort.torch"  # the module from which programs import it

    def __init__(self, text: str, error: Optional[CohortError] = None,
                 global_ranks: Sequence[int] = (), ranks: Sequence[int] = (),
                 is_in_world: bool = False) -> None:
        super().__init__(text)
        self.reason = error
        self.status = error.status if error else Status.INVALID
        self.cause = error.cause if error else None
        numbers = [global_ranks[one] for one in ranks]  # global ranks, by number in the cause
        blamed = error.rank if error else -1
        self.global_rank = numbers[blamed] if 0 <= blamed < len(numbers) else -1
        if is_in_world and self.cause:
            self.global_rank = self.cause.world_rank
        named = re.search(r"aborted: rank (\d+) is to blame; ", text)
        if named and self.status == Status.ABORTED:
            self.global_rank = int(named[1])
        self.rank = (list(global_ranks).index(self.global_rank)
                     if self.global_rank in global_ranks else -1)
        self.joined = _translated(self.cause.joined if self.cause else (), ranks)
        self.missing = _translated(self.cause.missing if self.cause else (), ranks)
        self.verdict = error.details if error else text
        #: exceptions of all ranks, and the ranks whose threads did not return; only from run()
        self.exceptions: Dict[int, BaseException] = {}
        self.abandoned: List[int] = []


def seconds_of(timeout: Any) -> Optional[float]:
    """Return a PyTorch timeout in seconds, or None if it is None or not above 0."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) \
        else float(timeout)
    return seconds if seconds > 0 else None


class CohortWork(dist._Work):  # type: ignore[misc]
    """A call that may still be in flight.

    wait_one(seconds) waits for the call, and may be called repeatedly.  finish() runs once
    after the call, on the first thread that waits; it copies results to tensors that are not
    contiguous.  enqueue(), for GPU tensors, makes PyTorch's current stream wait for the call.

    PyTorch calls only wait() and get_future() of a work that is written in Python.  So
    is_completed() is always false.
    """

    def __init__(self, backend: Any, wait_one: Callable[[Optional[float]], None],
                 tensors: Sequence[Any], finish: Optional[Callable[[], None]] = None,
                 enqueue: Optional[Callable[[], None]] = None,
                 made_on: Any = None) -> None:
        super().__init__()
        self._backend = backend
        self._made_on = made_on  # a Link, or a Message that will have one
        self._wait_one = wait_one
        self.tensors = list(tensors)
        self._finish = finish
        self._enqueue = enqueue
        self._lock = threading.RLock()
        self._future: Any = None

    def settle(self, seconds: Optional[float] = None) -> List[Any]:
        """Wait for the call, or make the current stream wait for it; return its tensors."""
        try:
            if self._enqueue:
                self._enqueue()
            else:
                self._wait_one(seconds)
        except CohortError as error:
            link = getattr(self._made_on, "link", self._made_on)
            limit = getattr(self._made_on, "limit", None) if seconds is None else seconds
            raise self._backend.translate(error, link, limit) from None
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()
        return self.tensors

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the call; on a GPU, make the current stream wait for it."""
        self.settle(seconds_of(timeout))
        return True

    def get_future(self) -> Any:
        """Return a future that completes with the call, and that C++ can also use."""
        with self._lock:
            if self._future is None:
                self._future = self._device_future() if self._enqueue else self._host_future()
            return self._future

    def _host_future(self) -> Any:
        gate: Any = torch.futures.Future()
        # Raise errors in a callback, because C++ does not see those of set_exception().
        future = gate.then(lambda _: self.settle())
        self._backend.completer.put(self._wait_one, gate)
        return future

    def _device_future(self) -> Any:
        """Return a future that records an event on a stream that waits for the call."""
        device = self._backend.cuda_device
        future: Any = torch.futures.Future(devices=[device])
        with torch.cuda.stream(torch.cuda.Stream(device)):
            future.set_result(self.settle())
        return future


class Completer:
    """A thread that completes futures, in the order of their calls."""

    def __init__(self) -> None:
        self._jobs: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def put(self, wait_one: Callable[[Optional[float]], None], gate: Any) -> None:
        """Complete the future gate once the call is done or has failed."""
        if self._thread in (None, threading.current_thread()):
            # A callback that makes a call may wait for its future, which needs another thread.
            self._thread = threading.Thread(target=self._work, daemon=True,
                                            name="cohort-futures")
            self._thread.start()
        self._jobs.put((wait_one, gate))

    def _work(self) -> None:
        while self._thread is threading.current_thread():
            job = self._jobs.get()
            if job is None:
                return
            wait_one, gate = job
            with contextlib.suppress(BaseException):  # the gate's callback raises the error again
                wait_one(None)
            gate.set_result(None)
            job = wait_one = gate = None

    def stop(self) -> None:
        """End the thread once it has no more jobs."""
        if self._thread is not None:
            self._jobs.put(None)


class Message:
    """A send or a receive in a channel."""

    def __init__(self, channel: "Channel", tensor: Any, count: int, kind: int, limit: float
                 ) -> None:
        self.tensor = tensor
        self.count = count
        self.kind = kind
        self.limit = limit  #: its deadline, in seconds
        self.link: Any = None  #: the communicator, once it is queued
        self.ticket: Any = None
        self.error: Optional[BaseException] = None
        self._channel = channel

    def wait_one(self, seconds: Optional[float]) -> None:
        """Wait until the message is done."""
        end = None if seconds is None else time.monotonic() + seconds
        self._channel.wait(seconds)
        if self.error is not None:
            raise self.error
        if self.ticket is None:
            raise TimedOut(Status.TIMED_OUT, "the message is still in flight")
        self.ticket.wait(None if end is None else max(0.0, end - time.monotonic()))


class Channel:
    """The messages with one tag from one rank to another, in order.

    A channel has its own communicator of the two ranks, so that messages with other tags, or in
    the other direction, do not wait for it.  A thread opens it for the first message.  The
    program's threads make the calls, so that a verdict sees what they wait for, unless none of
    them waits when the communicator has been opened.
    """

    def __init__(self, open_pair: Callable[[], Any], sends: bool, name: str) -> None:
        self._open_pair = open_pair
        self._sends = sends
        self._lock = threading.Lock()
        self._queued: Optional[List[Message]] = []  # messages to send when the communicator is open
        self._waiting = 0  # number of threads that wait for the communicator
        self._opened = threading.Event()
        self._pair: Any = None
        self._failed: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._open, daemon=True, name=name)
        self._thread.start()

    def put(self, message: Message) -> None:
        """Make the call, now or once the communicator is open."""
        with self._lock:
            if self._queued is not None:
                self._queued.append(message)
            else:
                self._call(message)

    def wait(self, seconds: Optional[float]) -> None:
        """Wait until the communicator is open, and make the calls that are still queued."""
        with self._lock:
            if self._queued is None:
                return
            self._waiting += 1
        try:
            self._opened.wait(seconds)
        finally:
            with self._lock:
                self._waiting -= 1
                if self._opened.is_set():
                    self._call_queued()

    def _open(self) -> None:
        try:
            self._pair = self._open_pair()
        except BaseException as error:  # pylint: disable=broad-except # wait_one() raises it
            self._failed = error
        with self._lock:
            self._opened.set()
            if not self._waiting:
                self._call_queued()

    def _call_queued(self) -> None:
        queued, self._queued = self._queued, None
        for message in queued or ():
            self._call(message)

    def _call(self, message: Message) -> None:
        try:
            if self._failed is not None:
                raise self._failed
            comm = self._pair.comm
            message.link = self._pair
            with self._pair.deadlines(message.limit):
                message.ticket = comm._submit(
                    lib.cohort_send if self._sends else lib.cohort_recv, message.tensor,
                    message.tensor.data_ptr(), message.count, message.kind,
                    1 if self._sends else 0, comm.stream)
        except BaseException as error:  # pylint: disable=broad-except # wait_one() raises it
            message.error = error

    def stop(self, patience_s: float) -> None:
        """Close the communicator once all messages are done."""
        self._thread.join(patience_s)
        if self._pair is not None:
            self._pair.close()
