# SPDX-License-Identifier: Apache-2.0
"""The reducer: averages gradients while the backward pass is still running."""

import contextlib
import ctypes
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _abi, _library
from ._abi import Op, Status, Type
from ._arrays import CUDA, HOST, SPELLINGS, Elements, stream_of, type_of
from ._comm import Comm, op_of
from ._errors import CohortError, Handle
from ._library import inside, integer, lib, nanoseconds, real
from ._rank import Array, Stream, as_bytes, describe

_byref = ctypes.byref


@dataclass
class ReducerOptions:
    """Options of a reducer (struct cohort_reducer_options)."""

    first_bytes: int = 0  #: size of the first bucket of each element type; 0 is 1 MiB
    bucket_bytes: int = 0  #: size of the other buckets; 0 is 25 MiB
    op: Op = Op.AVG  #: AVG or SUM
    weighted: bool = False  #: scale each rank's gradients by the weight given to begin()
    find_unused: bool = False  #: count gradients that are not ready as zeros
    keep_plan: bool = False
    helpers_launch: Optional[bool] = None  #: None is False, but True for Gradients on a GPU
    sharded: bool = False  #: leave each rank with only its shard of the gradients
    full_buckets: bool = False


@dataclass
class Parameter:
    """A parameter of a model, whose gradient the reducer averages.

    gradient is an array on the rank's device.  If it is None, the reducer allocates count
    elements of the given type, which Reducer.view() returns.
    """

    name: str = ""
    gradient: Array = None
    count: int = 0
    type: Union[Type, str] = Type.F32


class View:
    """A gradient in the reducer's memory, accepted as an array like Memory."""

    def __init__(self, owner: object, address: int, count: int, kind: Type, on_host: bool
                 ) -> None:
        self._owner = owner
        self.type = kind
        self.dtype = lib.cohort_type_name(kind).decode()  # typestr may name an integer instead
        self._facts = {"shape": (count,), "typestr": SPELLINGS[kind],
                       "data": (address, False), "version": 3}
        self._on_host = on_host

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if not self._on_host:
            raise AttributeError("the memory is on a GPU")
        return self._facts

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._on_host:
            raise AttributeError("the memory is in the host")
        return self._facts


class Step:
    """A step opened by Reducer.step(); after the block, ok says whether to update weights."""

    ok: Optional[bool] = None


