#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train with PyTorch on one thread per rank, and continue when a rank hangs.

usage: train.py [--ranks N] [--epochs N] [--cuda] [--hang RANK@STEP] [--data DIGITS.CSV]

Trains a perceptron on the images of handwritten digits that `cohort demo` uses.  Each rank
computes the gradients of its part of a batch, and a reducer adds them up during the backward
pass.  Without a hang, the weights must be bit-identical to those of a single rank that computes
the same parts and adds them in rank order.

Needs PyTorch and the package in bindings/python.
"""

import argparse
import copy
import os
import re
import sys
import threading

import torch
from torch import nn

import cohort
from cohort.torch import Gradients

BATCH, RATE, MOMENTUM = 64, 0.1, 0.9
DATA = os.path.join(os.path.dirname(__file__), "..", "src", "cli", "demo", "data", "digits.csv")


class Digits:
    """The images, on a device; every fifth image is held out for the test."""

    def __init__(self, path, device):
        with open(path, encoding="ascii") as file:
            rows = torch.tensor([[float(word) for word in line.split(",")] for line in file])
        held_out = torch.arange(len(rows)) % 5 == 4
        inputs, labels = rows[:, :64] / 16, rows[:, 64].long()
        self.inputs, self.labels = inputs[~held_out].to(device), labels[~held_out].to(device)
        self.test_inputs = inputs[held_out].to(device)
        self.test_labels = labels[held_out].to(device)
        self.steps = -(-len(self.inputs) // BATCH)  # per epoch

    def part(self, step, rank, ranks):
        """Return the images of a rank's part of a step, and the number of images of the step."""
        epoch, place = divmod(step, self.steps)
        order = torch.randperm(len(self.inputs), generator=torch.Generator().manual_seed(epoch))
        batch = order[place * BATCH:(place + 1) * BATCH]
        return batch.tensor_split(ranks)[rank].to(self.inputs.device), len(batch)

    def loss(self, net, step, rank, ranks):
        """Return a rank's share of the loss of a step; the shares add up to the mean."""
        part, whole = self.part(step, rank, ranks)
        return nn.functional.cross_entropy(net(self.inputs[part]), self.labels[part],
                                           reduction="sum") / whole

    def accuracy(self, net):
        """Return the accuracy on the images that were held out."""
        with torch.no_grad():
            found = net(self.test_inputs).argmax(1)
        return (found == self.test_labels).double().mean().item()


class Replica:
    """State of a rank: its weights, its optimizer, and its step."""

    def __init__(self, net, device):
        self.net = copy.deepcopy(net).to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=RATE, momentum=MOMENTUM)
        for parameter in self.net.parameters():
            self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)

    def state(self):
        """Return the tensors that must be equal on all ranks."""
        momentum = [state["momentum_buffer"] for state in self.optimizer.state.values()]
        return [parameter.detach() for parameter in self.net.parameters()] + momentum


def train(comm, digits, replicas, steps, hang):
    """Train on a rank's thread, from rank 0's step to the last step."""
    mine = replicas[comm.origin]
    own = digits[comm.origin]
    comm.broadcast_many([mine.step] + mine.state()).wait()
    options = cohort.ReducerOptions(op=cohort.Op.SUM)
    with Gradients(comm, mine.net, options) as gradients:
        while mine.step < steps:
            step = int(mine.step)
            comm.tag(f"step {step}")
            hang(comm.origin, step)
            mine.optimizer.zero_grad(set_to_none=False)
            with gradients.step():
                own.loss(mine.net, step, comm.rank, comm.size).backward()
            mine.optimizer.step()
            mine.step += 1


def train_alone(digits, net, steps, ranks):
    """Compute the same sums on one thread, without the library."""
    mine = Replica(net, digits.inputs.device)
    parameters = list(mine.net.parameters())
    for step in range(steps):
        total = None
        for rank in range(ranks):
            mine.optimizer.zero_grad(set_to_none=False)
            digits.loss(mine.net, step, rank, ranks).backward()
            parts = [parameter.grad.clone() for parameter in parameters]
            total = parts if total is None else [a + b for a, b in zip(total, parts)]
        for parameter, gradient in zip(parameters, total):
            parameter.grad = gradient
        mine.optimizer.step()
    return mine


def are_equal(one, other):
    """Return whether two replicas are bit-identical."""
    return all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(one.state(), other.state()))


def main():
    """Train; after a hang, continue without the rank that is to blame."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--cuda", action="store_true", help="on GPUs, one for each rank")
    parser.add_argument("--hang", metavar="RANK@STEP", help="a rank stops calling at a step")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--join-deadline", type=float, default=2.0, metavar="SECONDS")
    arguments = parser.parse_args()
    if arguments.ranks < 1:
        parser.error(f"--ranks is {arguments.ranks}, not 1 or more")
    if arguments.hang and not re.fullmatch(r"\d+@\d+", arguments.hang):
        parser.error(f"--hang is {arguments.hang}, not RANK@STEP")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    places = [torch.device("cuda", i) if arguments.cuda else torch.device("cpu")
              for i in range(arguments.ranks)]
    digits = [Digits(arguments.data, place) for place in places]
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    replicas = [Replica(net, place) for place in places]
    steps = digits[0].steps * arguments.epochs
    at = [int(word) for word in arguments.hang.split("@")] if arguments.hang else None

    def hang(rank, step):
        if [rank, step] == at:
            # Wait forever: a thread that is in PyTorch when Python exits terminates the process.
            threading.Event().wait()

    deadlines = cohort.Deadlines(join=arguments.join_deadline, abort=2)
    with cohort.Group.open(arguments.ranks, name="train", deadlines=deadlines,
                           platform="gpu" if arguments.cuda else "host") as group:
        while True:
            try:
                group.run(train, digits, replicas, steps, hang)
                break
            except cohort.Stalled as error:
                print(f"rank {error.rank}: {error.verdict.name.lower()}: {error}")
                if not group.lost:
                    raise
                group.respawn(group.lost)
        size = group.size
        origins = [replica for replica in replicas if replica.step == steps]
    first = replicas.index(origins[0])
    print(f"{size} ranks, {steps} steps, "
          f"accuracy {digits[first].accuracy(origins[0].net):.3f}")
    equal = all(are_equal(one, origins[0]) for one in origins)
    print("the ranks' weights are", "equal" if equal else "not equal")
    # With more than two ranks, NCCL may add the parts in another order.
    if not arguments.hang and (not arguments.cuda or arguments.ranks <= 2):
        alone = train_alone(digits[0], net, steps, arguments.ranks)
        same = are_equal(alone, origins[0])
        print("those of one rank are", "equal" if same else "not equal", "to the bit")
        equal = equal and same
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
