#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare NVIDIA's NCCL on simulated devices with the simulator's own.

usage: nccl.py [--rounds N] [--ranks N,N,...] [--nccl auto|PATH] [--page FILE] COHORT

Measures an in-place all-reduce of float32 and its wait, through the library.  The two NCCLs
take turns, each in its own process: `cohort run -- cohort bench` and `cohort run --nccl auto
-- cohort bench`.  Prints medians over the rounds as a table.  --page also writes the table to
FILE, between the two lines that name this script.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys

SIZES = ["4", "1K", "64K", "1M", "16M", "64M"]
INNER_ROUNDS = 3  # rounds of each process
TIME_LIMIT = 600  # limit for each process, in seconds
MARK = "<!-- bench/nccl.py: {} -->"


def measure(cohort, options, ranks):
    """Return the time of each size, in us."""
    command = [cohort, "run", "-n", str(ranks), *options, "--", cohort, "bench",
               "all_reduce", "--platform", "gpu", "-g", str(ranks), "--json",
               "--sizes", ",".join(SIZES), "--rounds", str(INNER_ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True,
                          timeout=TIME_LIMIT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return [line["time_us"] for line in json.loads(done.stdout)]


def spell(us):
    """Return a time as text with at least two digits and its unit."""
    for unit, factor in ("us", 1), ("ms", 1e3), ("s", 1e6):
        if us < 1000 * factor or unit == "s":
            return f"{us / factor:.{0 if us >= 10 * factor else 1}f} {unit}"
    return None


def rows(args):
    for ranks in map(int, args.ranks.split(",")):
        both = [], []
        for _ in range(args.rounds):
            both[0].append(measure(args.cohort, [], ranks))
            both[1].append(measure(args.cohort, ["--nccl", args.nccl], ranks))
        for name, times in zip(("the simulator's", "NVIDIA's"), both):
            yield f"| {ranks} | {name} | " + " | ".join(
                spell(statistics.median(t)) for t in zip(*times)) + " |"


def write(page, table):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    begin, end = MARK.format("begin"), MARK.format("end")
    text, n = re.subn(f"{re.escape(begin)}.*?{re.escape(end)}",
                      f"{begin}\n\n{table}\n\n{end}", text, flags=re.DOTALL)
    if n != 1:
        sys.exit(f"{page}: there is no place for the table")
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--nccl", default="auto")
    parser.add_argument("--page")
    parser.add_argument("cohort")
    args = parser.parse_args()
    names = [s + (" B" if s.isdigit() else "iB") for s in SIZES]
    names = [re.sub(r"([KM])", r" \1", n) for n in names]
    head = "| ranks | NCCL | " + " | ".join(names) + " |"
    table = "\n".join([head, "|---|---|" + "---|" * len(SIZES), *rows(args)])
    print(table)
    if args.page:
        write(args.page, table)


if __name__ == "__main__":
    main()
