#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reducer from Python: gradients are averaged while others are still computed.

Two ranks on the host platform, a thread for each; gradients are arrays of Python's own.
Needs the package in bindings/python; PyTorch's gradients are in train.py.
"""

from array import array

import cohort

COUNT = 1000


def worker(comm):
    """One step of a rank."""
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
