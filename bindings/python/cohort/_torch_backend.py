# SPDX-License-Identifier: Apache-2.0
"""The backend "cohort" of torch.distributed: one rank's member of a process group.

Ranks are processes of a machine (torchrun), or threads of one process (cohort.torch.run()).
CPU tensors use the host platform, and GPU tensors use NCCL.
"""

import contextlib
import ctypes
import itertools
import os
import re
import socket
import threading
import time
import weakref
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import C10DBackend, ReduceOp

from ._abi import Op, Platform, Status, Type, VerdictKind, cohort_tensor
from ._errors import Cause, CohortError, InitTimeout, error_of
from ._group import Group, join, unique_id
from ._library import check, lib
from ._options import Options, Table, raw_options
from ._rank import Deadlines, Ticket, as_bytes, describe
from ._torch_work import (Channel, CohortBackendError, CohortWork, Completer, Message, blame,
                          seconds_of)

# Time that a close waits for calls in flight.
_CLOSE_S = 5.0
# PyTorch's default timeout for backends other than NCCL.
_TIMEOUT_S = 1800.0
# Number of simulated devices unless COHORT_HOST_DEVICES is set.
_HOST_DEVICES = 8

_TYPES = {
    torch.int8: Type.I8, torch.uint8: Type.U8, torch.int32: Type.I32, torch.uint32: Type.U32,
    torch.int64: Type.I64, torch.uint64: Type.U64, torch.float16: Type.F16,
    torch.float32: Type.F32, torch.float64: Type.F64, torch.bfloat16: Type.BF16,
    torch.float8_e4m3fn: Type.F8E4M3, torch.float8_e5m2: Type.F8E5M2}
# Types that NCCL moves but does not reduce.
_MOVED_TYPES = {
    torch.bool: Type.BOOL, torch.int16: Type.I16, torch.uint16: Type.U16,
    torch.complex64: Type.C64, torch.complex128: Type.C128}
_OPS = {ReduceOp.SUM: Op.SUM, ReduceOp.PRODUCT: Op.PROD, ReduceOp.MAX: Op.MAX,
        ReduceOp.MIN: Op.MIN, ReduceOp.AVG: Op.AVG}
# Verdicts that are reached without a deadline.
_DEPARTURES = (VerdictKind.LEFT, VerdictKind.THREAD_EXITED, VerdictKind.PROCESS_EXITED)
# Reductions of bools, which are bytes of 0 or 1.
_BOOL_OPS = {ReduceOp.SUM: Op.MAX, ReduceOp.PRODUCT: Op.MIN, ReduceOp.MAX: Op.MAX,
             ReduceOp.MIN: Op.MIN, ReduceOp.BOR: Op.MAX, ReduceOp.BAND: Op.MIN}
# Functions for reductions that NCCL lacks: every rank gathers all inputs and combines them.
_LOCAL_OPS = {
    ReduceOp.SUM: torch.add, ReduceOp.PRODUCT: torch.mul, ReduceOp.MAX: torch.maximum,
    ReduceOp.MIN: torch.minimum, ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}

#: Open backends, kept alive here because PyTorch may keep only their C++ half.
alive: "Set[CohortBackend]" = set()


class Link:
    """A communicator of this rank, and the function that closes it."""

    def __init__(self, comm: Any, close: Callable[[], None], limit: float,
                 ranks: Sequence[int], is_in_world: bool) -> None:
        self.comm = comm
        self.limit = limit  #: the deadline of its calls, in seconds
        self.ranks = ranks  #: its ranks by their numbers in the process group
        #: whether verdicts give ranks their numbers in the default process group
        self.is_in_world = is_in_world
        self._close = close

    def deadlines(self, limit: float) -> ContextManager[Any]:
        """Set the deadline of calls within a with block, in seconds."""
        if limit == self.limit:
            return contextlib.nullcontext()
        pushed: ContextManager[Any] = self.comm.deadlines(join=limit, exec=limit)
        return pushed

    def close(self) -> None:
        """Close the communicator.  Ignore errors, because the calls have reported them."""
        with contextlib.suppress(CohortError):
            self._close()


