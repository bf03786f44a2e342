#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Use the reducer from Python: average gradients while others are still being computed.

Two ranks run on the host platform, on one thread each.  Gradients are arrays of Python's
standard library.  Needs the package in bindings/python; train.py uses PyTorch instead.
"""

from array import array

import cohort

COUNT = 1000


def worker(comm):
    """Make one step of a rank."""
    gradients = [array("f", [0.0]) * COUNT for _ in range(3)]
    with cohort.Reducer(comm, gradients) as reducer:
        with reducer.step():
            for i in reversed(range(len(gradients))):
                for k in range(COUNT):  # the backward pass
                    gradients[i][k] = comm.rank + i
                reducer.ready(i)
    return [gradient[COUNT - 1] for gradient in gradients]


with cohort.Group(2, cohort.Options(platform="host")) as group:
    for rank, averages in enumerate(group.run(worker)):
        print(f"rank {rank}: {averages}")
