# SPDX-License-Identifier: Apache-2.0
"""Communicators: a rank's handle to its group, and the collectives that it calls.

Each method names the C function that it calls.  The comment of that function in
include/cohort is the contract: what other ranks must do, threads, blocking, results.
"""

import ctypes
import weakref
from threading import get_ident
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _abi, _library
from ._abi import FOREVER, Op, Platform, Scalar, Status, Type
from ._arrays import HOST, PINNED, SIZES, Elements, Memory, look, stream_of, type_of
from ._errors import Handle
from ._library import Number, Scope, bare, failure, inside, integer, lib, nanoseconds, real, record
from ._rank import Array, Rank, Stream, Ticket, as_bytes, refer

#: A reduction: a member of Op, its name, a torch.distributed.ReduceOp, or the result of
#: Comm.premul_sum().
AnyOp = Union[Op, str, "PremulSum", Any]

_OPS = {lib.cohort_op_name(op).decode(): op for op in Op}
# Names of torch.distributed.ReduceOp members, whose numbers differ from Cohort's.
_TORCH_OPS = {"SUM": "sum", "PRODUCT": "prod", "MAX": "max", "MIN": "min", "AVG": "avg"}
_byref = ctypes.byref
# Size in bytes from which a call on host memory without a timeout is worth a thread: the library
# then works on the array itself, not on a copy.
LARGE = 4 << 20
# C type of a host scalar, by element type.
_SCALARS: Dict[Type, Any] = {
    Type.I8: ctypes.c_int8, Type.U8: ctypes.c_uint8, Type.I32: ctypes.c_int32,
    Type.U32: ctypes.c_uint32, Type.I64: ctypes.c_int64, Type.U64: ctypes.c_uint64,
    Type.F32: ctypes.c_float, Type.F64: ctypes.c_double}


def raw_id(identity: bytes) -> _abi.cohort_unique_id:
    """Return the id that C takes."""
    raw = _abi.cohort_unique_id()
    if not isinstance(identity, bytes):
        raise TypeError(f"identity is {identity!r}, not bytes from unique_id()")
    if len(identity) != ctypes.sizeof(raw):
        raise ValueError(f"identity has {len(identity)} bytes, not {ctypes.sizeof(raw)}")
    ctypes.memmove(_byref(raw), identity, len(identity))
    return raw


def op_of(op: AnyOp) -> int:
    """Return the number of a reduction, given as a member, number, name or object."""
    if isinstance(op, PremulSum):
        return op.number
    try:
        if isinstance(op, str):
            return _OPS[op]
        name = getattr(getattr(op, "op", op), "name", None)
        if name is not None and not isinstance(op, Op):
            return _OPS[_TORCH_OPS[name]]
        return int(Op(integer(op, "op")))
    except (KeyError, ValueError):
        raise ValueError(f"op is {op!r}, not one of {', '.join(_OPS)}") from None


class Batch(Scope):
    """An open batch, returned by Comm.batch(); ticket covers all of its calls."""

    def __init__(self, comm: "Comm", stream: int) -> None:
        super().__init__(comm, (lib.cohort_batch_begin, comm._live),
                         (lib.cohort_batch_end, comm._live, stream, None))
        self._comm = comm
        self._inside = comm._inside
        self.ticket = Ticket(comm, 0)
        self.stream = stream  #: stream on which the batch is launched
        self._refs: List[object] = []

    def _begun(self) -> "Batch":
        self._comm._batch = weakref.ref(self)
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self._launch()
        self._leave()

    @inside
    def _launch(self) -> None:
        comm, cell = self._comm, self.ticket._cell
        comm._held[cell] = self._refs
        status = record(self._answers, False, lib.cohort_batch_end, comm._live, self.stream,
                        _byref(cell))
        comm._submitted(cell, status, self._refs)

    def _leave(self) -> None:
        """End the batch without launching: an invalid call makes cohort_batch_end() fail."""
        if self.open and self._comm._handle:
            lib.cohort_all_reduce(self._comm._live, None, None, 0, -1, 0, None, None)
        super()._leave()