class Pool:
    """Memory of the library on one simulated device, for tensors.

    A tensor may outlive its process group.  So the memory comes from a group of its own, which
    makes no calls and is never closed."""

    def __init__(self, device: int) -> None:
        self._lock = threading.Lock()
        self._dropped: List[int] = []  # addresses of memory to free
        self._group = ctypes.c_void_p()
        raw, _ = raw_options(Options(name="tensors", platform=Platform.HOST))
        check(lib.cohort_group_open((ctypes.c_int * 1)(device), 1, ctypes.byref(raw),
                                    ctypes.byref(self._group)))

    def empty(self, count: int, dtype: Any) -> Any:
        """Return a tensor, which frees its memory when its storage is dropped."""
        size = count * dtype.itemsize
        if not size:
            return torch.empty(0, dtype=dtype)
        memory = ctypes.c_void_p()
        with self._lock:
            self._free_dropped()
            check(lib.cohort_group_alloc(self._group, size, ctypes.byref(memory)))
        buffer = (ctypes.c_ubyte * size).from_address(memory.value or 0)
        weakref.finalize(buffer, self._drop, memory.value or 0).atexit = False
        return torch.frombuffer(buffer, dtype=torch.uint8).view(dtype)

    def _drop(self, address: int) -> None:
        self._dropped.append(address)
        # Do not wait, because the garbage collector may run this in empty().
        if self._lock.acquire(blocking=False):
            self._free_dropped()
            self._lock.release()

    def _free_dropped(self) -> None:
        while self._dropped:
            lib.cohort_group_free(self._group, ctypes.byref(
                ctypes.c_void_p(self._dropped.pop())))


_pools: Dict[int, Pool] = {}


