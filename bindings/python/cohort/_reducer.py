# SPDX-License-Identifier: Apache-2.0
"""The reducer: gradients, averaged while the backward pass goes on."""

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

    first_bytes: int = 0  #: of the first bucket of each type; 0: 1 MiB
    bucket_bytes: int = 0  #: of the others; 0: 25 MiB
    op: Op = Op.AVG  #: or SUM
    weighted: bool = False  #: each rank's gradients count with a weight
    find_unused: bool = False  #: gradients that are not ready take part as zeros
    keep_plan: bool = False
    helpers_launch: Optional[bool] = None  #: None: False; True for pytorch.Gradients on a GPU
    sharded: bool = False  #: each rank is left with its part of the gradients
    full_buckets: bool = False


@dataclass
class Parameter:
    """A parameter of a model, whose gradient the reducer handles.

    gradient is an array of the rank's device; or None: the reducer has one of count
    elements of a type, which Reducer.view() gives.
    """

    name: str = ""
    gradient: Array = None
    count: int = 0
    type: Union[Type, str] = Type.F32


class View:
    """A gradient in the reducer's memory, as an array (see Memory)."""

    def __init__(self, owner: object, address: int, count: int, kind: Type, on_host: bool
                 ) -> None:
        self._owner = owner
        self.type = kind
        self.dtype = lib.cohort_type_name(kind).decode()  # where the spelling is of its bits
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
    """A step of Reducer.step(): once it is over, ok says whether to update the weights."""

    ok: Optional[bool] = None


