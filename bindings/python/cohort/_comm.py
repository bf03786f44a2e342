# SPDX-License-Identifier: Apache-2.0
"""Communicators: a rank's end of its group, and the calls that it makes.

Each method names the function of C that it calls, whose comment in include/cohort is the
contract: what other ranks must do, threads, blocking, results.
"""

import ctypes
import weakref
from threading import get_ident
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _abi, _library
from ._abi import FOREVER, Op, Platform, Scalar, Status, Type
from ._arrays import HOST, PINNED, Elements, Memory, look, stream_of, type_of
from ._errors import Handle
from ._library import Number, Scope, bare, failure, inside, integer, lib, nanoseconds, real, record
from ._rank import Array, Rank, Stream, Ticket, refer

#: A reduction: a member, its name, or a sum that Comm.premul_sum() gives.
AnyOp = Union[Op, str, "PremulSum"]

_OPS = {lib.cohort_op_name(op).decode(): op for op in Op}
_byref = ctypes.byref
# What a number is passed as.
_SCALARS: Dict[Type, Any] = {
    Type.I8: ctypes.c_int8, Type.U8: ctypes.c_uint8, Type.I32: ctypes.c_int32,
    Type.U32: ctypes.c_uint32, Type.I64: ctypes.c_int64, Type.U64: ctypes.c_uint64,
    Type.F32: ctypes.c_float, Type.F64: ctypes.c_double}


def op_of(op: AnyOp) -> int:
    """The number of a reduction."""
    if isinstance(op, PremulSum):
        return op.number
    try:
        return _OPS[op] if isinstance(op, str) else int(Op(integer(op, "op")))
    except (KeyError, ValueError):
        raise ValueError(f"op is {op!r}, not one of {', '.join(_OPS)}") from None


class Batch(Scope):
    """An open batch, which Comm.batch() gives; ticket is one for all of its calls."""

    def __init__(self, comm: "Comm", stream: int) -> None:
        super().__init__(comm, (lib.cohort_batch_begin, comm._live),
                         (lib.cohort_batch_end, comm._live, stream, None))
        self._comm = comm
        self._inside = comm._inside
        self.ticket = Ticket(comm, 0)
        self.stream = stream  #: where it is launched
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
        """Launch nothing: a call that C refuses keeps the end from doing so."""
        if self.open and self._comm._handle:
            lib.cohort_all_reduce(self._comm._live, None, None, 0, -1, 0, None, None)
        super()._leave()


class PremulSum(Handle):
    """A sum for which each rank multiplies its input first; see Comm.premul_sum()."""

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
    """A call that raises BufferError once memory among its arrays was freed."""
    memories = [one for one in refs if isinstance(one, Memory)]

    def guarded(*arguments: Any) -> int:
        for memory in memories:
            memory._elements("an array of the prepared call")
        return call(*arguments)
    if memories:
        return guarded
    return call


