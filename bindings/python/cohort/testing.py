# SPDX-License-Identifier: Apache-2.0
"""Groups for tests: simulated devices, and faults that strike where a test says.

A plugin of pytest, which finds it where the package is installed::

    def test_that_a_hang_is_noticed(simulated_group):
        group = simulated_group(4, Fault("stuck", rank=2, operation=10))
        with pytest.raises(cohort.Stalled) as caught:
            group.run(train)
        assert caught.value.rank == 2

Without pytest, script() and clear() do the same for groups on the host platform.
"""

import ctypes
from dataclasses import dataclass, fields
from typing import Any, Callable, Iterator, List, Optional, Union

from . import _abi
from ._abi import FaultKind, Platform, SimSync
from ._group import Group
from ._library import check, integer, lib, nanoseconds
from ._options import Options
from ._rank import Deadlines

__all__ = ["Fault", "FaultKind", "SimSync", "clear", "script", "set_devices", "set_sync"]

#: Where the options of a group do not say: a test should not wait for minutes.
DEADLINES = Deadlines(join=5.0, exec=5.0, close=5.0, abort=5.0)


@dataclass
class Fault:
    """A scripted fault, which strikes once (struct cohort_fault).

    kind is one of FaultKind, or its name: "never", "delay", "error", "stuck", "die", ...
    rank -1 is any.  operation counts the rank's native calls on a communicator, from 0.
    A rank whose call is "stuck" is named by the verdict; "never" looks like a kernel that
    hangs, for which nobody can be blamed.  value is a code, or nanoseconds; seconds is a
    time in its place.
    """

    kind: Union[FaultKind, str]
    rank: int = -1
    operation: int = 0
    value: int = 0
    seconds: Optional[float] = None


def script(*faults: Fault) -> None:
    """Add faults, for every communicator of the host platform (cohort_sim_fault_add())."""
    for fault in faults:
        kind = FaultKind[fault.kind.upper()] if isinstance(fault.kind, str) else fault.kind
        value = fault.value if fault.seconds is None \
            else nanoseconds(fault.seconds, what="seconds")
        raw = _abi.cohort_fault(*(
            integer(number, of[0], of[1]) for number, of in zip(
                (fault.rank, fault.operation, kind, value), _abi.cohort_fault._fields_)))
        check(lib.cohort_sim_fault_add(ctypes.byref(raw)))


def clear() -> None:
    """Forget the faults that have not struck, and let go what they hold
    (cohort_sim_faults_clear())."""
    lib.cohort_sim_faults_clear()


def set_devices(n: int) -> None:
    """How many devices the host platform has, before its first use
    (cohort_sim_set_devices()); the default is 8."""
    check(lib.cohort_sim_set_devices(integer(n, "n")))


def set_sync(sync: SimSync) -> None:
    """How unforgiving the host platform's devices are, before its first use
    (cohort_sim_set_sync())."""
    check(lib.cohort_sim_set_sync(integer(sync, "sync")))


def _groups() -> Iterator[Callable[..., Group]]:
    """A function that opens groups, which are closed behind it."""
    made: List[Group] = []

    def open_group(devices: Any = 4, *faults: Fault, **options: Any) -> Group:
        given = options.pop("deadlines", DEADLINES)
        deadlines = Deadlines(**{
            field.name: getattr(DEADLINES if getattr(given, field.name) is None else given,
                                field.name) for field in fields(Deadlines)})
        script(*faults)
        group = Group(devices, Options(
            platform=Platform.HOST, deadlines=deadlines, **options))
        made.append(group)
        return group
    try:
        yield open_group
    finally:
        clear()
        for group in made:
            group._abort_and_close("the test is over", DEADLINES.abort or 0.0)


try:
    import pytest
except ImportError:  # script() and clear() work without
    pass
else:
    @pytest.fixture
    def simulated_group() -> Iterator[Callable[..., Group]]:
        """simulated_group(devices=4, *faults, **options) opens a group of simulated
        devices with scripted faults; options are fields of cohort.Options, and deadlines
        that they do not name are DEADLINES, 5 s each.  At the end of
        the test its groups are aborted and closed, and the faults are forgotten."""
        yield from _groups()
