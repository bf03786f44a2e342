#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program of cohort.c for PyTorch with Gloo (gloo.py RANKS DEADLINE)."""

import datetime
import os
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing

COUNT = 1000


def worker(rank, ranks, deadline, folder):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank,
        world_size=ranks, timeout=datetime.timedelta(seconds=60))
    group = torch.distributed.new_group(
        backend="gloo", timeout=datetime.timedelta(seconds=deadline))
    values = torch.ones(COUNT)
    torch.distributed.all_reduce(values, group=group)
    if rank == ranks - 1:
        time.sleep(1e6)  # this rank does not call
    if rank == 0:
        print("waits", flush=True)
    began = time.monotonic()
    try:
        torch.distributed.all_reduce(values, group=group)
    except RuntimeError as error:
        if rank == 0:
            text = " ".join(str(error).split())
            print(f"said {time.monotonic() - began:.3f} {text}", flush=True)
            print("lives an exception", flush=True)
    os._exit(0)


def main():
    ranks, deadline = int(sys.argv[1]), float(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.start_processes(
            worker, (ranks, deadline, folder), ranks, join=False,
            start_method="fork")
        for process in context.processes[:-1]:
            process.join()
        context.processes[-1].kill()


main()
