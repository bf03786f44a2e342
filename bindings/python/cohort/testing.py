# SPDX-License-Identifier: Apache-2.0
"""Groups for tests, on simulated devices with scripted faults.

pytest loads this as a plugin if the package is installed::

    def test_that_a_hang_is_noticed(simulated_group):
        group = simulated_group(4, Fault("stuck", rank=2, operation=10))
        with pytest.raises(cohort.Stalled) as caught:
            group.run(train)
        assert caught.value.rank == 2

Without pytest, use script() and clear() with a group on the host platform.
"""

import ctypes
from dataclasses import dataclass, fields
from typing import Any, Callable, Iterator, List, Optional, Union

from . import _abi
from ._abi import FaultKind, Platform
from ._group import Group
from ._library import check, integer, lib, nanoseconds
from ._options import Options
from ._rank import Deadlines

__all__ = ["Fault", "FaultKind", "clear", "script", "set_devices"]

#: Default deadlines of test groups, because a test should not wait for minutes.
DEADLINES = Deadlines(join=5.0, exec=5.0, close=5.0, abort=5.0)


@dataclass
class Fault:
    """A scripted fault, which occurs once (struct cohort_fault).

    kind is a FaultKind or its name: "never", "delay", "error", "stuck", "die", ...
    rank is the rank that the fault affects; -1 is any rank.  operation counts the rank's
    native calls on a communicator, from 0.  value is an error code or a time in nanoseconds;
    seconds can replace a time.

    The verdict on a "stuck" call names its rank.  "never" acts like a kernel that hangs, for
    which no rank can be blamed.
    """

    kind: Union[FaultKind, str]
    rank: int = -1
    operation: int = 0
    value: int = 0
    seconds: Optional[float] = None


def script(*faults: Fault) -> None:
    """Add faults, for all communicators of the host platform (cohort_sim_fault_add())."""
    for fault in faults:
        kind = FaultKind[fault.kind.upper()] if isinstance(fault.kind, str) else fault.kind
        value = fault.value if fault.seconds is None \
            else nanoseconds(fault.seconds, what="seconds")
        raw = _abi.cohort_fault(*(
            integer(number, of[0], of[1]) for number, of in zip(
                (fault.rank, fault.operation, kind, value), _abi.cohort_fault._fields_)))
        check(lib.cohort_sim_fault_add(ctypes.byref(raw)))


def clear() -> None:
    """Remove faults that have not occurred, and release calls that faults are holding
    (cohort_sim_faults_clear())."""
    lib.cohort_sim_faults_clear()


def set_devices(n: int) -> None:
    """Set the number of devices of the host platform before its first use
    (cohort_sim_set_devices()); the default is 8."""
    check(lib.cohort_sim_set_devices(integer(n, "n")))


def _groups() -> Iterator[Callable[..., Group]]:
    """Yield a function that opens groups, and close those groups afterwards."""
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
except ImportError:  # script() and clear() work without pytest
    pass
else:
    @pytest.fixture
    def simulated_group() -> Iterator[Callable[..., Group]]:
        """Open a group of simulated devices: simulated_group(devices=4, *faults, **options).

        faults are scripted first.  options are fields of cohort.Options; the default of
        deadlines is DEADLINES, 5 s each.  When the test ends, its groups are aborted and
        closed, and its faults are removed."""
        yield from _groups()
