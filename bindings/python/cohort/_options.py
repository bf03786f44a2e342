# SPDX-License-Identifier: Apache-2.0
"""Options of a group, and how the processes of a group find each other."""

import ctypes
import itertools
import os
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._abi import BootstrapKind, Connect, Launch, Many, Platform, Policy
from ._errors import Verdict, verdict_of
from ._library import integer, member, nanoseconds
from ._rank import AbortHandle, Deadlines, as_bytes, as_path


@dataclass
class Table:
    """A bootstrap that uses the program's own allgather to exchange addresses.

    allgather(data) sends data and returns a sequence with the bytes of every process, by
    process number, all of the same length.  An example is mpi4py's MPI.COMM_WORLD.allgather.
    It may block, because it runs on its own thread.  If other processes never call it, the
    thread is abandoned after the init deadline.
    """

    process: int
    processes: int
    allgather: Callable[[bytes], Sequence[bytes]]


@dataclass
class Options:
    """Options of Group and join() (struct cohort_group_options).

    None, 0 and "" stand for the default.  Times are in seconds.  Callbacks run on a thread
    of the library; an exception that they raise is printed and counts as returning None.
    """

    name: str = ""  #: shown in messages and at the start of thread names
    platform: Union[Platform, str] = Platform.AUTO  #: or "gpu", "host"
    recorder_slots: int = 0
    deadlines: Deadlines = field(default_factory=Deadlines)
    policy: Policy = Policy.ABORT
    #: called when a deadline passes and when a generation ends; with Policy.ASK, True ends it
    on_verdict: Optional[Callable[[Verdict], object]] = None
    #: an ncclConfig_t of NCCL's header, as a ctypes structure or bytes
    nccl_config: object = None
    no_start_marks: bool = False
    allow_capture: bool = False
    dump_signal: int = 0
    dump_directory: Union[str, "os.PathLike[str]"] = ""
    dump_fifo: Union[str, "os.PathLike[str]"] = ""
    slow: Optional[float] = None  #: seconds after which on_verdict gets Stage.SLOW
    stack_signal: int = 0  #: signal that collects stacks; add Stack.ALL for other threads
    many: Many = Many.AUTO
    adaptive_factor: int = 0
    adaptive_warmup: int = 0
    adaptive_floor: Optional[float] = None
    launch: Launch = Launch.DEFAULT
    connect: Connect = Connect.DEFAULT
    #: how to find other processes: a kind (not TABLE), its name, or a Table; None for a
    #: group of one process
    bootstrap: Union[BootstrapKind, str, Table, None] = None
    abort: Optional[AbortHandle] = None  #: AbortHandle() that can end the open or join
    #: output on stderr ("line", "none" or "verdict"), or the path of a log file, with a "/"
    log: Union[str, "os.PathLike[str]"] = ""


# Attribute of Options for each field of the C structure that has another name.
TIMES = {"slow_ns": "slow", "adaptive_floor_ns": "adaptive_floor"}


def _member(kind: Any, value: Any, what: str) -> Any:
    """Return a member, given as itself, its number, or its name in any case."""
    try:
        return kind[value.upper()] if isinstance(value, str) else member(kind, value, what)
    except (KeyError, TypeError, ValueError):
        names = ", ".join(member.name.lower() for member in kind)
        raise ValueError(f"{what} is {value!r}, not one of {names}") from None