class PremulSum(Handle):
    """A sum that multiplies each rank's input by a factor first (Comm.premul_sum())."""

    def __init__(self, comm: "Comm", keep: object, address: int, *arguments: int) -> None:
        cell = ctypes.c_int()
        self._comm = comm
        self._owned = comm._own(self, cell, keep, lib.cohort_op_destroy, comm._live)
        comm._check(lib.cohort_premul_sum_create(comm._live, address, *arguments,
                                                 _byref(cell)))
        self.number = cell.value

    def __enter__(self) -> "PremulSum":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        comm = self._comm
        status = comm._disown(self._owned) if comm._handle else int(Status.STATE)
        if kind is None and not comm._handle:
            raise comm._refused(status, None)
        if kind is None:
            comm._check(status)


def _guarded(call: Callable[..., int], refs: Tuple[object, ...]) -> Callable[..., int]:
    """Return a call that raises BufferError if memory among refs was freed."""
    memories = [one for one in refs if isinstance(one, Memory)]

    def guarded(*arguments: Any) -> int:
        for memory in memories:
            memory._elements("an array of the prepared call")
        return call(*arguments)
    if memories:
        return guarded
    return call


class PreparedHost(Handle):
    """A prepared all-reduce in host memory, from Comm.prepare_all_reduce_host().

    run() makes one C call instead of two, so that ranks hand over the interpreter lock only
    once per call.  It is the fastest all-reduce on the host platform.
    """

    __slots__ = ("_comm", "_refs", "_call", "_again")

    def __init__(self, comm: "Comm", refs: Tuple[object, ...], again: Callable[[], None],
                 *arguments: Any) -> None:
        self._comm = comm
        self._refs = refs
        self._again = again
        self._call = _guarded(partial(bare("cohort_all_reduce_host"),
                                      ctypes.c_void_p(comm._live), *arguments), refs)

    def run(self) -> None:
        """Run the all-reduce and wait for it, as all_reduce_host() does."""
        comm = self._comm
        if get_ident() == _library._main:
            self._again()
            return
        comm._inside.append(None)
        try:
            if comm._dropped:
                comm._give_back_dropped()
            status = self._call() if comm._handle else Status.STATE
            if status:
                raise comm._refused(status, self._refs)
        finally:
            comm._inside.remove(None)


class Prepared(Handle):
    """A prepared all-reduce, from Comm.prepare_all_reduce(); faster than Comm.all_reduce().

    The arrays are inspected only once, so they must not be resized or replaced.  A call does
    not wait for the stream that computes them; use Comm.after_stream() for that.  One thread
    at a time may call, as for the communicator.
    """

    __slots__ = ("_comm", "_inside", "_refs", "_number", "_at", "_submit", "_wait")

    def __init__(self, comm: "Comm", name: str, refs: Tuple[object, ...], *arguments: Any
                 ) -> None:
        self._comm = comm
        self._inside = comm._inside
        self._refs = refs
        self._number = Number()
        self._at = _byref(self._number)
        handle = ctypes.c_void_p(comm._live)
        self._submit = _guarded(partial(bare(name), handle, *arguments), refs)
        self._wait = partial(bare("cohort_wait"), handle, self._number,
                             ctypes.c_uint64(FOREVER))

    @inside
    def __call__(self) -> Ticket:
        """Submit the collective and return its ticket."""
        comm = self._comm
        cell = comm._noted(self._refs)
        comm._submitted(cell, self._submit(_byref(cell)) if comm._handle else Status.STATE,
                        self._refs)
        return Ticket(comm, cell)

    def run(self) -> None:
        """Submit the collective and wait for it, without a timeout."""
        comm = self._comm
        if get_ident() == _library._main:
            self().wait()
            return
        comm._inside.append(None)
        try:
            if comm._dropped:
                comm._give_back_dropped()
            status = self._submit(self._at) if comm._handle else Status.STATE
            if status:
                raise comm._refused(status, self._refs)
            status = self._wait()
            if status:
                if status == Status.WEDGED:
                    _library.kept.append(self._refs)
                raise comm._fail(status)
        finally:
            comm._inside.remove(None)