class Reducer(Handle):
    """Averages the gradients of a rank's parameters with those of all other ranks
    (cohort_reducer_create()).

    parameters lists the model's parameters in the order of the forward pass, each as a
    gradient (an array on the rank's device) or a Parameter.  All ranks must pass the same
    parameters and options.  The reducer keeps the gradients alive; do not move them.  A
    step::

        with reducer.step():
            for i in reversed(range(n)):
                ...                      # compute the gradient of parameter i
                reducer.ready(i)
        ...                              # the gradients are averaged over all ranks

    Only the thread that began the step may call, except that any thread may call ready().
    As a context manager, the reducer is freed at the end of the block; if a step is open,
    the rank fails first.  A reducer that is only dropped is freed at once if no step is open,
    and otherwise with its communicator.
    """

    def __init__(self, comm: Comm, parameters: Sequence[Union[Array, Parameter]],
                 options: Optional[ReducerOptions] = None) -> None:
        options = checked(options)
        self._comm = comm
        self._inside = comm._inside
        self._keep: List[object] = []
        self._open = False
        raw = (_abi.cohort_parameter * len(parameters))()
        self._parts: List[Tuple[int, Type]] = []
        for i, item in enumerate(parameters):
            part = item if isinstance(item, Parameter) else Parameter(gradient=item)
            kind, count, address = type_of(part.type), part.count, None
            if part.gradient is not None:
                found = comm._array(part.gradient, f"parameters[{i}]", True, comm.stream)
                kind, count, address = found.type, found.count, found.address
                self._keep.append(found.keep)
            name = as_bytes(part.name, f"parameters[{i}].name") or None
            count = integer(count, f"parameters[{i}].count", ctypes.c_size_t)
            raw[i] = _abi.cohort_parameter(name, address, count, kind)
            self._parts.append((count, kind))
        self._own = len(self._keep)
        # Not released with this object, because calls in flight may still write to them.
        cell = ctypes.c_void_p()
        self._owned = comm._own(self, cell, self._keep, lib.cohort_reducer_free)
        comm._check(lib.cohort_reducer_create(
            comm._live, raw, len(parameters), _byref(_raw_options(options)), _byref(cell)))

    @property
    def _handle(self) -> int:
        return self._owned.handle if self._comm._handle else 0

    @property
    def _live(self) -> int:
        if not self._handle:
            raise _library.failure(Status.STATE, text="the reducer was freed")
        return self._handle

    def _stream(self, stream: Stream) -> int:
        return stream_of(stream, self._comm.stream)

    def _index(self, i: int) -> int:
        """Return the number of a parameter, after a range check."""
        if not 0 <= integer(i, "i", ctypes.c_ssize_t) < len(self._parts):
            raise IndexError(f"i is {i}, not 0 to {len(self._parts) - 1}")
        return i

    # ---- a step -------------------------------------------------------------------------

    @inside
    def begin(self, stream: Stream = None, *, weight: Optional[float] = None) -> None:
        """Begin a step (cohort_reducer_begin(), cohort_reducer_begin_weighted()).

        stream is the stream that computes the gradients; None if host threads compute them.
        weight is required by a weighted reducer, for example the number of samples in this
        rank's batch."""
        queue = self._stream(stream)
        if weight is not None:
            weight = real(weight, "weight")
        handle, was_open = self._live, self._open
        self._open = True  # before the call, because Ctrl-C may interrupt its return
        if weight is None:
            status = lib.cohort_reducer_begin(handle, queue)
        else:
            status = lib.cohort_reducer_begin_weighted(handle, weight, queue)
        self._open = was_open or status >= 0
        self._comm._check(status)

    @inside
    def accumulate(self) -> None:
        """Begin a pass without communication (cohort_reducer_accumulate()).

        The program adds up the gradients of these passes.  finish() ends a pass."""
        self._comm._check(lib.cohort_reducer_accumulate(self._live))

    @inside
    def ready(self, i: int) -> bool:
        """Mark the gradient of parameter i as computed, or as queued on the step's stream
        (cohort_reducer_ready()).

        Returns False if the gradient was already marked in this step.  Any thread."""
        return self._comm._check(lib.cohort_reducer_ready(
            self._live, self._index(i))) == Status.OK

    @inside
    def progress(self, timeout: float = 0.0) -> bool:
        """Launch the buckets that other threads have completed (cohort_reducer_progress()).

        Waits up to timeout seconds for the remaining buckets.  Returns False if some gradients
        are still not ready."""
        call = partial(lib.cohort_reducer_progress, self._live)
        return self._comm._check(_library.wait(call, nanoseconds(timeout))) == Status.OK

    def _ended(self, call: Any, timeout: Optional[float]) -> int:
        limit = nanoseconds(timeout)
        status = _library.wait(partial(call, self._live), limit)
        if status in (Status.OK, Status.SKIP, Status.JOINED):
            self._open = False
        if status == Status.TIMED_OUT:
            raise self._comm._fail(status)
        return self._comm._check(status)

    @inside
    def finish(self, timeout: Optional[float] = None) -> bool:
        """Wait until the step's gradients are averaged over all ranks
        (cohort_reducer_finish()).

        Returns True if the weights should be updated.  Returns False on all ranks if all
        weights are 0 or a rank has canceled the step; then update nothing.  timeout is in
        seconds; after TimedOut the step continues, so call it again."""
        return self._ended(lib.cohort_reducer_finish, timeout) == Status.OK

    @inside
    def cancel(self, timeout: Optional[float] = None) -> bool:
        """Give up a step that this rank cannot complete (cohort_reducer_cancel()).

        The other ranks' finish() then returns False.  Returns False if every gradient was
        ready, in which case finish() must be called instead."""
        return self._ended(lib.cohort_reducer_cancel, timeout) == Status.OK

    @contextlib.contextmanager
    def step(self, stream: Stream = None, *, weight: Optional[float] = None
             ) -> Iterator[Step]:
        """Run begin() and finish() around a with block; Step.ok is the result of finish().

        An exception in the block cancels the step, so that the other ranks' finish() returns
        False.  If the group has ended, no rank waits, and nothing is canceled."""
        self.begin(stream, weight=weight)
        step = Step()
        try:
            yield step
        except Exception:
            if self._open and self._comm.cause is None:
                with contextlib.suppress(CohortError):
                    if not self.cancel():
                        self.finish()
            raise
        step.ok = self.finish()

    @inside
    def finish_on(self, stream: Stream) -> None:
        """Make a stream wait for the averaged gradients (cohort_reducer_finish_on()).

        Ends the step without blocking this thread on the result."""
        self._comm._check(lib.cohort_reducer_finish_on(self._live, self._stream(stream)))
        self._open = False

    @inside
    def join(self, timeout: Optional[float] = None) -> Optional[bool]:
        """Take part in a step of the other ranks without a batch (cohort_reducer_join()).

        Returns the result of finish(), or None once every rank has called join() and no step
        is left.  timeout is in seconds."""
        status = self._ended(lib.cohort_reducer_join, timeout)
        return None if status == Status.JOINED else status == Status.OK

    @inside
    def gather(self, parameters: Sequence[Array], stream: Stream = None, *,
               timeout: Optional[float] = None) -> None:
        """Copy every rank's shards of all parameters to every rank (cohort_reducer_gather()).

        parameters has one array per parameter, in which this rank's shard is set.  timeout
        is in seconds."""
        queue = self._stream(stream)
        if len(parameters) != len(self._parts):
            raise ValueError(f"parameters has {len(parameters)} arrays, not "
                             f"{len(self._parts)}")
        pointers = (ctypes.c_void_p * len(parameters))()
        found: List[Elements] = []
        for i, (array, (count, kind)) in enumerate(zip(parameters, self._parts)):
            found.append(self._comm._array(array, f"parameters[{i}]", True, queue))
            Comm._want(found[i], f"parameters[{i}]", kind, count)
            pointers[i] = found[i].address
        # Keep the arrays before the call, because Ctrl-C may come during it.
        keep = [one.keep for one in found]
        self._keep.append(keep)
        status = _library.wait(lambda limit: int(lib.cohort_reducer_gather(
            self._live, pointers, queue, limit)), nanoseconds(timeout))
        if status == Status.OK:  # earlier attempts are done as well
            del self._keep[self._own:]
        elif status not in (Status.TIMED_OUT, Status.BUSY, Status.WEDGED):
            self._keep[:] = [one for one in self._keep if one is not keep]
        if status != Status.OK:
            raise self._comm._fail(status)

    # ---- facts ----------------------------------------------------------------------------

    def shard(self, i: int) -> slice:
        """Return the elements of parameter i that this rank owns (cohort_reducer_shard())."""
        first, count = ctypes.c_size_t(), ctypes.c_size_t()
        self._comm._check(lib.cohort_reducer_shard(self._live, self._index(i),
                                                   _byref(first), _byref(count)))
        return slice(first.value, first.value + count.value)

    def view(self, i: int) -> View:
        """Return the gradient of parameter i as an array (cohort_reducer_view()).

        It is valid as long as the reducer, and is accepted wherever a Memory is."""
        address = lib.cohort_reducer_view(self._live, self._index(i))
        count, kind = self._parts[i]
        return View(self, address or 0, count, kind, self._comm._on_host)

    def used(self, i: int) -> Optional[bool]:
        """Return whether any rank had gradient i ready in the last step
        (cohort_reducer_used()); None without find_unused."""
        said = lib.cohort_reducer_used(self._live, self._index(i))
        return None if said < 0 else bool(said)

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return int(lib.cohort_reducer_buckets(self._live))

    def bucket(self, i: int) -> int:
        """Return the number of parameter i's bucket; buckets are numbered by launch order."""
        return int(lib.cohort_reducer_bucket(self._live, self._index(i)))

    # ---- teardown ---------------------------------------------------------------------------

    def free(self) -> None:
        """Free the reducer and the gradients that it allocated (cohort_reducer_free()).

        Raises StateError in a step that has not failed.  Freeing a freed reducer does
        nothing."""
        status = self._free()
        if status < 0:
            raise self._comm._fail(status)

    def _free(self) -> int:
        return self._comm._disown(self._owned) if self._handle else int(Status.OK)

    def __enter__(self) -> "Reducer":
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException],
                 trace: object) -> None:
        if not self._handle or not self._comm._handle:
            return
        if self._open and self._comm.cause is None:
            why = describe(error) if error else "its reducer was freed in a step"
            lib.cohort_comm_fail(self._comm._handle, Status.WORKER, as_bytes(why))
        if kind is None:
            self.free()
        else:
            self._free()


def checked(options: Optional[ReducerOptions]) -> ReducerOptions:
    """Return the options, or the defaults for None."""
    options = ReducerOptions() if options is None else options
    if not isinstance(options, ReducerOptions):
        raise TypeError(f"options is {options!r}, not cohort.ReducerOptions")
    return options


def _raw_options(options: ReducerOptions) -> _abi.cohort_reducer_options:
    raw = _abi.cohort_reducer_options(size=ctypes.sizeof(_abi.cohort_reducer_options))
    kinds = {field[0]: field[1] for field in raw._fields_}
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name == "helpers_launch":
            value = integer(value or 0, field.name, flag=True)
        elif field.name == "op":
            value = op_of(value)
        else:
            value = integer(value, field.name, kinds[field.name],
                            isinstance(field.default, bool))
        setattr(raw, field.name, value)
    return raw