class PreparedHost(Handle):
    """An all-reduce in memory of the process, to be made again and again.

    One call of C, so that ranks change threads once for each and not twice: the fastest
    way on the host platform.
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
        """Make the call and wait for its end, as all_reduce_host() does."""
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
    """A collective with its arguments, to be called again and again.

    The arrays were looked at once: what they are must not change, and no call waits for
    the stream that computes them: Comm.after_stream() does.  One thread at a time, as for
    the communicator.  Costs less than the method that it stands for.
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
        """Make the call."""
        comm = self._comm
        cell = comm._noted(self._refs)
        comm._submitted(cell, self._submit(_byref(cell)) if comm._handle else Status.STATE,
                        self._refs)
        return Ticket(comm, cell)

    def run(self) -> None:
        """Make the call and wait for its end, without a timeout."""
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
    """A rank's end of its group.

    Group.run() gives one to each worker, Group.split() one for each thread of one's own,
    join() one for a rank that joins by id, and split() one of some of the ranks.

    Arrays are what speaks the buffer protocol, DLPack or __cuda_array_interface__, in C's
    order and in the memory of the rank's device: host memory on the host platform.  An
    array that is in use stays alive until its ticket is answered, whether or not the
    program still has it; its contents must not be touched until then.  Where recv is
    None, the call works in place.

    A call goes to the communicator's own stream, or to stream: a number (a cudaStream_t,
    0 for the legacy default stream), or a stream of PyTorch's or CuPy's.  An array of
    DLPack's has that stream wait for the array's own; the other way round Ticket.after()
    has a stream wait for the call.

    One thread at a time may call; what is said to be for any thread may overlap.
    As a context manager a communicator is closed at the end; if an exception ends the
    block, the rank fails first, as others may wait for it.  A worker's communicator needs
    no closing.
    """

    def __init__(self, handle: int, platform: Platform, owner: object = None) -> None:
        super().__init__(handle, platform, owner)
        self._batch: "Optional[weakref.ref[Batch]]" = None

    # ---- arrays -------------------------------------------------------------------

    def _pair(self, send: Array, recv: Array, stream: int, ratio_send: int = 1,
              ratio_recv: int = 1) -> Tuple[Elements, Elements, int]:
        """What is read, what is written, and the count that C takes.

        They have the count times their ratio of elements.
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
                f"recv has {target.count} elements, and send {source.count}: they must be "
                f"{'as many' if ratio_send == ratio_recv else f'{ratio_recv} to {ratio_send}'}"
            )
        return source, target, source.count // ratio_send

    def _open_batch(self) -> Optional[Batch]:
        batch = self._batch() if self._batch is not None else None
        return batch if batch is not None and batch.open else None

    def _uses(self, what: object) -> bool:
        batch = self._open_batch() if self._batch is not None else None
        return batch is not None and refer(batch._refs, what) or super()._uses(what)

    def _noted(self, refs: object) -> Number:
        """A cell for the number of a call's ticket: Ctrl-C may come once it is queued."""
        if self._dropped:
            self._give_back_dropped()
        cell = Number()
        self._held[cell] = refs
        return cell

    def _submitted(self, cell: Number, status: int, refs: object) -> None:
        """The call was made, or refused."""
        if status or cell.value == _abi.CAPTURED:
            self._held.pop(cell, None)
            if status:
                raise self._refused(status, refs)
        if len(self._held) > self._most:
            self._trim()

    @inside
    def _submit(self, call: Callable[..., int], refs: object, *arguments: object) -> Ticket:
        """Make a call whose last argument is the ticket."""
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
        """all_reduce() with these arguments, for a program that makes it often."""
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
        if recv is None and self.rank == root:  # only read, and may be read-only
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

        Elsewhere recv may be None, and send is only read."""
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
        """Collect every rank's send in every rank's recv, in rank order
        (cohort_all_gather()); recv has size times as many elements."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue, 1, self.size)
        return self._submit(lib.cohort_all_gather, (source.keep, target.keep),
                            source.address, target.address, count, source.type, queue)

    def reduce_scatter(self, send: Array, recv: Array, *, op: AnyOp = Op.SUM,
                       stream: Stream = None) -> Ticket:
        """Combine send across ranks; each keeps its block in recv
        (cohort_reduce_scatter()); send has size times as many elements."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue, self.size, 1)
        return self._submit(lib.cohort_reduce_scatter, (source.keep, target.keep, op),
                            source.address, target.address, count, source.type, op_of(op),
                            queue)

    def gather(self, send: Array, recv: Array = None, *, root: int = 0,
               stream: Stream = None) -> Ticket:
        """Collect every rank's send in recv of rank root (cohort_gather()).

        There recv has size times as many elements; elsewhere it may be None."""
        queue = self._stream(stream)
        source, target, count = self._one_sided(send, recv, root, queue, True)
        return self._submit(lib.cohort_gather, (source.keep, target.keep), source.address,
                            target.address, count, source.type, integer(root, "root"), queue)

    def scatter(self, send: Array = None, recv: Array = None, *, root: int = 0,
                stream: Stream = None) -> Ticket:
        """Give every rank its block of root's send in recv (cohort_scatter()).

        There send has size times as many elements; elsewhere it may be None."""
        queue = self._stream(stream)
        target, source, count = self._one_sided(recv, send, root, queue, False)
        return self._submit(lib.cohort_scatter, (source.keep, target.keep), source.address,
                            target.address, count, target.type, integer(root, "root"), queue)

    def _one_sided(self, part: Array, whole: Array, root: int, stream: int, reads_part: bool
                   ) -> Tuple[Elements, Elements, int]:
        """The arrays of a gather or scatter, of which the whole matters on root alone."""
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
        """Every rank gives every rank a block (cohort_all_to_all()); both have size
        blocks, and must not overlap."""
        queue = self._stream(stream)
        source, target, count = self._pair(send, recv, queue)
        if count % self.size:
            raise ValueError(f"send has {count} elements, not a multiple of {self.size}")
        return self._submit(lib.cohort_all_to_all, (source.keep, target.keep),
                            source.address, target.address, count // self.size, source.type,
                            queue)

    def barrier(self, *, stream: Stream = None) -> Ticket:
        """A ticket that is done when every rank has come (cohort_barrier())."""
        return self._submit(lib.cohort_barrier, None, self._stream(stream))

    def send(self, send: Array, peer: int, *, stream: Stream = None) -> Ticket:
        """Give an array to one rank (cohort_send())."""
        queue = self._stream(stream)
        found = self._array(send, "send", False, queue)
        return self._submit(lib.cohort_send, found.keep, found.address, found.count,
                            found.type, integer(peer, "peer"), queue)

    def recv(self, recv: Array, peer: int, *, stream: Stream = None) -> Ticket:
        """Get an array from one rank (cohort_recv())."""
        queue = self._stream(stream)
        found = self._array(recv, "recv", True, queue)
        return self._submit(lib.cohort_recv, found.keep, found.address, found.count,
                            found.type, integer(peer, "peer"), queue)

    # ---- lists of arrays ------------------------------------------------------------

    def _many(self, call: Callable[..., int], arrays: Sequence[Array], stream: int,
              ratio_send: int, ratio_recv: int, *arguments: int) -> Ticket:
        arrays = list(arrays)
        tensors = (_abi.cohort_tensor * len(arrays))()
        refs: List[object] = []
        for i, item in enumerate(arrays):
            send, recv = item if isinstance(item, tuple) else (item, None)
            try:
                source, target, count = self._pair(send, recv, stream, ratio_send,
                                                   ratio_recv)
            except (TypeError, ValueError, BufferError) as error:
                raise type(error)(f"array {i}: {error}") from error
            tensors[i] = _abi.cohort_tensor(source.address, target.address, count, source.type)
            refs += source.keep, target.keep
        return self._submit(call, refs, tensors, len(arrays), *arguments, stream)

    def all_reduce_many(self, arrays: Sequence[Array], *, op: AnyOp = Op.SUM,
                        stream: Stream = None) -> Ticket:
        """all_reduce() of several arrays as one operation (cohort_all_reduce_many()).

        Each is an array, or a pair (send, recv); they may differ in type."""
        return self._many(lib.cohort_all_reduce_many, arrays, self._stream(stream), 1, 1,
                          op_of(op))

    def broadcast_many(self, arrays: Sequence[Array], *, root: int = 0,
                       stream: Stream = None) -> Ticket:
        """broadcast() of several arrays as one operation (cohort_broadcast_many())."""
        return self._many(lib.cohort_broadcast_many, arrays, self._stream(stream), 1, 1,
                          integer(root, "root"))

    def all_gather_many(self, arrays: Sequence[Tuple[Array, Array]], *,
                        stream: Stream = None) -> Ticket:
        """all_gather() of several pairs as one operation (cohort_all_gather_many())."""
        return self._many(lib.cohort_all_gather_many, arrays, self._stream(stream), 1,
                          self.size)

    def reduce_scatter_many(self, arrays: Sequence[Tuple[Array, Array]], *,
                            op: AnyOp = Op.SUM, stream: Stream = None) -> Ticket:
        """reduce_scatter() of several pairs as one operation
        (cohort_reduce_scatter_many())."""
        return self._many(lib.cohort_reduce_scatter_many, arrays, self._stream(stream),
                          self.size, 1, op_of(op))

    # ---- batches, reductions --------------------------------------------------------

    def batch(self, *, stream: Stream = None) -> Batch:
        """The calls inside are one operation, launched at the end of the block
        (cohort_batch_begin(), cohort_batch_end()).

        They take no stream of their own, and their tickets are the batch's, which can be
        asked about after the block.  If an exception ends the block, nothing is launched.
        """
        return Batch(self, self._stream(stream))

    def premul_sum(self, scalar: Union[float, Array], kind: Union[Type, str] = Type.F32
                   ) -> PremulSum:
        """A reduction that multiplies this rank's input by scalar before it adds
        (cohort_premul_sum_create()).

        scalar is a number, of which kind says the type, or an array of one element on the
        rank's device, which is read by each call.  A context manager, whose end destroys
        it; it may be destroyed once the last call with it has returned.
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

    def _on_memory(self, call: Callable[..., int], refs: object, *arguments: object) -> None:
        """A call with host memory, which waits for its end."""
        handle = self._live
        self._interruptible(lambda: call(handle, *arguments), refs)

    @inside
    def _inside_of(self, call: Callable[[], int]) -> int:
        return call()

    @inside
    def _interruptible(self, call: Callable[[], int], refs: object) -> None:
        """A call that waits for other ranks; refs are the arrays that it uses."""
        handle = self._live
        if self._bound or not _library.on_main():
            status = call()
        else:
            def give_up(answer: _library.Answer) -> None:
                lib.cohort_comm_fail(handle, Status.WORKER, b"interrupted")
                answer.wait(_library.EXIT_S)
                if not answer.done:
                    _library.kept.append(refs)
            # The other thread may be inside for longer than this one.
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
            raise BufferError(f"{what} is on a GPU: the call without _host takes it")
        return found

    def all_reduce_host(self, data: Array, *, op: AnyOp = Op.SUM,
                        timeout: Optional[float] = None) -> None:
        """all_reduce() in place, in memory of the process, and wait for its end
        (cohort_all_reduce_host()).

        As all calls with _host: timeout is in seconds.  After TimedOut the operation goes
        on without the caller, whose array is its own again and undefined.  If Ctrl-C
        interrupts the main thread here, the rank fails, and the group ends.
        """
        found = self._plain(data, "data", True)
        self._on_memory(lib.cohort_all_reduce_host, (found.keep, op), found.address,
                        found.count, found.type, op_of(op), nanoseconds(timeout))

    def prepare_all_reduce_host(self, data: Array, *, op: AnyOp = Op.SUM) -> PreparedHost:
        """all_reduce_host() with these arguments and no timeout, for a program that makes
        it often."""
        found = self._plain(data, "data", True)
        return PreparedHost(self, (found.keep, op),
                            lambda: self.all_reduce_host(data, op=op),
                            ctypes.c_void_p(found.address), ctypes.c_size_t(found.count),
                            ctypes.c_int(found.type), ctypes.c_int(op_of(op)),
                            ctypes.c_uint64(FOREVER))

    def broadcast_host(self, data: Array, *, root: int = 0,
                       timeout: Optional[float] = None) -> None:
        """Copy data of rank root to every rank (cohort_broadcast_host())."""
        found = self._plain(data, "data", self.rank != root)
        self._on_memory(lib.cohort_broadcast_host, found.keep, found.address, found.count,
                        found.type, integer(root, "root"), nanoseconds(timeout))

    def reduce_host(self, data: Array, *, op: AnyOp = Op.SUM, root: int = 0,
                    timeout: Optional[float] = None) -> None:
        """Combine data across ranks, result on rank root (cohort_reduce_host())."""
        found = self._plain(data, "data", self.rank == root)
        self._on_memory(lib.cohort_reduce_host, (found.keep, op), found.address,
                        found.count, found.type, op_of(op), integer(root, "root"),
                        nanoseconds(timeout))

    def _blocks(self, call: Callable[..., int], part: Array, whole: Array, reads_part: bool,
                everywhere: bool, root: int, *arguments: int) -> None:
        """A call in which one side has a block of each rank."""
        names = ("send", "recv") if reads_part else ("recv", "send")
        own = self._plain(part, names[0], not reads_part)
        every = None
        if everywhere or self.rank == root:
            every = self._plain(whole, names[1], reads_part)
            self._want(every, names[1], own.type, own.count * self.size)
        pair = (own.address, every.address if every else None)
        send, recv = pair if reads_part else pair[::-1]
        self._on_memory(call, (own.keep, every and every.keep), send, recv, own.count,
                        own.type, *arguments)

    def all_gather_host(self, send: Array, recv: Array, *,
                        timeout: Optional[float] = None) -> None:
        """all_gather() in memory of the process (cohort_all_gather_host())."""
        self._blocks(lib.cohort_all_gather_host, send, recv, True, True, 0,
                     nanoseconds(timeout))

    def reduce_scatter_host(self, send: Array, recv: Array, *, op: AnyOp = Op.SUM,
                            timeout: Optional[float] = None) -> None:
        """reduce_scatter() in memory of the process (cohort_reduce_scatter_host())."""
        self._blocks(lib.cohort_reduce_scatter_host, recv, send, False, True, 0, op_of(op),
                     nanoseconds(timeout))

    def gather_host(self, send: Array, recv: Array = None, *, root: int = 0,
                    timeout: Optional[float] = None) -> None:
        """gather() in memory of the process (cohort_gather_host())."""
        self._blocks(lib.cohort_gather_host, send, recv, True, False, root, integer(root, "root"),
                     nanoseconds(timeout))

    def scatter_host(self, send: Array = None, recv: Array = None, *, root: int = 0,
                     timeout: Optional[float] = None) -> None:
        """scatter() in memory of the process (cohort_scatter_host())."""
        self._blocks(lib.cohort_scatter_host, recv, send, False, False, root, integer(root, "root"),
                     nanoseconds(timeout))

    def all_to_all_host(self, send: Array, recv: Array, *,
                        timeout: Optional[float] = None) -> None:
        """all_to_all() in memory of the process (cohort_all_to_all_host())."""
        source = self._plain(send, "send", False)
        target = self._plain(recv, "recv", True)
        self._want(target, "recv", source.type, source.count)
        if source.count % self.size:
            raise ValueError(f"send has {source.count} elements, not a multiple of "
                             f"{self.size}")
        self._on_memory(lib.cohort_all_to_all_host, (source.keep, target.keep),
                        source.address, target.address, source.count // self.size,
                        source.type, nanoseconds(timeout))

    def send_host(self, send: Array, peer: int, *, timeout: Optional[float] = None) -> None:
        """send() from memory of the process (cohort_send_host())."""
        found = self._plain(send, "send", False)
        self._on_memory(lib.cohort_send_host, found.keep, found.address, found.count,
                        found.type, integer(peer, "peer"), nanoseconds(timeout))

    def recv_host(self, recv: Array, peer: int, *, timeout: Optional[float] = None) -> None:
        """recv() into memory of the process (cohort_recv_host())."""
        found = self._plain(recv, "recv", True)
        self._on_memory(lib.cohort_recv_host, found.keep, found.address, found.count,
                        found.type, integer(peer, "peer"), nanoseconds(timeout))

    # ---- parts of the group -------------------------------------------------------------

    def split(self, color: Optional[int], key: int = 0) -> "Optional[Comm]":
        """A communicator of the ranks that give the same color, ordered by key; None for
        none (cohort_comm_split()).

        Every rank must call.  Blocks until all have, and what they have called before is
        done.  If Ctrl-C interrupts the main thread here, the rank fails.  The new one ends
        with this one; close it before."""
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