class Comm(Rank):
    """A rank's handle to its group.

    Group.run() passes one to each worker, Group.split() returns one for each thread that the
    program starts, join() returns one for a rank that joins by id, and Comm.split() one for
    a subset of the ranks.

    Arrays support the buffer protocol, DLPack or __cuda_array_interface__.  They must be
    contiguous in C order and in the memory of the rank's device (on the host platform, host
    memory).  An array that is in use stays alive until its ticket is done, even if the
    program drops it; do not touch its contents until then.  If recv is None, the call works
    in place.

    A call runs on the communicator's own stream, or on stream: a number (a cudaStream_t, 0
    for the legacy default stream), or a stream object of PyTorch or CuPy.  A DLPack array
    makes that stream wait for the array's own.  To make a stream wait for the call, use
    Ticket.after().

    One thread at a time may call, except methods that are documented as "any thread".
    As a context manager, the communicator is closed at the end of the block.  If an exception
    ends the block, the rank fails first, because other ranks may be waiting for it.  The
    communicator of a Group.run() worker needs no close.
    """

    def __init__(self, handle: int, platform: Platform, owner: object = None) -> None:
        super().__init__(handle, platform, owner)
        self._batch: "Optional[weakref.ref[Batch]]" = None

    # ---- arrays -------------------------------------------------------------------

    def _pair(self, send: Array, recv: Array, stream: int, ratio_send: int = 1,
              ratio_recv: int = 1) -> Tuple[Elements, Elements, int]:
        """Return the input, the output, and the count that C expects.

        The input must have count * ratio_send elements, the output count * ratio_recv.
        """
        if recv is None:
            if ratio_send != ratio_recv:
                raise TypeError("recv is None, but the call does not work in place")
            found = self._array(send, "send", True, stream)
            return found, found, found.count
        source = self._array(send, "send", False, stream)
        target = self._array(recv, "recv", True, stream)
        if source.type != target.type:
            raise TypeError(f"recv has elements of {target.type.name}, and send of "
                            f"{source.type.name}")
        if source.count * ratio_recv != target.count * ratio_send:
            raise ValueError(
                f"recv has {target.count} elements, and send {source.count}: the counts must be "
                f"{'equal' if ratio_send == ratio_recv else f'{ratio_recv} to {ratio_send}'}"
            )
        return source, target, source.count // ratio_send

    def _open_batch(self) -> Optional[Batch]:
        batch = self._batch() if self._batch is not None else None
        return batch if batch is not None and batch.open else None

    def _uses(self, what: object) -> bool:
        batch = self._open_batch() if self._batch is not None else None
        return batch is not None and refer(batch._refs, what) or super()._uses(what)

    def _noted(self, refs: object) -> Number:
        """Keep refs alive in a new ticket cell, before the call, because Ctrl-C may come after C
        has queued it."""
        if self._dropped:
            self._give_back_dropped()
        cell = Number()
        self._held[cell] = refs
        return cell

    def _submitted(self, cell: Number, status: int, refs: object) -> None:
        """Release refs if the call was refused or captured."""
        if status or cell.value == _abi.CAPTURED:
            self._held.pop(cell, None)
            if status:
                raise self._refused(status, refs)
        if len(self._held) > self._most:
            self._trim()

    @inside
    def _submit(self, call: Callable[..., int], refs: object, *arguments: object) -> Ticket:
        """Make a call whose last argument is the ticket; return that ticket."""
        handle = self._live
        batch = self._open_batch() if self._batch is not None else None
        if batch is not None:
            batch._refs.append(refs)
            status = call(handle, *arguments, None)
            if status:
                raise self._refused(status, refs)
            return batch.ticket
        cell = self._noted(refs)
        self._submitted(cell, call(handle, *arguments, _byref(cell)), refs)
        return Ticket(self, cell)

    def _stream(self, stream: Stream) -> int:
        return stream_of(stream, (self._open_batch() or self).stream)

    # ---- collectives ----------------------------------------------------------------

    def all_reduce(self, send: Array, recv: Array = None, *, op: AnyOp = Op.SUM,
                   stream: Stream = None) -> Ticket:
        """Combine send across ranks into recv on every rank (cohort_all_reduce())."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue)
        return self._submit(lib.cohort_all_reduce, (source.keep, target.keep, op),
                            source.address, target.address, count, source.type, op_of(op),
                            queue)

    def prepare_all_reduce(self, send: Array, recv: Array = None, *, op: AnyOp = Op.SUM,
                           stream: Stream = None) -> Prepared:
        """Prepare an all_reduce() with fixed arguments, to be called many times."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue)
        return Prepared(self, "cohort_all_reduce", (source.keep, target.keep, op),
                        ctypes.c_void_p(source.address), ctypes.c_void_p(target.address),
                        ctypes.c_size_t(count), ctypes.c_int(source.type),
                        ctypes.c_int(op_of(op)), ctypes.c_void_p(queue))

    def broadcast(self, send: Array, recv: Array = None, *, root: int = 0,
                  stream: Stream = None) -> Ticket:
        """Copy send of rank root to every rank's recv (cohort_broadcast())."""
        queue = self._stream(stream)
        if recv is None and self.rank == root:  # send is only read, and may be read-only
            source = target = self._array(send, "send", False, queue)
            count = source.count
        else:
            source, target, count = self._pair(send, recv, queue)
        return self._submit(lib.cohort_broadcast, (source.keep, target.keep),
                            source.address, target.address, count, source.type,
                            integer(root, "root"), queue)

    def reduce(self, send: Array, recv: Array = None, *, op: AnyOp = Op.SUM, root: int = 0,
               stream: Stream = None) -> Ticket:
        """Combine send across ranks into recv on rank root (cohort_reduce()).

        On other ranks recv may be None, and send is only read."""
        queue = self._stream(stream)
        source, target, count = self._at_root(send, recv, root, queue)
        return self._submit(lib.cohort_reduce, (source.keep, target.keep, op),
                            source.address, target.address, count, source.type, op_of(op),
                            integer(root, "root"), queue)

    def _at_root(self, send: Array, recv: Array, root: int, stream: int
                 ) -> Tuple[Elements, Elements, int]:
        if recv is None and self.rank != root:
            found = self._array(send, "send", False, stream)
            return found, found, found.count
        return self._pair(send, recv, stream)

    def all_gather(self, send: Array, recv: Array, *, stream: Stream = None) -> Ticket:
        """Gather every rank's send into every rank's recv, in rank order
        (cohort_all_gather()); recv has size times as many elements as send."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue, 1, self.size)
        return self._submit(lib.cohort_all_gather, (source.keep, target.keep),
                            source.address, target.address, count, source.type, queue)

    def reduce_scatter(self, send: Array, recv: Array, *, op: AnyOp = Op.SUM,
                       stream: Stream = None) -> Ticket:
        """Combine send across ranks; each rank gets its own block in recv
        (cohort_reduce_scatter()); send has size times as many elements as recv."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue, self.size, 1)
        return self._submit(lib.cohort_reduce_scatter, (source.keep, target.keep, op),
                            source.address, target.address, count, source.type, op_of(op),
                            queue)

    def gather(self, send: Array, recv: Array = None, *, root: int = 0,
               stream: Stream = None) -> Ticket:
        """Gather every rank's send into recv of rank root (cohort_gather()).

        On root recv has size times as many elements; on other ranks it may be None."""
        queue = self._stream(stream)
        source, target, count = self._one_sided(send, recv, root, queue, True)
        return self._submit(lib.cohort_gather, (source.keep, target.keep), source.address,
                            target.address, count, source.type, integer(root, "root"), queue)

    def scatter(self, send: Array = None, recv: Array = None, *, root: int = 0,
                stream: Stream = None) -> Ticket:
        """Distribute the blocks of root's send, one to each rank's recv (cohort_scatter()).

        On root send has size times as many elements; on other ranks it may be None."""
        queue = self._stream(stream)
        target, source, count = self._one_sided(recv, send, root, queue, False)
        return self._submit(lib.cohort_scatter, (source.keep, target.keep), source.address,
                            target.address, count, target.type, integer(root, "root"), queue)

    def _one_sided(self, part: Array, whole: Array, root: int, stream: int, reads_part: bool
                   ) -> Tuple[Elements, Elements, int]:
        """Return the arrays of a gather or scatter; only root needs the whole one."""
        names = ("send", "recv") if reads_part else ("recv", "send")
        own = self._array(part, names[0], not reads_part, stream)
        if self.rank != root:
            return own, own._replace(address=0, keep=None), own.count
        if whole is None:
            raise TypeError(f"{names[1]} is None on rank {root}, the root")
        every = self._array(whole, names[1], reads_part, stream)
        self._want(every, names[1], own.type, own.count * self.size)
        return own, every, own.count

    def all_to_all(self, send: Array, recv: Array, *, stream: Stream = None) -> Ticket:
        """Send block i of send to rank i, and receive one block from every rank
        (cohort_all_to_all()).

        Both arrays have one block for each rank, and must not overlap."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue)
        if count % self.size:
            raise ValueError(f"send has {count} elements, not a multiple of {self.size}")
        return self._submit(lib.cohort_all_to_all, (source.keep, target.keep),
                            source.address, target.address, count // self.size, source.type,
                            queue)

    def barrier(self, *, stream: Stream = None) -> Ticket:
        """Return a ticket that is done once every rank has called (cohort_barrier())."""
        return self._submit(lib.cohort_barrier, None, self._stream(stream))

    def send(self, send: Array, peer: int, *, stream: Stream = None) -> Ticket:
        """Send an array to one rank (cohort_send())."""
        queue = self._stream(stream)
        found = self._array(send, "send", False, queue)
        return self._submit(lib.cohort_send, found.keep, found.address, found.count,
                            found.type, integer(peer, "peer"), queue)

    def recv(self, recv: Array, peer: int, *, stream: Stream = None) -> Ticket:
        """Receive an array from one rank (cohort_recv())."""
        queue = self._stream(stream)
        found = self._array(recv, "recv", True, queue)
        return self._submit(lib.cohort_recv, found.keep, found.address, found.count,
                            found.type, integer(peer, "peer"), queue)

    # ---- lists of arrays ------------------------------------------------------------

    def _many(self, call: Callable[..., int], arrays: Sequence[Array], stream: int,
              argument: int) -> Ticket:
        arrays = list(arrays)
        tensors = (_abi.cohort_tensor * len(arrays))()
        refs: List[object] = []
        for i, item in enumerate(arrays):
            send, recv = item if isinstance(item, tuple) else (item, None)
            try:
                source, target, count = self._pair(send, recv, stream, 1, 1)
            except (TypeError, ValueError, BufferError) as error:
                raise type(error)(f"array {i}: {error}") from error
            tensors[i] = _abi.cohort_tensor(source.address, target.address, count, source.type)
            refs += source.keep, target.keep
        return self._submit(call, refs, tensors, len(arrays), argument, stream)

    def all_reduce_many(self, arrays: Sequence[Array], *, op: AnyOp = Op.SUM,
                        stream: Stream = None) -> Ticket:
        """Run all_reduce() on several arrays as one operation (cohort_all_reduce_many()).

        Each item is an array or a pair (send, recv); types may differ between items."""
        return self._many(lib.cohort_all_reduce_many, arrays, self._stream(stream), op_of(op))

    def broadcast_many(self, arrays: Sequence[Array], *, root: int = 0,
                       stream: Stream = None) -> Ticket:
        """Run broadcast() on several arrays as one operation (cohort_broadcast_many())."""
        return self._many(lib.cohort_broadcast_many, arrays, self._stream(stream),
                          integer(root, "root"))

    # ---- batches, reductions --------------------------------------------------------

    def batch(self, *, stream: Stream = None) -> Batch:
        """Queue the calls of a with block as one operation, launched at the end of the block
        (cohort_batch_begin(), cohort_batch_end()).

        Calls in the block must not pass a stream.  They share the batch's ticket, which is
        valid after the block.  If an exception ends the block, nothing is launched.
        """
        return Batch(self, self._stream(stream))

    def premul_sum(self, scalar: Union[float, Array], kind: Union[Type, str] = Type.F32
                   ) -> PremulSum:
        """Create a reduction that multiplies this rank's input by scalar before it adds
        (cohort_premul_sum_create()).

        scalar is a number of type kind, or an array of one element on the rank's device,
        which each call reads.  The result is a context manager that destroys the reduction
        at the end of the block.  Calls with the reduction must have returned by then, but need
        not be done.
        """
        if isinstance(scalar, (int, float)):
            kind = type_of(kind)
            if kind not in _SCALARS:
                raise TypeError(f"a scalar of {kind.name} must be given as an array")
            value = _SCALARS[kind](
                real(scalar, "scalar") if kind in (Type.F32, Type.F64)
                else integer(scalar, "scalar", _SCALARS[kind]))
            return PremulSum(self, value, ctypes.addressof(value), kind, Scalar.HOST)
        found = self._array(scalar, "scalar", False, self.stream)
        self._want(found, "scalar", found.type, 1)
        return PremulSum(self, found.keep, found.address, found.type, Scalar.DEVICE)

    # ---- host memory ----------------------------------------------------------------

    def _on_memory(self, call: Callable[..., int], refs: object, output: Optional[Elements],
                   *arguments: Any) -> None:
        """Make a call on host memory, which blocks until it is done or has timed out.  output is
        what it writes, or None; the last argument is the timeout."""
        handle = self._live
        place = (output.address, output.count * SIZES[output.type]) if output else (None, 0)
        is_large = place[1] >= LARGE and not self._bound
        if is_large or not _library.on_main() or not self._in_slices(
                partial(call, handle, *arguments[:-1]),
                partial(lib.cohort_wait_host, handle, *place), arguments[-1], refs):
            self._interruptible(lambda: call(handle, *arguments), refs)

    @inside
    def _in_slices(self, call: Callable[[int], int], again: Callable[[int], int], limit_ns: int,
                   refs: object) -> bool:
        """Make a call, and wait again until it is done; see _library.wait().  Return False if
        an earlier call that has timed out must be waited for first."""
        handle = self._live
        calls = iter((call,))
        try:
            status = _library.wait(lambda slice_ns: next(calls, again)(slice_ns), limit_ns)
        except BaseException:
            lib.cohort_comm_fail(handle, Status.WORKER, b"interrupted")
            raise
        if status == Status.BUSY and limit_ns > _library.SLICE_NS:
            return False
        if status:
            raise self._refused(status, refs)
        return True

    @inside
    def _inside_of(self, call: Callable[[], int]) -> int:
        return call()

    @inside
    def _interruptible(self, call: Callable[[], int], refs: object) -> None:
        """Make a call that waits for other ranks; refs are the arrays that it uses."""
        handle = self._live
        if self._bound or not _library.on_main():
            status = call()
        else:
            def give_up(answer: _library.Answer) -> None:
                lib.cohort_comm_fail(handle, Status.WORKER, b"interrupted")
                answer.wait(_library.EXIT_S)
                if not answer.done:
                    _library.kept.append(refs)
            # _inside_of() records the other thread, which may be inside longer than this one.
            answer = _library.aside(partial(self._inside_of, call), give_up)
            status = answer.status
            if status < 0:
                if status == Status.WEDGED:
                    _library.kept.append(refs)
                raise failure(status, _library.cause_of_comm, handle, answer.text)
        if status:
            raise self._refused(status, refs)

    @staticmethod
    def _plain(array: Array, what: str, writable: bool) -> Elements:
        found = look(array, what, writable)
        if found.place not in (HOST, PINNED):
            raise BufferError(f"{what} is on a GPU; use the call without _host")
        return found

    def all_reduce_host(self, data: Array, *, op: AnyOp = Op.SUM,
                        timeout: Optional[float] = None) -> None:
        """Run all_reduce() in place in host memory, and wait for it
        (cohort_all_reduce_host()).

        All _host calls share these rules: timeout is in seconds.  After TimedOut the operation
        continues without the caller, which may reuse the array; its contents are undefined.
        If Ctrl-C interrupts the main thread in the call, the rank fails, and the group ends.
        """
        found = self._plain(data, "data", True)
        self._on_memory(lib.cohort_all_reduce_host, (found.keep, op), found,
                        found.address, found.count, found.type, op_of(op),
                        nanoseconds(timeout))

    def prepare_all_reduce_host(self, data: Array, *, op: AnyOp = Op.SUM) -> PreparedHost:
        """Prepare an all_reduce_host() with fixed arguments and no timeout, to be called
        many times."""
        found = self._plain(data, "data", True)
        return PreparedHost(self, (found.keep, op),
                            lambda: self.all_reduce_host(data, op=op),
                            ctypes.c_void_p(found.address), ctypes.c_size_t(found.count),
                            ctypes.c_int(found.type), ctypes.c_int(op_of(op)),
                            ctypes.c_uint64(FOREVER))

    def broadcast_host(self, data: Array, *, root: int = 0,
                       timeout: Optional[float] = None) -> None:
        """Copy data of rank root to every rank, in host memory (cohort_broadcast_host())."""
        found = self._plain(data, "data", self.rank != root)
        self._on_memory(lib.cohort_broadcast_host, found.keep, found, found.address,
                        found.count, found.type, integer(root, "root"), nanoseconds(timeout))

    def reduce_host(self, data: Array, *, op: AnyOp = Op.SUM, root: int = 0,
                    timeout: Optional[float] = None) -> None:
        """Combine data across ranks, in host memory; only root gets the result
        (cohort_reduce_host())."""
        found = self._plain(data, "data", self.rank == root)
        self._on_memory(lib.cohort_reduce_host, (found.keep, op), found, found.address,
                        found.count, found.type, op_of(op), integer(root, "root"),
                        nanoseconds(timeout))

    def _blocks(self, call: Callable[..., int], part: Array, whole: Array, reads_part: bool,
                everywhere: bool, root: int, *arguments: int) -> None:
        """Make a call in which one array has a block for each rank, such as a gather."""
        names = ("send", "recv") if reads_part else ("recv", "send")
        own = self._plain(part, names[0], not reads_part)
        every = None
        if everywhere or self.rank == root:
            every = self._plain(whole, names[1], reads_part)
            self._want(every, names[1], own.type, own.count * self.size)
        pair = (own.address, every.address if every else None)
        send, recv = pair if reads_part else pair[::-1]
        self._on_memory(call, (own.keep, every and every.keep), every if reads_part else own,
                        send, recv, own.count, own.type, *arguments)

    def all_gather_host(self, send: Array, recv: Array, *,
                        timeout: Optional[float] = None) -> None:
        """Run all_gather() in host memory (cohort_all_gather_host())."""
        self._blocks(lib.cohort_all_gather_host, send, recv, True, True, 0,
                     nanoseconds(timeout))

    def reduce_scatter_host(self, send: Array, recv: Array, *, op: AnyOp = Op.SUM,
                            timeout: Optional[float] = None) -> None:
        """Run reduce_scatter() in host memory (cohort_reduce_scatter_host())."""
        self._blocks(lib.cohort_reduce_scatter_host, recv, send, False, True, 0, op_of(op),
                     nanoseconds(timeout))

    def gather_host(self, send: Array, recv: Array = None, *, root: int = 0,
                    timeout: Optional[float] = None) -> None:
        """Run gather() in host memory (cohort_gather_host())."""
        self._blocks(lib.cohort_gather_host, send, recv, True, False, root, integer(root, "root"),
                     nanoseconds(timeout))

    def scatter_host(self, send: Array = None, recv: Array = None, *, root: int = 0,
                     timeout: Optional[float] = None) -> None:
        """Run scatter() in host memory (cohort_scatter_host())."""
        self._blocks(lib.cohort_scatter_host, recv, send, False, False, root, integer(root, "root"),
                     nanoseconds(timeout))

    def all_to_all_host(self, send: Array, recv: Array, *,
                        timeout: Optional[float] = None) -> None:
        """Run all_to_all() in host memory (cohort_all_to_all_host())."""
        source = self._plain(send, "send", False)
        target = self._plain(recv, "recv", True)
        self._want(target, "recv", source.type, source.count)
        if source.count % self.size:
            raise ValueError(f"send has {source.count} elements, not a multiple of "
                             f"{self.size}")
        self._on_memory(lib.cohort_all_to_all_host, (source.keep, target.keep), target,
                        source.address, target.address, source.count // self.size,
                        source.type, nanoseconds(timeout))

    def send_host(self, send: Array, peer: int, *, timeout: Optional[float] = None) -> None:
        """Send from host memory to one rank (cohort_send_host())."""
        found = self._plain(send, "send", False)
        self._on_memory(lib.cohort_send_host, found.keep, None, found.address, found.count,
                        found.type, integer(peer, "peer"), nanoseconds(timeout))

    def recv_host(self, recv: Array, peer: int, *, timeout: Optional[float] = None) -> None:
        """Receive into host memory from one rank (cohort_recv_host())."""
        found = self._plain(recv, "recv", True)
        self._on_memory(lib.cohort_recv_host, found.keep, found, found.address, found.count,
                        found.type, integer(peer, "peer"), nanoseconds(timeout))

    # ---- splits -------------------------------------------------------------------------

    def split(self, color: Optional[int], key: int = 0) -> "Optional[Comm]":
        """Return a communicator of the ranks that pass the same color, ordered by key
        (cohort_comm_split()); None if color is None.

        Every rank must call.  Blocks until all ranks have called and their earlier calls are
        done.  If Ctrl-C interrupts the main thread in the call, the rank fails.  The new
        communicator ends with this one; close it first."""
        handle = self._live
        number = _abi.NO_COLOR if color is None else integer(color, "color")
        if color is not None and number < 0:
            raise ValueError(f"color is {color}: give None for no communicator")
        place = integer(key, "key")
        made: List[Comm] = []

        def call() -> int:
            child = ctypes.c_void_p()
            status = int(lib.cohort_comm_split(handle, number, place, _byref(child)))
            if child.value:
                made.append(Comm(child.value, self.platform, self))
                self._children.add(made[0])
            return status
        self._interruptible(call, None)
        return made[0] if made else None

    def subset(self, ranks: Sequence[int], identity: bytes, name: Optional[str] = None
               ) -> "Comm":
        """Return a communicator of some ranks of this one (cohort_comm_subset()).

        Only these ranks call, and pass themselves in the order of their new numbers.  identity
        comes from unique_id() on one of them, and is used once.  May run beside other calls on
        this communicator by other threads.  The new communicator ends with this one; close it
        first."""
        handle = self._live
        numbers = [integer(rank, "ranks") for rank in ranks]
        listed = (ctypes.c_int * len(numbers))(*numbers)
        raw = raw_id(identity)
        label = None if name is None else as_bytes(name)
        made: List[Comm] = []

        def call() -> int:
            child = ctypes.c_void_p()
            status = int(lib.cohort_comm_subset(handle, _byref(raw), listed, len(numbers),
                                                label, _byref(child)))
            if child.value:
                made.append(Comm(child.value, self.platform, self))
                self._children.add(made[0])
            return status
        self._interruptible(call, None)
        return made[0]
