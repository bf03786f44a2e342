# SPDX-License-Identifier: Apache-2.0
"""Register the backend "cohort" with torch.distributed, and run ranks on threads."""

import atexit
import copy
import os
import sys
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from . import _torch_backend
from ._errors import thread_idents
from ._library import check_worker
from ._rank import describe
from ._torch_backend import CohortBackend, end_of
from ._torch_work import CohortBackendError


def register() -> None:
    """Register the backend with torch.distributed.

    PyTorch calls this function, by the entry point torch.distributed.backends, when a program
    first uses "cohort".  Importing cohort.torch also calls it."""
    if "COHORT" not in dist.Backend._plugins:
        dist.Backend.register_backend("cohort", _torch_backend.create, extended_api=True,
                                      devices=["cpu", "cuda"])


register()


@atexit.register
def _leave() -> None:
    """Leave the process groups that the program has not destroyed: without an error, or with the
    exception that ends the program."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    backends = list(_torch_backend.alive)
    reported = None if error is None else end_of(error, backends)
    for backend in backends:
        if error is not None:
            backend.fail(error, reported)
        else:
            backend.shutdown()
    # If the interpreter exits while a thread is in C++ code, the process is terminated.
    end = time.monotonic() + _LEAVE_S
    for thread in _left_behind:
        thread.join(max(0.0, end - time.monotonic()))


# ---- ranks on threads -------------------------------------------------------------

# Time that run() waits for the other ranks once one has failed.
_PATIENCE_S = 10.0
# Time that the exit of the program waits for threads that run() has abandoned.
_LEAVE_S = 5.0
# Longest wait of the main thread.  Between two waits Python checks for signals.
_SLICE_S = 0.05
# Variable with the number of calls that PyTorch's flight recorder keeps.
_RECORDER = "TORCH_FR_BUFFER_SIZE"
# Threads of ranks that run() has abandoned.
_left_behind: List[threading.Thread] = []
# Guards torch.distributed's state, which run() replaces.
_running = threading.Lock()


class _Worlds(threading.local):
    """The state of torch.distributed, separate for each thread."""

    pg_config_info = distributed_c10d._World.pg_config_info

    def __init__(self) -> None:
        super().__init__()
        self.default_pg: Any = None
        self.group_count = 0
        self.pg_map: Dict[Any, Any] = {}
        self.pg_names: Dict[Any, Any] = {}
        self.pg_group_ranks: Dict[Any, Any] = {}
        self.pg_backend_config: Dict[Any, Any] = {}
        self.tags_to_pg: Dict[Any, Any] = {}
        self.pg_to_tag: Dict[Any, Any] = {}
        self.pg_coalesce_state: Dict[Any, Any] = {}
        self.pg_flight_recorder_hooks: Dict[Any, Any] = {}
        self.comms: List[Any] = []


class _Run:
    """The threads of run(), and their results and exceptions."""

    def __init__(self, fn: Callable[..., Any], ranks: int, arguments: Tuple[Any, ...],
                 timeout: float) -> None:
        self._fn = fn
        self._ranks = ranks
        self._arguments = arguments
        self._timeout = timedelta(seconds=timeout)
        self._store = dist.HashStore()
        self.results: List[Any] = [None] * ranks
        self.errors: Dict[int, BaseException] = {}  # by rank, in the order of raising
        self._reports: List[int] = []  # ranks whose exceptions only report the end of a group
        self._end: Optional[CohortBackendError] = None  # the end that those exceptions report
        self.threads = [threading.Thread(target=self._work, args=(rank,), daemon=True,
                                         name=f"rank/{rank}") for rank in range(ranks)]

    def _work(self, rank: int) -> None:
        tid = threading.get_native_id()
        thread_idents[tid] = threading.get_ident()
        try:
            dist.init_process_group("cohort", store=self._store, rank=rank,
                                    world_size=self._ranks, timeout=self._timeout)
            self.results[rank] = self._fn(*self._arguments)
            if dist.is_initialized():
                dist.destroy_process_group()
        except BaseException as error:  # pylint: disable=broad-except # run() raises it
            self._failed(rank, error)
        finally:
            for backend in _backends_of(threading.get_ident()):
                backend.shutdown()
            thread_idents.pop(tid, None)

    def abort(self) -> None:
        """End the calls of all ranks."""
        for thread in self.threads:
            for backend in _backends_of(thread.ident):
                backend.abort()

    def join(self) -> List[int]:
        """Wait for all threads, but at most _PATIENCE_S after one has failed; return the ranks
        whose threads still run."""
        end = None
        left = list(range(self._ranks))
        while left and (end is None or time.monotonic() < end):
            self.threads[left[0]].join(_SLICE_S)
            left = [rank for rank in left if self.threads[rank].is_alive()]
            if self.errors and end is None:
                end = time.monotonic() + _PATIENCE_S
        return left

    def _failed(self, rank: int, error: BaseException) -> None:
        """Record a rank's exception, and whether it only reports the end of a group for which
        another rank is to blame."""
        backends = _backends_of(threading.get_ident())
        end = end_of(error, backends)
        if end is not None and (end.global_rank != rank or end is error):
            self._reports.append(rank)
            self._end = self._end or copy.copy(end)
        self.errors[rank] = error
        for backend in backends:
            backend.fail(error, end)

    def error(self, abandoned: List[int]) -> "CohortBackendError":
        """Return the exception that run() raises."""
        own = next((rank for rank in self.errors if rank not in self._reports), None)
        if own is None and self._end is not None:
            made, blamed = self._end, self._end.global_rank
        else:
            blamed = next(iter(self.errors)) if own is None else own
            made = CohortBackendError(f"rank {blamed} raised {describe(self.errors[blamed])}")
        made.rank = made.global_rank = blamed
        made.exceptions = dict(sorted(self.errors.items()))
        made.abandoned = abandoned
        made.__cause__ = self.errors.get(blamed, next(iter(self.errors.values())))
        return made


def _backends_of(thread: Optional[int]) -> List[CohortBackend]:
    return [one for one in list(_torch_backend.alive) if one.thread == thread]


def run(fn: Callable[..., Any], ranks: int, *arguments: Any, timeout: float = 1800.0
        ) -> List[Any]:
    """Call fn(*arguments) on one thread for each rank, and return the results by rank.

    In each thread torch.distributed is initialized with the backend "cohort" and ranks ranks,
    so that programs written for a process per rank run unchanged.  The process group is
    destroyed when fn returns.  timeout is the timeout of its calls, in seconds.

    If a call fails, or fn raises, the other ranks' calls raise CohortBackendError, and so
    does run().  In the exception of run(), rank is the rank to blame, exceptions has the
    exceptions of all ranks, and __cause__ is the exception of the rank to blame.  Ranks that
    do not return within ten seconds of the failure are abandoned: their daemon threads keep
    running, and the exception lists the ranks in abandoned.

    Threads share the interpreter lock, the default random generator (give each rank a
    torch.Generator), the number of threads of an operator (torch.set_num_threads()), and the
    environment, including RANK.
    """
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks is {ranks!r}, not a number of 1 or more")
    check_worker(fn, "fn")
    this = _Run(fn, ranks, arguments, timeout)
    with _running:
        before = distributed_c10d._world
        distributed_c10d._world = _Worlds()
        # Turn off PyTorch's recorder, which assumes one rank per process.
        recorder = os.environ.pop(_RECORDER, None)
        os.environ[_RECORDER] = "0"
        torch._C._distributed_c10d._set_thread_isolation_mode(True)
        # Save the hook, because init_process_group() replaces it in each thread.
        hook = sys.excepthook
        abandoned = list(range(ranks))
        try:
            for thread in this.threads:
                thread.start()
            abandoned = this.join()
        except BaseException:
            this.abort()
            raise
        finally:
            sys.excepthook = hook
            del os.environ[_RECORDER]
            if recorder is not None:
                os.environ[_RECORDER] = recorder
            _left_behind.extend(this.threads[rank] for rank in abandoned)
            if not abandoned:  # abandoned threads would still use this state
                torch._C._distributed_c10d._set_thread_isolation_mode(False)
                distributed_c10d._world = before
    if this.errors:  # ranks are abandoned only after an error
        raise this.error(abandoned)
    return this.results
