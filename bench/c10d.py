#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the backend "cohort" of torch.distributed with Gloo, by turns in the same processes.

usage: bench/c10d.py calls|train [--ranks N] [--rounds N] [--threads]

Needs PyTorch 2.15 or newer and an installed cohort (the wheel, or PYTHONPATH and
LD_LIBRARY_PATH).  calls measures collectives of several sizes; train measures steps of models
under DistributedDataParallel.  Prints medians over the rounds, in microseconds, and their
ratio.  With --threads, train also measures one thread per rank (cohort.torch.run()) and
compares it with Gloo's processes.
"""

import argparse
import copy
import datetime
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

SIZES = [4 << 2 * i for i in range(13)]


def by_turns(functions, rounds, calls, meet):
    """Return the median time of each function over the rounds, in microseconds."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for i in range(rounds):
        for name in list(functions)[:: 1 if i % 2 else -1]:
            meet()
            start = time.perf_counter()
            for _ in range(calls):
                functions[name]()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def show(what, times, base="gloo"):
    """Print one line, on rank 0."""
    if dist.get_rank() == 0:
        print(f"{what:32}", *(f"{name} {value:11.1f}" for name, value in times.items()),
              *(f"  {name}/{base} {value / times[base]:.2f}"
                for name, value in times.items() if name != base), flush=True)


def calls(groups, rounds):
    """Measure collectives of several sizes."""
    n = dist.get_world_size()

    def measure(what, call, repeats):
        show(what, by_turns({name: lambda group=group: call(group)
                             for name, group in groups.items()}, rounds, repeats, dist.barrier))
    for size in SIZES:
        x = torch.zeros(size // 4)
        measure(f"all_reduce {size} B", lambda group, x=x: dist.all_reduce(x, group=group),
                100 if size <= 1 << 16 else max(1, (1 << 23) // size))
    one, other, whole = torch.zeros(1 << 14), torch.zeros(1 << 14), torch.zeros(n << 14)
    measure("barrier", lambda group: dist.barrier(group), 50)
    measure("broadcast 64 KiB", lambda group: dist.broadcast(one, 0, group=group), 50)
    measure("all_gather_into_tensor 64 KiB",
            lambda group: dist.all_gather_into_tensor(whole, one, group=group), 50)
    measure("reduce_scatter_tensor 64 KiB",
            lambda group: dist.reduce_scatter_tensor(one, whole, group=group), 50)
    measure("all_to_all_single 64 KiB",
            lambda group: dist.all_to_all_single(other, one, group=group), 50)
    measure("all_gather_object",
            lambda group: dist.all_gather_object([None] * n, {"a": 1}, group=group), 20)


class Block(nn.Module):
    """Two convolutions of a ResNet."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def models():
    """Yield the name of each model, the model, an input, and the number of steps of a round."""
    torch.manual_seed(0)
    yield ("MLP, 17 M parameters", nn.Sequential(
        nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 3072), nn.ReLU(),
        nn.Linear(3072, 10)), torch.randn(8, 1024), 3)
    widths = [(64, 64, 1)] * 2 + [(64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
                                  (256, 512, 2), (512, 512, 1)]
    yield ("ResNet-18, 32x32 images", nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        *(Block(*width) for width in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(512, 10)), torch.randn(4, 3, 32, 32), 2)


def step_of(net, x):
    """Return a function that makes one training step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return step


def train(groups, rounds):
    """Measure steps with and without DistributedDataParallel."""
    for name, net, x, steps in models():
        functions = {backend: step_of(nn.parallel.DistributedDataParallel(
            copy.deepcopy(net), process_group=group), x) for backend, group in groups.items()}
        functions["alone"] = step_of(net, x)
        show(name, by_turns(functions, rounds, steps, dist.barrier))


def train_on_threads(rounds):
    """Measure steps on threads, which only the backend "cohort" supports."""
    for name, net, x, steps in models():
        step = step_of(nn.parallel.DistributedDataParallel(copy.deepcopy(net)), x)
        median = by_turns({"threads": step}, rounds, steps, dist.barrier)["threads"]
        if dist.get_rank() == 0:
            print(f"{name:32} threads {median:11.1f}", flush=True)


def rank_main(rank, path, options):
    """Run one process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank,
                            world_size=options.ranks,
                            timeout=datetime.timedelta(seconds=120))
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "cohort")}
    {"calls": calls, "train": train}[options.what](groups, options.rounds)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["calls", "train"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_main, (os.path.join(folder, "store"), options),
                                    options.ranks)
    if options.threads:
        import cohort.torch
        torch.set_num_threads(1)
        cohort.torch.run(train_on_threads, options.ranks, options.rounds)


if __name__ == "__main__":
    main()
