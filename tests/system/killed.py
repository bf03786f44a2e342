#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test that a process that is killed while it dumps leaves complete files.

usage: killed.py DUMPER FOLDER TIMES

DUMPER dumps into FOLDER repeatedly, and is killed at a random moment after its first dump.
Then every file with the name of a dump must be complete, either the old or the new one.
"""

import json
import os
import random
import signal
import subprocess
import sys


def kill_one(dumper, folder):
    process = subprocess.Popen(
        [dumper, folder, "4", "64", "0"], stdout=subprocess.PIPE, text=True
    )
    took = float(process.stdout.readline()) / 1e3
    try:
        process.wait(random.uniform(0, 3 * took))
    except subprocess.TimeoutExpired:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL, process.returncode


def check(folder):
    names = [n for n in os.listdir(folder) if not n.startswith(".")]
    assert len(names) == 6, names
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            dump = json.load(file)
        if "_rank_" in name:
            assert len(dump["entries"]) == dump["cohort"]["recorded"] == 64, name


def main():
    dumper, folder, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cut_short = 0
    for _ in range(times):
        kill_one(dumper, folder)
        check(folder)
        for name in os.listdir(folder):
            cut_short += name.startswith(".")
            os.unlink(os.path.join(folder, name))
    print(f"killed {times} times, {cut_short} in the middle of a file")
    assert cut_short or times < 50, "never in the middle of a file"


if __name__ == "__main__":
    main()
