#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test cohort watch on a hang of PyTorch's own NCCL backend.

    watched.py COHORT

With two GPUs, two processes are the ranks, and rank 1 does not make its second all-reduce.  NCCL
refuses two ranks on one GPU, so with one GPU, the only rank's second all-reduce waits for a kernel
that runs longer than the deadline.  The verdict must say so.  PyTorch must see a GPU.
"""

import signal
import subprocess
import sys
import tempfile

LONG = 1 << 38  # cycles, at least 100 seconds


def rank_main(rank, ranks, folder):
    import torch
    from torch import distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank,
                                   world_size=ranks)
    data = torch.empty(1000, device="cuda")
    distributed.all_reduce(data)
    torch.cuda.synchronize()
    while rank == 1:
        signal.pause()
    if ranks == 1:
        torch.cuda._sleep(LONG)
    distributed.all_reduce(data)
    torch.cuda.synchronize()


def run_ranks(ranks, folder):
    """Run the ranks, which cohort watch ends."""
    processes = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), str(ranks),
                                   folder]) for rank in range(ranks)]
    sys.exit(any([process.wait() for process in processes]))


def test(cohort):
    import torch

    ranks = min(torch.cuda.device_count(), 2)
    expected = ["all_reduce 2 of ", "has not finished on rank 0" if ranks == 1
                else "HANG rank 1 has not called all_reduce 2 of "]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([cohort, "watch", "--deadline", "20s", "--on-stall", "kill", "--",
                              sys.executable, __file__, "--ranks", str(ranks), folder],
                             capture_output=True, text=True, timeout=300, check=False)
    said = " ".join(run.stderr.split())
    if run.returncode != 3 or not all(text in said for text in expected):
        sys.exit(f"exit status {run.returncode}, or not {expected}:\n{run.stdout}{run.stderr}")


if sys.argv[1] == "--ranks":
    run_ranks(int(sys.argv[2]), sys.argv[3])
elif sys.argv[1] == "--rank":
    rank_main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
else:
    test(sys.argv[1])
