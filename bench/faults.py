#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how soon a failing rank is noticed, by `cohort demo --json` with each fault.

usage: faults.py [--runs N] [--ranks N,N,...] [--nccl auto|PATH] COHORT

For each fault and number of ranks, prints medians of the times that the demo reports: the
watchdog's delay, the time until the fault was noticed, and the time from then until ranks in
calls of the library got their error.  In every run the demo must name the right rank, and the
other ranks must finish training.  The exit status is 1 if a run fails, or if a median is too
high.

With --nccl the ranks use NVIDIA's NCCL on simulated devices (`cohort run --nccl`).
"""

import argparse
import json
import statistics
import subprocess
import sys

STEP = 345  # half-way
LIMITS = {  # of medians, in ms
    "stall": {"overshoot_ms": 10, "unblock_ms": 5},
    "die": {"detected_ms": 20},
    "mismatch": {"detected_ms": 20},
}
KINDS = {
    "stall": "busy in the program",
    "die": "thread exited",
    "mismatch": "different call",
}


def demo(cohort, nccl, fault, rank, ranks):
    run = [cohort, "run", "-n", str(ranks), "--nccl", nccl, "--"] if nccl else []
    command = [*run, cohort, "demo", "--json", "--platform",
               "gpu" if nccl else "host", "--ranks", str(ranks),
               f"--{fault}", f"{rank}@{STEP}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def problems(run, fault, rank, ranks):
    """Return the differences between one run and the expected result."""
    blameless = fault == "mismatch" and ranks == 2  # there is no majority
    expected = {
        "fault": fault,
        "stalled_rank": None if blameless else rank,
        "verdict_kind": KINDS[fault],
        "final_ranks": ranks if blameless else ranks - 1,
        "generations": 2,
        "abandoned": [rank] if fault == "stall" else [],
    }
    for key, value in expected.items():
        if run[key] != value:
            yield f"{key} is {run[key]}, not {value}"
    if run["accuracy"] < 0.95:
        yield f"accuracy is {run['accuracy']}"
    text = run["verdict_text"]
    if fault == "mismatch" and not (", max" in text and ", sum" in text):
        yield f"not both calls in: {text}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ranks", default="2,3,4,8,16")
    parser.add_argument("--nccl")
    parser.add_argument("cohort")
    args = parser.parse_args()
    failed = False
    keys = "detected_ms", "overshoot_ms", "unblock_ms", "accuracy"
    print(f"medians of {args.runs} runs [the largest]")
    print("fault     ranks" + "".join(f"{key:>21}" for key in keys))
    for fault, limits in LIMITS.items():
        for ranks in map(int, args.ranks.split(",")):
            rank = 2 if ranks > 2 else 1
            runs = [demo(args.cohort, args.nccl, fault, rank, ranks)
                    for _ in range(args.runs)]
            line = f"{fault:9}{ranks:6}"
            for key in keys:
                values = [r[key] for r in runs if r[key] is not None]
                median = statistics.median(values) if values else None
                line += (f"{median:11.3f} [{max(values):7.3f}]"
                         if values else f"{'-':>21}")
                if key in limits and (not values or median > limits[key]):
                    line += " TOO MUCH"
                    failed = True
            print(line, flush=True)
            for run in runs:
                for problem in problems(run, fault, rank, ranks):
                    print(f"    {problem}")
                    failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
