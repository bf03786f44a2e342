#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare sums of a model's gradients with those of MPI libraries, by turns.

usage: average.py [--rounds N] [--ranks N,N,...] [--lists LIST,...] [--out FOLDER] COHORT

Each round runs `cohort bench average` and bench/average_peer.c with every installed MPI, one
after another on the same cores.  Lists are names of files in bench/shapes; resnet50@2048 has
only the tensors of at most 2,048 elements.  Prints medians over the rounds: of the times, and
of the time of MPI's best method divided by Cohort's in the same round.  Writes average.json to
FOLDER (default build).
"""

import argparse
import json
import os
import statistics
import sys

import peers

LISTS = "resnet50,gpt2-small,resnet50@2048"
SHAPES = os.path.join(os.path.dirname(__file__), "shapes")
MODES = ["loop", "rewrite"]


def split_list(name):
    """Return the file of a list, and the maximum elements of a tensor (0 for any number)."""
    shapes, _, most = name.partition("@")
    return os.path.join(SHAPES, shapes + ".tsv"), int(most or 0)


def measure_ours(args, ranks, name, mode):
    """Return {method: us} of Cohort."""
    shapes, most = split_list(name)
    out = peers.run([args.cohort, "bench", "average", "--platform", "host",
                     "--shapes", shapes, "--ranks", str(ranks), "-o", "sum",
                     "--json", "-c", "0",
                     "--rounds", str(args.inner)]
                    + (["--rewrite"] if mode == "rewrite" else [])
                    + (["--max-count", str(most)] if most else []))
    if out is None:
        sys.exit(1)
    return {case["method"]: case["time_us"] for case in json.loads(out)}


def measure_peer(args, peer, program, ranks, name, mode):
    shapes, most = split_list(name)
    how = peers.PEERS[peer]
    crowded = how["crowded"] if ranks > peers.CORES else []
    out = peers.run(how["run"] + crowded +
                    ["-n", str(ranks), program, str(args.inner), mode,
                     str(most), shapes])
    rounds = {}
    for line in (out or "").splitlines():
        method, ns = line.split()
        rounds.setdefault(method, []).append(float(ns) / 1e3)
    return {method: statistics.median(us) for method, us in rounds.items()}


def measure(args, programs):
    """Return {(ranks, list, mode, system): {method: us} of each round}."""
    all_times = {}
    for number in range(args.rounds):
        for ranks in args.ranks:
            for name in args.lists:
                for mode in MODES:
                    if sys.stderr.isatty():
                        print(f"\rround {number + 1}/{args.rounds}, {ranks} "
                              f"ranks, {name} ", end="", file=sys.stderr,
                              flush=True)
                    key = ranks, name, mode
                    all_times.setdefault((*key, "cohort"), []).append(
                        measure_ours(args, *key))
                    for peer, program in programs.items():
                        times = measure_peer(args, peer, program, *key)
                        if times:
                            all_times.setdefault((*key, peer),
                                                 []).append(times)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return all_times


def ratio(rounds, method, others, other=None):
    """Return the speedup over method other, or over the best of all methods in others."""
    if len(rounds) != len(others):
        return None
    return statistics.median(
        (b[other] if other else min(b.values())) / a[method]
        for a, b in zip(rounds, others))


def row(times, key, programs):
    ours = times[*key, "cohort"]
    case = {"ranks": key[0], "list": key[1], "mode": key[2],
            "us": {method: statistics.median(r[method] for r in ours)
                   for method in ours[0]},
            "vs_flat": ratio(ours, "auto", ours, "flat"),
            "peers": {}}
    best = [min(us for m, us in r.items() if m != "auto") for r in ours]
    case["vs_best"] = statistics.median(
        b / r["auto"] for b, r in zip(best, ours))
    for peer in programs:
        theirs = times.get((*key, peer), [])
        if theirs:
            case["peers"][peer] = {
                "us": {m: statistics.median(r[m] for r in theirs)
                       for m in theirs[0]},
                "faster": ratio(ours, "auto", theirs)}
    return case


def show(case):
    us = case["us"]
    print(f"{case['ranks']} ranks, {case['list']}, {case['mode']}: " +
          ", ".join(f"{m} {peers.cell(t)}" for m, t in us.items()) + " us")
    print(f"    auto: {case['vs_flat']:.2f} times as fast as flat, "
          f"{case['vs_best']:.2f} as the best of ours")
    for peer, theirs in case["peers"].items():
        faster = theirs["faster"]
        print(f"    {peer}: " +
              ", ".join(f"{m} {peers.cell(t)}"
                        for m, t in theirs["us"].items()) +
              (" us" if faster is None else
               f" us; auto {faster:.2f} times as fast as the best"))


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inner", type=int, default=3,
                        help="rounds of each process")
    parser.add_argument("--ranks", type=peers.numbers(int), default=[2, 4])
    parser.add_argument("--lists", default=LISTS)
    parser.add_argument("--out", default="build")
    parser.add_argument("cohort", metavar="COHORT")
    args = parser.parse_args()
    args.lists = args.lists.split(",")
    for name in args.lists:
        if not os.path.exists(split_list(name)[0]):
            parser.error(f"no list {name}")
    if args.rounds < 1 or args.inner < 1 or min(args.ranks) < 2:
        parser.error("at least 1 round, of at least 2 ranks")
    return args


def main():
    args = parse_args()
    os.makedirs(args.out, exist_ok=True)
    programs = {name: peers.build_peer(name, args.out, "average_peer")
                for name in peers.PEERS}
    programs = {name: p for name, p in programs.items() if p}
    times = measure(args, programs)
    print(f"{args.rounds} rounds by turns, {peers.CORES} cores; medians")
    cases = [row(times, (ranks, name, mode), programs)
             for ranks in args.ranks for name in args.lists for mode in MODES]
    for case in cases:
        show(case)
    path = os.path.join(args.out, "average.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(cases, file, indent=1)
    print(path)


main()