class CohortBackend(C10DBackend):  # type: ignore[misc]
    """One rank's member of a process group."""

    # Without these properties, PyTorch's C++ wrapper would call itself forever.
    supports_splitting = supports_coalescing = property(lambda self: False)
    supports_shrinking = property(lambda self: True)
    supports_reconfigure = supports_window = _supports_time_estimate = supports_splitting
    supports_abort_hooks = supports_splitting

    def __init__(self, store: Any, rank: int, size: int, timeout: Any,
                 global_ranks: Sequence[int], name: str,
                 shrunk: "Optional[CohortBackend]" = None) -> None:
        super().__init__(rank, size)
        # Use new keys for each process group, because torchrun's store keeps old keys.
        time_opened = store.add(f"opened/{rank}", 1)
        self._store = dist.PrefixStore(f"{time_opened}/", store)
        self._n = size
        self.name = name
        self._label = f"pg {name}"
        self._timeout = seconds_of(timeout) or _TIMEOUT_S
        self._options = C10DBackend.Options("cohort", timeout=timeout)
        self._global_ranks = list(global_ranks) or list(range(size))
        self._lock = threading.RLock()
        self._links: Dict[str, Link] = {}  # open links, by type of device
        self._channels: Dict[Tuple[str, int, bool, int], Channel] = {}
        self.completer = Completer()
        self._coalesced: Optional[List[CohortWork]] = None
        self._calls = 0
        self._closed = False
        self.cuda_device: Any = None
        self.thread = threading.get_ident()  #: thread that opened the backend
        self.is_world: bool = shrunk.is_world if shrunk \
            else distributed_c10d._world.default_pg is None
        #: the default process group, if it is another one of this backend
        self._world = next((one for one in alive if one.is_world and not self.is_world
                            and (one.thread == self.thread or not one._threads)), None)
        self._threads: bool  # whether the other ranks are threads of this process
        self._hosts: Set[str]
        if self._world:
            self._threads, self._hosts = self._world._threads, self._world._hosts
        else:
            self._find_peers()
        alive.add(self)
        if not torch.cuda.is_available():
            # Open now, so that a rank that hangs before its first call is reported by name.
            try:
                self._link("cpu")
            except CohortError as error:
                alive.discard(self)
                raise self.translate(error, None, self._timeout) from None

    def _find_peers(self) -> None:
        """Find out where the other ranks are."""
        me = f"{socket.gethostname()}:{os.getpid()}"
        self._store.set(f"here/{self.rank()}", me)
        try:
            who = [self._store.get(f"here/{rank}").decode() for rank in range(self._n)]
        except RuntimeError as error:  # the error of any kind of store
            raise self.translate(self._absent(
                InitTimeout(Status.INIT_TIMEOUT, str(error)), range(self._n), self._store,
                self._timeout, "opened the process group")) from None
        self._hosts = {one.rsplit(":", 1)[0] for one in who}
        self._threads = self._n > 1 and set(who) == {me}
        if not self._threads and len(set(who)) != self._n:
            raise CohortBackendError("the ranks of a process group must be either all threads of "
                                     "one process, or one rank per process")

    def _absent(self, error: CohortError, ranks: Sequence[int], store: Any, limit: float,
                what: str) -> CohortError:
        """Add to a connection's error the ranks that have not stored that they are here."""
        missing: List[int] = []
        with contextlib.suppress(RuntimeError):  # the store may have ended with its process
            missing = [one for one in ranks if not store.check([f"here/{one}"])]
        if not missing:
            return error
        # A missing rank of a subgroup may be waiting for a rank outside of it, unless it has left.
        is_whole = len(ranks) == len((self._world or self)._global_ranks)
        told = re.match(r"[^;]*?\brank (\d+)\b[^;]* has (left|closed the)\b", error.text)
        # The text has the numbers of the world, if this is a part of one.
        left = [one for one in missing if told
                and (self._global_ranks[one] if self._world else one) == int(told.group(1))]
        kind = VerdictKind.LEFT if left else VerdictKind.NONE
        blamed = left[0] if left else missing[0] if len(missing) == 1 and is_whole else -1
        names = ", ".join(str(self._global_ranks[one]) for one in missing)
        text = (f"rank{'s' if len(missing) > 1 else ''} {names} "
                f"{'have' if len(missing) > 1 else 'has'} not {what}: {error.text}")
        return error_of(error.status, text, Cause(
            error.status, kind, blamed, 0, 0, 0, 0, 0, time.monotonic_ns(), 0, int(limit * 1e9),
            frozenset(ranks) - frozenset(missing), frozenset(missing), text,
            self._global_ranks[blamed] if blamed >= 0 else -1, text))

    # ---- life -----------------------------------------------------------------------------

    def translate(self, error: CohortError, link: Optional[Link] = None,
                  limit: Optional[float] = None) -> CohortBackendError:
        """Return the error of a call on a communicator as the exception that PyTorch programs
        expect.  limit is the time that the call has waited for at most, in seconds."""
        late = error.status in (Status.STALLED, Status.TIMED_OUT, Status.INIT_TIMEOUT) \
            and error.verdict not in _DEPARTURES
        if error.cause:
            limit = error.cause.deadline_ns / 1e9
        return CohortBackendError(
            f"[{self._label} rank {self.rank()}] {type(error).__name__}"
            f"{f', timeout of {limit:g} s' if late and limit else ''}: {error}", error,
            self._global_ranks, link.ranks if link else range(self._n),
            not link or link.is_in_world)

    def _open(self, place: str, ranks: Sequence[int], devices: Sequence[int],
              platform: Platform, what: str = "opened the process group") -> Link:
        """Open a communicator with some ranks of this group, all of which must make this call.

        place names the communicator in PyTorch's store, and what says what a missing rank has not
        done."""
        store = dist.PrefixStore(f"{place}/", self._store)
        store.set(f"here/{self.rank()}", "")
        name = self._label if place in ("cpu", "cuda") else f"{self._label} {place}"[:60]
        parent = self._world or self
        whole = parent._links.get(place.split()[0])
        limit = whole.limit if whole else self._timeout
        try:
            if whole:
                # Verdicts then know what the ranks do elsewhere in the world.
                members = [self._global_ranks[one] for one in ranks] if self._world else ranks
                comm = whole.comm.subset(members, self._agree_on_id(store, platform), name)
                return Link(comm, comm.close, limit, ranks, parent.is_world)
            comm, close = self._connect(name, ranks, devices, platform, store)
            return Link(comm, close, limit, ranks, self.is_world)
        except InitTimeout as error:
            raise self._absent(error, ranks, store, limit, what) from None

    def _connect(self, name: str, ranks: Sequence[int], devices: Sequence[int],
                 platform: Platform, store: Any) -> Tuple[Any, Callable[[], None]]:
        """Return a communicator that is no part of another one, and the function that closes it."""
        limit = self._timeout
        rank, size = ranks.index(self.rank()), len(ranks)
        options = Options(
            name=name, platform=platform,
            deadlines=Deadlines(init=limit, join=limit, exec=limit, close=_CLOSE_S))
        if self._threads:
            comm = join(self._agree_on_id(store, platform), size, rank, devices[rank], options)
            return comm, comm.close
        if size > 1:
            options.bootstrap = self._table(store, size, rank, limit)
        group = Group([devices[rank]], options)
        return group.split()[0], group.close

    @staticmethod
    def _agree_on_id(store: Any, platform: Platform) -> bytes:
        """Return the id that the first rank stores.  Ranks do not wait for each other here, where
        the library would not see it."""
        if not store.check(["id"]):
            store.compare_set("id", "", unique_id(platform).hex())
        return bytes.fromhex(store.get("id").decode())

    @staticmethod
    def _table(store: Any, size: int, rank: int, limit: float) -> Table:
        """Return a bootstrap that uses PyTorch's store."""
        rounds = itertools.count()
        end = time.monotonic() + limit

        def allgather(data: bytes) -> List[bytes]:
            turn = next(rounds)
            store.set(f"{turn}/{rank}", data)
            keys = [f"{turn}/{one}" for one in range(size)]
            # Poll, because a get() that waits blocks other threads' calls of the store.
            while not store.check(keys):
                if time.monotonic() > end:
                    raise TimeoutError("some processes did not arrive")
                time.sleep(0.001)
            return [store.get(one) for one in keys]
        return Table(rank, size, allgather)

    def _devices(self, kind: str) -> Tuple[Platform, List[int]]:
        """Return the platform for a type of device, and the device of each rank."""
        if kind == "cpu":
            if not self._threads and len(self._hosts) > 1:
                raise CohortBackendError(
                    "tensors on the CPU need all ranks on one machine; these ranks are on "
                    f"{', '.join(sorted(self._hosts))}")
            # Each rank in a process of its own drives one simulated device.
            if not self._threads:
                os.environ.setdefault("COHORT_HOST_SHARED", "1")
            if max(self._global_ranks) >= _HOST_DEVICES:
                os.environ.setdefault("COHORT_HOST_DEVICES", str(max(self._global_ranks) + 1))
            return Platform.HOST, self._global_ranks
        self.cuda_device = torch.device("cuda", torch.cuda.current_device())
        self._store.set(f"cuda/{self.rank()}", str(self.cuda_device.index))
        return Platform.GPU, [int(self._store.get(f"cuda/{rank}")) for rank in range(self._n)]

    def _link(self, kind: str) -> Link:
        """Return the communicator for a type of device; open it if necessary."""
        link = self._links.get(kind)
        if link is not None:
            return link
        with self._lock:
            if kind not in self._links:
                platform, devices = self._devices(kind)
                self._links[kind] = self._open(kind, range(self._n), devices, platform)
            return self._links[kind]

    @staticmethod
    def supports_tensor_alloc(device: Any) -> bool:
        """Return whether allocate_tensor() can be called; false if PyTorch's C++ code asks with
        a number, because it could not call a method that is written in Python."""
        return isinstance(device, torch.device) and device.type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: Any, device: Any) -> Any:
        """Return a one-dimensional tensor that calls between processes need not copy."""
        if not self.supports_tensor_alloc(device):
            raise CohortBackendError(f"cohort allocates tensors on the CPU, not on {device}")
        self._link("cpu")  # opens the host platform
        number = self._global_ranks[self.rank()]
        with self._lock:
            pool = _pools.get(number) or _pools.setdefault(number, Pool(number))
        return pool.empty(size, dtype)

    def shutdown(self) -> None:
        """Leave the process group without an error."""
        if self._closed:
            return
        self._closed = True
        alive.discard(self)
        self.completer.stop()
        for channel in self._channels.values():
            channel.stop(_CLOSE_S)
        for link in self._links.values():
            link.close()
        self._links.clear()

    def end(self) -> Optional[CohortBackendError]:
        """Return the error that ended the process group, or None."""
        causes = [cause for cause in (link.comm.cause for link in self._links.values())
                  if cause is not None]
        if not causes:
            return None
        return self.translate(error_of(causes[0].status, causes[0].text, causes[0]))

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0,
               _options: Any = None) -> "CohortBackend":
        """dist.shrink_group(): return a process group of the other ranks; only these call."""
        if self.rank() in ranks_to_exclude:
            raise CohortBackendError(f"[{self._label}] rank {self.rank()} is excluded but called "
                                     "shrink_group(): only the remaining ranks may call it")
        if shrink_flags:  # the flag is SHRINK_ABORT
            self.abort()
        kept = [rank for rank in range(self._n) if rank not in ranks_to_exclude]
        excluded = "-".join(map(str, ranks_to_exclude))
        # PyTorch numbers the ranks of a default process group anew.
        numbers = range(len(kept)) if self.is_world else [self._global_ranks[one] for one in kept]
        return CohortBackend(dist.PrefixStore(f"without {excluded}/", self._store),
                             kept.index(self.rank()), len(kept), self._options._timeout, numbers,
                             f"{self.name} without {excluded}", self)

    def fail(self, error: BaseException, end: Optional[CohortBackendError] = None) -> None:
        """Leave the process group because of an exception, which the other ranks get as text.

        end is the error that the exception reports, if any (end_of())."""
        me = self._global_ranks[self.rank()]
        text = describe(error)
        for link in list(self._links.values()):
            handle = link.comm._raw
            if not handle:
                continue
            if end is None or end.global_rank == me:
                lib.cohort_comm_fail(handle, Status.WORKER, as_bytes(text))
            else:  # cohort_comm_fail() would blame this rank
                link.comm.abort_handle().fire(
                    f"{blame(end.global_rank)}rank {me} ended by {text}")
        self.shutdown()

    def abort(self) -> None:
        """End all calls of all ranks."""
        for link in list(self._links.values()):
            link.comm.abort_handle().fire(f"rank {self.rank()} called abort()")

    def getBackendName(self) -> str:  # pylint: disable=invalid-name # the name is PyTorch's
        """Return the name by which the backend is registered."""
        return "cohort"

    def _set_sequence_number_for_group(self) -> None:
        self._calls = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    @property
    def options(self) -> Any:
        """The options of the backend, which PyTorch reads."""
        return self._options

    def set_timeout(self, timeout: Any) -> None:
        """Set the timeout of calls that do not pass one."""
        self._timeout = seconds_of(timeout) or self._timeout

    def _set_default_timeout(self, timeout: Any) -> None:
        self.set_timeout(timeout)

    # ---- submission of calls --------------------------------------------------------------

    def _submit(self, call: Any, tensors: Sequence[Any], *arguments: Any, opts: Any = None,
                result: Sequence[Any] = (), finish: Optional[Callable[[], None]] = None,
                begin: Optional[Callable[[Any], None]] = None) -> CohortWork:
        """Make a call on the communicator for these tensors, and return its work.

        begin(comm) runs before the call, under the same lock."""
        if self._closed:
            raise CohortBackendError(f"[{self._label}] the process group was destroyed")
        kind = tensors[0].device.type if tensors else ("cuda" if "cuda" in self._links
                                                       else "cpu")
        limit = seconds_of(getattr(opts, "timeout", None)) or self._timeout
        link: Optional[Link] = None
        try:
            link = self._link(kind)
            comm = link.comm
            with self._lock, contextlib.ExitStack() as stack:
                self._calls += 1
                if kind == "cuda":
                    self._after_current_stream(comm, tensors)
                stack.enter_context(link.deadlines(limit))
                if begin:
                    begin(comm)
                ticket = comm._submit(call, tensors, *arguments, comm.stream)
        except CohortError as error:
            raise self.translate(error, link, limit) from None
        return self._note(CohortWork(self, ticket.wait, result, finish,
                                     self._waiter(ticket) if kind == "cuda" else None, link))

    def _after_current_stream(self, comm: Any, tensors: Sequence[Any]) -> None:
        """Order the call after the work that PyTorch has queued, and prevent PyTorch from
        reusing the tensors' memory until the call is done."""
        comm.after_stream(torch.cuda.current_stream(self.cuda_device))
        own = torch.cuda.ExternalStream(comm.stream, self.cuda_device)
        for tensor in tensors:
            tensor.record_stream(own)

    def _waiter(self, ticket: Ticket) -> Callable[[], None]:
        def enqueue() -> None:
            with self._lock:
                ticket.after(torch.cuda.current_stream(self.cuda_device))
        return enqueue

    def _note(self, work: CohortWork) -> CohortWork:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def start_coalescing(self) -> None:
        """Start to collect calls, whose work end_coalescing() returns."""
        self._coalesced = []

    def end_coalescing(self) -> CohortWork:
        """Return one work for all calls since start_coalescing()."""
        works, self._coalesced = self._coalesced or [], None
        return self._all(works, [one for work in works for one in work.tensors])

    def _all(self, works: Sequence[CohortWork], result: Sequence[Any] = ()) -> CohortWork:
        """Return one work that waits for several."""
        def wait_all(seconds: Optional[float]) -> None:
            for work in works:
                work.settle(seconds)
        return works[0] if len(works) == 1 else CohortWork(self, wait_all, result)

    # ---- tensors --------------------------------------------------------------------------

    @staticmethod
    def _dense(tensor: Any) -> Any:
        """Return a tensor without its autograd graph; refuse tensors that no call supports."""
        if tensor.layout != torch.strided or tensor.device.type not in ("cpu", "cuda"):
            raise CohortBackendError(f"cohort takes dense tensors on the CPU or a GPU, not one "
                                     f"of layout {tensor.layout} on {tensor.device}")
        return tensor.detach().resolve_conj().resolve_neg()

    def _source(self, tensor: Any) -> Any:
        return self._dense(tensor).contiguous()

    def _target(self, tensor: Any) -> Tuple[Any, Optional[Callable[[], None]]]:
        """Return a contiguous tensor for the output of a call, and a function that then copies
        it to the given tensor (None if they are the same)."""
        tensor = self._dense(tensor)
        if tensor.is_contiguous():
            return tensor, None
        buffer = torch.empty_like(tensor, memory_format=torch.contiguous_format)

        def back() -> None:
            tensor.copy_(buffer)
        return buffer, back

    @staticmethod
    def _wire(tensor: Any, parts: int = 1) -> Tuple[int, Type]:
        """Return the count (of one of several parts) and the type with which elements are moved.

        Elements of types that the library lacks are moved as bytes."""
        kind = _TYPES.get(tensor.dtype, _MOVED_TYPES.get(tensor.dtype))
        count = tensor.numel() // parts
        return (count, kind) if kind is not None else (count * tensor.element_size(), Type.U8)

    @staticmethod
    def _reduction(op: Any, dtype: Any) -> Optional[Tuple[Type, Op]]:
        """Return the library's type and reduction, or None if the ranks must reduce by
        themselves."""
        op = getattr(op, "op", op)
        if dtype == torch.bool:
            return (Type.U8, _BOOL_OPS[op]) if op in _BOOL_OPS else None
        if op == ReduceOp.AVG and not dtype.is_floating_point:
            raise CohortBackendError(f"ReduceOp.AVG needs a floating-point type, not {dtype}")
        return (_TYPES[dtype], _OPS[op]) if dtype in _TYPES and op in _OPS else None

    def _by_hand(self, tensor: Any, opts: Any, take: Callable[[Any], Any]) -> CohortWork:
        """Make a reduction that NCCL lacks: gather all inputs, and combine them on this rank."""
        op = getattr(opts.reduceOp, "op", opts.reduceOp)
        if op not in _LOCAL_OPS:
            raise CohortBackendError(f"cohort has no reduction {op} of {tensor.dtype}")
        source = self._source(tensor)
        every = source.new_empty((self._n,) + tuple(source.shape))

        def finish() -> None:
            whole = every[0].clone()
            for one in every[1:]:
                whole = _LOCAL_OPS[op](whole, one)
            take(whole)
        return self._submit(lib.cohort_all_gather, (source, every), source.data_ptr(),
                            every.data_ptr(), *self._wire(source), opts=opts, finish=finish)

    # ---- collectives ----------------------------------------------------------------------

    def allreduce(self, tensors: Sequence[Any], opts: Any) -> CohortWork:
        """dist.all_reduce()"""
        return self._all([self._all_reduce(one, opts) for one in tensors], tensors)

    def _all_reduce(self, tensor: Any, opts: Any) -> CohortWork:
        found = self._reduction(opts.reduceOp, tensor.dtype)
        if found is None:
            return self._by_hand(tensor, opts, self._dense(tensor).copy_)
        target, back = self._target(tensor)
        if back:
            target.copy_(tensor)
        at = target.data_ptr()
        return self._submit(lib.cohort_all_reduce, (target,), at, at, target.numel(), *found,
                            opts=opts, result=[tensor], finish=back)

    def allreduce_coalesced(self, tensors: Sequence[Any], opts: Any) -> CohortWork:
        """dist.all_reduce_coalesced()"""
        found = [pair for pair in (self._reduction(opts.reduceOp, one.dtype)
                                   for one in tensors) if pair]
        if len(found) < len(tensors) or len({op for _, op in found}) != 1 or not all(
                one.is_contiguous() for one in tensors):
            return self.allreduce(tensors, opts)
        plain = [self._dense(one) for one in tensors]
        raw = (cohort_tensor * len(plain))(*(
            cohort_tensor(one.data_ptr(), one.data_ptr(), one.numel(), kind)
            for one, (kind, _) in zip(plain, found)))
        return self._submit(lib.cohort_all_reduce_many, plain, raw, len(plain), found[0][1],
                            opts=opts, result=tensors)

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> CohortWork:
        """dist.broadcast()"""
        works = []
        for tensor in tensors:
            target, back = self._target(tensor)
            if back and self.rank() == opts.rootRank:
                target.copy_(tensor)
            at = target.data_ptr()
            works.append(self._submit(lib.cohort_broadcast, (target,), at, at,
                                      *self._wire(target), opts.rootRank, opts=opts,
                                      result=[tensor], finish=back))
        return self._all(works, tensors)

    def reduce(self, tensors: Sequence[Any], opts: Any) -> CohortWork:
        """dist.reduce()"""
        tensor, root = tensors[0], opts.rootRank
        found = self._reduction(opts.reduceOp, tensor.dtype)
        if found is None:
            return self._by_hand(tensor, opts, self._dense(tensor).copy_
                                 if self.rank() == root else lambda whole: None)
        source = self._source(tensor)
        target, back = self._target(tensor)
        return self._submit(lib.cohort_reduce, (source, target), source.data_ptr(),
                            target.data_ptr(), source.numel(), *found, root, opts=opts,
                            result=[tensor], finish=back if self.rank() == root else None)

    def _scatter_back(self, outputs: Sequence[Any], flat: Any) -> Callable[[], None]:
        def finish() -> None:
            for out, one in zip(outputs, flat):
                self._dense(out).copy_(one.view(out.shape))
        return finish

    def allgather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any
                  ) -> CohortWork:
        """dist.all_gather()"""
        works = []
        for outs, tensor in zip(outputs, inputs):
            if len(outs) != self._n or any(one.numel() != tensor.numel() for one in outs):
                raise CohortBackendError(
                    f"all_gather needs {self._n} outputs of {tensor.numel()} elements, not "
                    f"{[one.numel() for one in outs]}")
            source = self._source(tensor)
            flat = source.new_empty((self._n, source.numel()))
            works.append(self._submit(
                lib.cohort_all_gather, (source, flat), source.data_ptr(), flat.data_ptr(),
                *self._wire(source), opts=opts, result=outs,
                finish=self._scatter_back(outs, flat)))
        return self._all(works)

    def allgather_coalesced(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any],
                            opts: Any) -> CohortWork:
        """dist.all_gather_coalesced()"""
        return self.allgather([list(one) for one in zip(*outputs)], inputs, opts)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any) -> CohortWork:
        """dist.all_gather_into_tensor()"""
        source = self._source(tensor)
        target, back = self._target(output)
        if target.numel() != source.numel() * self._n:
            raise CohortBackendError(f"the output has {target.numel()} elements, not "
                                     f"{self._n} times the input's {source.numel()}")
        return self._submit(lib.cohort_all_gather, (source, target), source.data_ptr(),
                            target.data_ptr(), *self._wire(source), opts=opts,
                            result=[output], finish=back)

    def all_gather_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any],
                                    opts: Any) -> CohortWork:
        """dist.all_gather_into_tensor() of several tensors"""
        return self._all([self.all_gather_single(out, one, opts)
                          for out, one in zip(outputs, inputs)], outputs)

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any) -> CohortWork:
        """dist.reduce_scatter_tensor()"""
        if tensor.numel() != output.numel() * self._n:
            raise CohortBackendError(f"the input has {tensor.numel()} elements, not {self._n} "
                                     f"times the output's {output.numel()}")
        found = self._reduction(opts.reduceOp, tensor.dtype)
        if found is None:
            return self._by_hand(tensor, opts, lambda whole: self._dense(output).copy_(
                whole.view(self._n, -1)[self.rank()].view(output.shape)))
        source = self._source(tensor)
        target, back = self._target(output)
        return self._submit(lib.cohort_reduce_scatter, (source, target), source.data_ptr(),
                            target.data_ptr(), target.numel(), *found, opts=opts,
                            result=[output], finish=back)

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any],
                                        opts: Any) -> CohortWork:
        """dist.reduce_scatter_tensor() of several tensors"""
        return self._all([self.reduce_scatter_single(out, one, opts)
                          for out, one in zip(outputs, inputs)], outputs)

    def reduce_scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any
                       ) -> CohortWork:
        """dist.reduce_scatter()"""
        return self._all([self.reduce_scatter_single(
            out, torch.cat([self._source(one).view(-1) for one in ins]), opts)
            for out, ins in zip(outputs, inputs)], outputs)

    def gather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any
               ) -> CohortWork:
        """dist.gather()"""
        source = self._source(inputs[0])
        if self.rank() != opts.rootRank:
            return self._submit(lib.cohort_gather, (source,), source.data_ptr(), None,
                                *self._wire(source), opts.rootRank, opts=opts)
        flat = source.new_empty((self._n, source.numel()))
        return self._submit(lib.cohort_gather, (source, flat), source.data_ptr(),
                            flat.data_ptr(), *self._wire(source), opts.rootRank, opts=opts,
                            result=outputs[0], finish=self._scatter_back(outputs[0], flat))

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any
                ) -> CohortWork:
        """dist.scatter()"""
        target, back = self._target(outputs[0])
        flat = torch.cat([self._source(one).view(-1) for one in inputs[0]]) \
            if self.rank() == opts.rootRank else None
        return self._submit(lib.cohort_scatter, (target,) if flat is None else (flat, target),
                            None if flat is None else flat.data_ptr(), target.data_ptr(),
                            *self._wire(target), opts.rootRank, opts=opts, result=outputs,
                            finish=back)

    def all_to_all_single(self, output: Any, tensor: Any, output_splits: Sequence[int],
                          input_splits: Sequence[int], opts: Any) -> CohortWork:
        """dist.all_to_all_single()"""
        source = self._source(tensor)
        target, back = self._target(output)
        if output_splits or input_splits:
            return self._exchange(self._parts(target, output_splits, "output"),
                                  self._parts(source, input_splits, "input"), opts, [output],
                                  back)
        if source.numel() % self._n or source.numel() != target.numel():
            raise CohortBackendError(f"all_to_all_single cannot divide {source.numel()} "
                                     f"elements, into {target.numel()}, by {self._n} ranks")
        return self._submit(lib.cohort_all_to_all, (source, target), source.data_ptr(),
                            target.data_ptr(), *self._wire(source, self._n), opts=opts,
                            result=[output], finish=back)

    def _parts(self, whole: Any, splits: Sequence[int], what: str) -> Sequence[Any]:
        """Split a tensor by rows into one part for each rank."""
        rows = list(splits) or [whole.size(0) // self._n] * self._n
        if sum(rows) != whole.size(0):
            raise CohortBackendError(f"Split sizes doesn't match total dim 0 size: {what} has "
                                     f"{whole.size(0)} rows, its splits {sum(rows)}")
        parts: Sequence[Any] = whole.split(rows)
        return parts

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> CohortWork:
        """dist.all_to_all()"""
        pairs = [self._target(one) for one in outputs]

        def finish() -> None:
            for _, back in pairs:
                if back:
                    back()
        return self._exchange([one for one, _ in pairs], [self._source(one) for one in inputs],
                              opts, outputs, finish)

    def _exchange(self, targets: Sequence[Any], sources: Sequence[Any], opts: Any,
                  result: Sequence[Any], finish: Optional[Callable[[], None]]) -> CohortWork:
        """Send to and receive from every rank in one batch."""
        def begin(comm: Any) -> None:
            comm._check(lib.cohort_batch_begin(comm._live))
            for peer, (target, source) in enumerate(zip(targets, sources)):
                if source.numel():
                    comm._check(lib.cohort_send(comm._live, source.data_ptr(),
                                                *self._wire(source), peer, None, None))
                if target.numel():
                    comm._check(lib.cohort_recv(comm._live, target.data_ptr(),
                                                *self._wire(target), peer, None, None))
        return self._submit(lib.cohort_batch_end, (*targets, *sources), opts=opts,
                            result=result, finish=finish, begin=begin)

    def barrier(self, opts: Any) -> CohortWork:
        """dist.barrier()"""
        return self._submit(lib.cohort_barrier, (), opts=opts)

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """dist.monitored_barrier(), whose error names the ranks that did not call"""
        limit = seconds_of(opts.timeout) or self._timeout
        try:
            self.barrier(opts).settle()
        except CohortBackendError as error:
            late = sorted(set(range(self._n)) - error.joined)[:None if wait_all_ranks else 1]
            if error.status != Status.STALLED or not late:
                raise
            error.args = (
                f"{'Ranks' if len(late) > 1 else 'Rank'} {', '.join(map(str, late))} failed to "
                f"pass monitoredBarrier in {limit * 1e3:.0f} ms: {error}",)
            raise

    # ---- sends and receives ---------------------------------------------------------------

    def _channel(self, kind: str, peer: int, sends: bool, tag: int) -> Channel:
        me = self.rank()
        pair = (me, peer) if sends else (peer, me)

        def open_pair() -> Link:
            platform, devices = self._devices(kind)
            return self._open(f"{kind} {pair[0]} to {pair[1]} tag {tag}", pair,
                              [devices[one] for one in pair], platform,
                              f"called {'recv' if sends else 'send'}"
                              f"({self._global_ranks[me]}, tag={tag})")
        key = kind, peer, sends, tag
        with self._lock:
            if key not in self._channels:
                self._channels[key] = Channel(open_pair, sends, f"cohort-p2p/{peer}")
            return self._channels[key]

    def _transfer(self, tensor: Any, peer: int, sends: bool, tag: int,
                  finish: Optional[Callable[[], None]], result: Sequence[Any]) -> CohortWork:
        if self._closed:
            raise CohortBackendError(f"[{self._label}] the process group was destroyed")
        if peer == self.rank():
            raise CohortBackendError(f"rank {peer} cannot send to itself or receive from "
                                     "itself: copy the tensor")
        channel = self._channel(tensor.device.type, peer, sends, tag)
        message = Message(channel, tensor, *self._wire(tensor), self._timeout)
        if tensor.device.type == "cuda":
            # Wait for the tensor, because the thread that makes the call uses another stream.
            torch.cuda.current_stream(tensor.device).synchronize()
        channel.put(message)
        return self._note(CohortWork(self, message.wait_one, result, finish, None, message))

    def send(self, tensors: Sequence[Any], peer: int, tag: int = 0) -> CohortWork:
        """dist.send() and dist.isend(); messages with different tags are not ordered"""
        return self._transfer(self._source(tensors[0]), peer, True, tag, None, tensors)

    def recv(self, tensors: Sequence[Any], peer: int, tag: int = 0) -> CohortWork:
        """dist.recv() and dist.irecv()"""
        target, back = self._target(tensors[0])
        return self._transfer(target, peer, False, tag, back, tensors)

    def recv_anysource(self, tensors: Sequence[Any], tag: int = 0) -> CohortWork:
        """Refuse the call, because a backend in Python cannot report the sender to PyTorch."""
        raise NotImplementedError("cohort cannot receive from any rank: pass the sender as src")


def end_of(error: BaseException, backends: Sequence[CohortBackend]
           ) -> Optional[CohortBackendError]:
    """Return the error that an exception of a rank reports: itself, or the first end of the
    rank's process groups, because C++ may have changed its type; None if there is none."""
    if isinstance(error, CohortBackendError) and error.status != Status.INVALID:
        return error
    ends = [end for end in (backend.end() for backend in backends) if end is not None]
    ends.sort(key=lambda end: end.cause.time_ns if end.cause else 0)
    return ends[0] if ends else None


def create(opts: Any, _backend_options: Any) -> CohortBackend:
    """Create a backend; torch.distributed calls this function for each process group."""
    return CohortBackend(opts.store, opts.group_rank, opts.group_size, opts.timeout,
                         opts.global_ranks_in_group, opts.group_id)


def forget_after_fork() -> None:
    """Forget the parent's process groups in the child of a fork."""
    alive.clear()
    _pools.clear()


os.register_at_fork(after_in_child=forget_after_fork)
