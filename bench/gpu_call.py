#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the caller's cost of an all-reduce of one float on GPUs, and compare with PyTorch.

usage: gpu_call.py [--turns N] WALK

WALK is the program bench/walk.  WALK and torch.distributed (ProcessGroupNCCL) take turns, with
one rank and, if there are two GPUs, with two.  With NCCL_MULTI_RANK_GPU_ENABLE=1 PyTorch's two
ranks share the first GPU.  The last line says whether Cohort takes at most 1.2 times as long as
NCCL's call and one mark, and less than half as long as PyTorch.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

CALLS, BATCH = 4096, 16  # BATCH is the number of calls between two waits, as in bench/walk


def walk(program, rounds):
    """Return median times in microseconds, by number of ranks: of NCCL's call and one mark, of
    Cohort, and of Cohort without start marks."""
    done = subprocess.run([program, "--gpu", "--json", "--rounds", str(rounds)],
                          stdout=subprocess.PIPE, check=True)
    found = {}
    for scene in json.loads(done.stdout)["scenes"]:
        ways = found.setdefault(scene["ranks"], {})
        ways["cohort, no start mark" if scene["no_start_marks"] else "cohort"] = \
            scene["cohort"]["median"] / 1e3
        if not scene["no_start_marks"]:
            ways["call and mark"] = scene["call_and_mark"]["median"] / 1e3
    return found


def pytorch_rank(rank, ranks, port, answers):
    """Run one process of PyTorch, and store the time of a call in microseconds."""
    import torch
    from torch import distributed
    torch.cuda.set_device(rank % torch.cuda.device_count())
    distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}",
                                   rank=rank, world_size=ranks)
    value = torch.ones(1, device="cuda")
    took = 0.0
    for is_timed in False, True:
        distributed.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(CALLS):
            distributed.all_reduce(value)
            if i % BATCH == BATCH - 1:
                torch.cuda.synchronize()
        took = time.perf_counter() - begin if is_timed else took
    distributed.destroy_process_group()
    answers.put(took / CALLS * 1e6)


def pytorch(ranks):
    """Return the slowest rank's time of a call."""
    from torch import multiprocessing
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(pytorch_rank, (ranks, port, answers), nprocs=ranks)
    return max(answers.get() for _ in range(ranks))


def main():
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("walk", metavar="WALK")
    arguments = parser.parse_args()
    try:
        import torch
        has_pytorch = torch.cuda.is_available()
    except ImportError:
        has_pytorch = False
    if not has_pytorch:
        print("torch.distributed not measured: python3 has no PyTorch for GPUs")
    times = {}
    for _ in range(arguments.turns):
        for ranks, ways in walk(arguments.walk, 21).items():
            if has_pytorch:
                ways["torch.distributed"] = pytorch(ranks)
            for way, took in ways.items():
                times.setdefault(ranks, {}).setdefault(way, []).append(took)
    for ranks, ways in times.items():
        medians = {way: statistics.median(taken) for way, taken in ways.items()}
        for way, took in medians.items():
            print(f"{ranks} rank{'s' * (ranks > 1)}  {way:22} {took:8.2f} us")
        best = medians.get("cohort, no start mark", medians["cohort"])
        shares = [best / medians["call and mark"]]
        if has_pytorch:
            shares.append(best / medians["torch.distributed"])
        met = shares[0] <= 1.2 and (not has_pytorch or shares[1] < 0.5)
        print(f"{ranks} rank{'s' * (ranks > 1)}  of call and mark, of torch.distributed: "
              + ", ".join(f"{share:.2f}" for share in shares)
              + (": as wanted" if met else ": more than wanted"))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    sys.exit(main())