class _Requests:
    """The three callbacks by which the library uses the program's allgather."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.numbers = itertools.count(1)
        self.running: Dict[int, List[Any]] = {}  # thread, receive buffer, bytes, result

        def begin(send: int, recv: int, size: int, _info: int, request: Any) -> int:
            number = next(self.numbers)
            result: List[bytes] = []
            data = ctypes.string_at(send, size)

            def gather() -> None:
                parts = [bytes(memoryview(part)) for part in table.allgather(data)]
                if [len(part) for part in parts] != [size] * table.processes:
                    raise ValueError(f"allgather returned {[len(part) for part in parts]} "
                                     f"bytes, not {size} of each of {table.processes} processes")
                result.append(b"".join(parts))
            thread = threading.Thread(target=gather, name="cohort-allgather", daemon=True)
            self.running[number] = [thread, recv, size, result]
            thread.start()
            request[0] = number
            return 0

        def test(request: int) -> int:
            thread, recv, size, result = self.running[request]
            if thread.is_alive():
                return 1
            if not result:
                return -1
            ctypes.memmove(recv, result[0], size * table.processes)
            return 0

        def free(request: int) -> int:
            del self.running[request]
            return 0

        self.begin = _abi.cohort_bootstrap_allgather(begin)
        self.test = _abi.cohort_bootstrap_req_test(test)
        self.free = _abi.cohort_bootstrap_req_free(free)


def _bootstrap(how: Union[BootstrapKind, str, Table]) -> Tuple[_abi.cohort_bootstrap, object]:
    size = ctypes.sizeof(_abi.cohort_bootstrap)
    if not isinstance(how, Table):
        kind = _member(BootstrapKind, how, "bootstrap")
        if kind == BootstrapKind.TABLE:
            raise ValueError("bootstrap is TABLE: give a cohort.Table instead")
        return _abi.cohort_bootstrap(size=size, kind=kind), None
    requests = _Requests(how)
    return _abi.cohort_bootstrap(
        size=size, kind=BootstrapKind.TABLE, process=integer(how.process, "process"),
        processes=integer(how.processes, "processes"),
        allgather=requests.begin, req_test=requests.test, req_free=requests.free), requests


def raw_options(options: Options) -> Tuple[_abi.cohort_group_options, object]:
    """Return the options as a C structure, and the objects that must outlive the group."""
    if not isinstance(options, Options):
        raise TypeError(f"options is {options!r}, not cohort.Options")
    raw = _abi.cohort_group_options(size=ctypes.sizeof(_abi.cohort_group_options))
    keep: List[object] = [raw]
    for name, kind, *_ in raw._fields_[1:]:
        value = getattr(options, TIMES.get(name, name), None)
        if name == "deadlines":
            if not isinstance(value, Deadlines):
                raise TypeError(f"deadlines is {value!r}, not cohort.Deadlines")
            value = value._raw()
        elif name == "platform":
            value = _member(Platform, value, name)
        elif name in TIMES:
            value = nanoseconds(value, 0, TIMES[name])
        elif name.startswith("on_") and value is not None:
            if not callable(value):
                raise TypeError(f"{name} is {value!r}, which is not callable")
            value = _abi.cohort_verdict_fn(_told_verdict(value))
        elif name == "abort" and value is not None:
            if not isinstance(value, AbortHandle):
                raise TypeError(f"abort is {value!r}, not cohort.AbortHandle")
            keep.append(value)
            value = value._handle
        elif name == "bootstrap" and value is not None:
            table, more = _bootstrap(value)
            keep += table, more
            value = ctypes.pointer(table)
        elif name == "nccl_config" and value is not None:
            keep.append(value)
            value = _config(value)
            keep.append(value)
            value = ctypes.addressof(value)
        elif kind is ctypes.c_char_p:
            encoded = as_path(value, name) if name.startswith("dump_") or name == "log" \
                else as_bytes(value, name)
            value = encoded or None
        elif value is not None:
            value = integer(value, name, kind, isinstance(getattr(Options, name, None), bool))
        if value is not None:
            setattr(raw, name, value)
            keep.append(value)
    return raw, keep


SIZE = ctypes.sizeof(ctypes.c_size_t)


def _config(value: Any) -> "ctypes.Array[ctypes.c_char]":
    """Return the bytes of an ncclConfig_t, whose first field is its own size."""
    try:
        data = bytes(memoryview(value).cast("B"))
    except TypeError:
        raise TypeError(f"nccl_config is {value!r}, not a ctypes structure or bytes") from None
    size = int.from_bytes(data[:SIZE], sys.byteorder)
    if len(data) < max(size, SIZE):
        raise ValueError(f"nccl_config has {len(data)} bytes, but its size field says {size}")
    return ctypes.create_string_buffer(data, len(data))


def _told_verdict(function: Callable[[Verdict], object]) -> Callable[..., int]:
    def tell(verdict: Any, _user: Any) -> int:
        try:
            return int(bool(function(verdict_of(verdict[0]))))
        except BaseException:  # after which ctypes would return any number
            traceback.print_exc()
            return 0
    return tell
