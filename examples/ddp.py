#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over the backend "cohort": what differs from Gloo is one word.

usage: torchrun --nproc-per-node N ddp.py [--hang RANK@STEP]      a process for each rank
       ddp.py --threads N [--hang RANK@STEP]                      a thread for each rank

Trains a small network for 20 steps.  With --hang one rank sleeps at that step.  After the
timeout of two seconds the other ranks' calls fail, and name the rank that is missing.
"""

import argparse
import datetime
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TIMEOUT_S = 2.0


def train(hang):
    """Train a rank, which is a process or a thread."""
    rank = dist.get_rank()
    inputs = torch.Generator().manual_seed(rank)  # threads share the default generator
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 100), nn.ReLU(),
                                                  nn.Linear(100, 5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        if hang == [rank, step]:
            time.sleep(3 * TIMEOUT_S)
        optimizer.zero_grad()
        loss = model(torch.randn(20, 10, generator=inputs)).square().mean()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} of {dist.get_world_size()}: loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--hang", type=lambda text: [int(word) for word in text.split("@")],
                        metavar="RANK@STEP")
    options = parser.parse_args()
    try:
        if options.threads:
            import cohort.torch
            cohort.torch.run(train, options.threads, options.hang, timeout=TIMEOUT_S)
        else:
            dist.init_process_group("cohort", timeout=datetime.timedelta(seconds=TIMEOUT_S))
            train(options.hang)
            dist.destroy_process_group()
    except RuntimeError as error:
        raise SystemExit(str(error).split("\n", maxsplit=1)[0]) from None


if __name__ == "__main__":
    main()