class Reducer(Handle):
    """Averages the gradients of a rank's parameters with those of the other ranks
    (cohort_reducer_create()).

    parameters are those of the model, in the order of the forward pass: gradients (arrays
    of the rank's device) or Parameter.  They must be alike on all ranks, and so must the
    options.  The gradients are kept alive, and must stay where they are.  A step::

        with reducer.step():
            for i in reversed(range(n)):
                ...                      # compute the gradient of parameter i
                reducer.ready(i)
        ...                              # the gradients are those of all ranks

    Calls are for one thread, the one that has begun the step; only ready() is for any.
    A context manager, whose end frees it; in the middle of a step the rank fails first.
    One that is merely dropped is freed if no step is open, or else with its communicator.
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
        # Not given back with this object: what is in flight may still write to them.
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
        """The number of a parameter."""
        if not 0 <= integer(i, "i", ctypes.c_ssize_t) < len(self._parts):
            raise IndexError(f"i is {i}, not 0 to {len(self._parts) - 1}")
        return i

    # ---- a step -------------------------------------------------------------------------

    @inside
    def begin(self, stream: Stream = None, *, weight: Optional[float] = None) -> None:
        """Begin a step (cohort_reducer_begin(), cohort_reducer_begin_weighted()).

        stream is where the gradients are computed; None: by threads of the host.  weight
        is for a weighted reducer: the samples of this rank's batch, say."""
        queue = self._stream(stream)
        if weight is not None:
            weight = real(weight, "weight")
        handle, was_open = self._live, self._open
        self._open = True  # before the call: Ctrl-C may come after it
        if weight is None:
            status = lib.cohort_reducer_begin(handle, queue)
        else:
            status = lib.cohort_reducer_begin_weighted(handle, weight, queue)
        self._open = was_open or status >= 0
        self._comm._check(status)

    @inside
    def accumulate(self) -> None:
        """Begin a pass without communication, whose gradients the program adds up
        (cohort_reducer_accumulate()); finish() ends it."""
        self._comm._check(lib.cohort_reducer_accumulate(self._live))

    @inside
    def ready(self, i: int) -> bool:
        """The gradient of parameter i is computed, or queued on the step's stream
        (cohort_reducer_ready()); False if it was ready in this step.  Any thread."""
        return self._comm._check(lib.cohort_reducer_ready(
            self._live, self._index(i))) == Status.OK

    @inside
    def progress(self, timeout: float = 0.0) -> bool:
        """Launch what other threads have completed (cohort_reducer_progress()); False:
        some gradients are not ready."""
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
        """Wait until the step's gradients are those of all ranks
        (cohort_reducer_finish()).

        True: update the weights.  False: do not, and no rank does (all weights are 0, or a
        rank has cancelled the step).  TimedOut: the step goes on, call it again."""
        return self._ended(lib.cohort_reducer_finish, timeout) == Status.OK

    @inside
    def cancel(self, timeout: Optional[float] = None) -> bool:
        """Give up a step that this rank cannot complete (cohort_reducer_cancel()); the
        others' finish() returns False.  False: every gradient is ready, so finish it."""
        return self._ended(lib.cohort_reducer_cancel, timeout) == Status.OK

    @contextlib.contextmanager
    def step(self, stream: Stream = None, *, weight: Optional[float] = None
             ) -> Iterator[Step]:
        """begin() and finish() around the block, whose Step says what finish() returned.

        An exception in the block cancels the step, so that the others' finish() returns
        False; where the group has ended it does not, as nobody waits."""
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
        """Have a stream wait, not the thread (cohort_reducer_finish_on())."""
        self._comm._check(lib.cohort_reducer_finish_on(self._live, self._stream(stream)))
        self._open = False

    @inside
    def join(self, timeout: Optional[float] = None) -> Optional[bool]:
        """Take part in a step of the others without a batch (cohort_reducer_join()).

        True, False: as finish().  None: every rank has called this, and there is no step
        left."""
        status = self._ended(lib.cohort_reducer_join, timeout)
        return None if status == Status.JOINED else status == Status.OK

    @inside
    def gather(self, parameters: Sequence[Array], stream: Stream = None, *,
               timeout: Optional[float] = None) -> None:
        """Give every rank the shards of all parameters (cohort_reducer_gather())."""
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
        # Ctrl-C may come while it goes on.
        keep = [one.keep for one in found]
        self._keep.append(keep)
        status = _library.wait(lambda limit: int(lib.cohort_reducer_gather(
            self._live, pointers, queue, limit)), nanoseconds(timeout))
        if status == Status.OK:  # and so are those of earlier tries
            del self._keep[self._own:]
        elif status not in (Status.TIMED_OUT, Status.BUSY, Status.WEDGED):
            self._keep[:] = [one for one in self._keep if one is not keep]
        if status != Status.OK:
            raise self._comm._fail(status)

    # ---- facts ----------------------------------------------------------------------------

    def shard(self, i: int) -> slice:
        """Which elements of parameter i are this rank's (cohort_reducer_shard())."""
        first, count = ctypes.c_size_t(), ctypes.c_size_t()
        self._comm._check(lib.cohort_reducer_shard(self._live, self._index(i),
                                                   _byref(first), _byref(count)))
        return slice(first.value, first.value + count.value)

    def view(self, i: int) -> View:
        """The gradient of parameter i as an array, valid as long as the reducer
        (cohort_reducer_view()): what takes a Memory takes it."""
        address = lib.cohort_reducer_view(self._live, self._index(i))
        count, kind = self._parts[i]
        return View(self, address or 0, count, kind, self._comm._on_host)

    def used(self, i: int) -> Optional[bool]:
        """Whether any rank had gradient i ready in the last step; None without
        find_unused (cohort_reducer_used())."""
        said = lib.cohort_reducer_used(self._live, self._index(i))
        return None if said < 0 else bool(said)

    @property
    def buckets(self) -> int:
        """How many buckets there are in the plan."""
        return int(lib.cohort_reducer_buckets(self._live))

    def bucket(self, i: int) -> int:
        """The number of the bucket of parameter i, in the order of their launches."""
        return int(lib.cohort_reducer_bucket(self._live, self._index(i)))

    # ---- the end ----------------------------------------------------------------------------

    def free(self) -> None:
        """Free it, and the gradients that it has (cohort_reducer_free()).

        StateError in the middle of a step.  Freeing one that is freed does nothing."""
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
    """The options, or the defaults."""
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
