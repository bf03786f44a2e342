#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that torchfrtrace can load and match the files of cohort trace --pickle.

usage: pickles.py COHORT DUMPS SCRATCH

Loads the files as torchfrtrace does, with the rank taken from the name after the common
prefix, and checks what its analysis needs: the process groups agree, and entries with the
same number are the same call on all ranks, with matching sizes.  If PyTorch is installed,
runs its own analysis as well.  Exit status 0 or 1.
"""

import ast
import glob
import importlib.util
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys

NAME = re.compile(r"([\w\-\_]*?)(\d+)$")


def load(folder):
    ranks = {}
    prefixes = set()
    for name in os.listdir(folder):
        prefix, rank = NAME.search(name).groups()
        prefixes.add(prefix)
        with open(os.path.join(folder, name), "rb") as file:
            ranks[int(rank)] = pickle.load(file)
    assert len(prefixes) == 1, prefixes
    return ranks


def check_types(e):
    assert isinstance(e["frames"], list)
    assert isinstance(e["process_group"], tuple)
    for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
        assert e[key] is None or e[key] > 0, e
    assert (e["state"] == "completed") == (
        e["time_discovered_completed_ns"] is not None
    )
    library, name = e["profiling_name"].split(":")
    assert library == "nccl", e
    parts = name.split(" ")
    if parts[0] == "send":
        [int(r) for r in parts[1].split("->")]
    if parts[0] == "recv":
        [int(r) for r in parts[1].split("<-")]


def check_sizes(e, size):
    name = e["profiling_name"].split(":")[1]
    if name in ("all_gather", "reduce_scatter"):
        numbers = [math.prod(e[k][0]) for k in ("input_sizes", "output_sizes")]
        assert max(numbers) == min(numbers) * size, e
        assert (numbers[1] > numbers[0]) == (name == "all_gather"), e
    if name == "all_reduce":
        assert e["input_sizes"] == e["output_sizes"], e


def check_groups(dump, ranks):
    for name, group in dump["pg_config"].items():
        members = ast.literal_eval(group["ranks"])
        if "->" in name:
            pair = sorted(int(r) for r in name.split(" ")[-1].split("->"))
            assert members == pair, (name, members)
        else:
            assert set(members) == set(ranks), (name, members)


def check_numbers(numbered, ranks):
    """Check that each number is one call, made by all members if any has completed it."""
    unmatched = []
    for key, made in numbered.items():
        name = key[0][0]
        kinds = {e["profiling_name"].split(":")[1].split(" ")[0] for e in made.values()}
        members = {int(r) for r in name.split(" ")[-1].split("->")} \
            if "->" in name else set(ranks)
        assert set(made) <= members, key
        if set(made) == members:
            assert kinds == ({"send", "recv"} if "->" in name else kinds), key
            assert len(kinds) == 1 or "->" in name, (key, kinds)
            continue
        assert all(e["state"] != "completed" for e in made.values()), (key, made)
        unmatched.append((kinds, set(ranks) - set(made)))
    # Rank 0 does not make the dumper's last call.
    assert unmatched == [({"all_reduce"}, {0})], unmatched


def check(ranks):
    numbered = {}
    for rank, dump in ranks.items():
        assert dump["version"] == "2.10"
        check_groups(dump, ranks)
        for counts in dump["pg_status"].values():
            assert all(isinstance(n, int) for n in counts.values()), counts
        # The analyzer drops entries older than the newest first entry of any rank.
        numbers = [e["record_id"] for e in dump["entries"]]
        assert numbers == list(range(len(numbers))), numbers
        for e in dump["entries"]:
            check_types(e)
            assert e["process_group"][0] in dump["pg_config"]
            check_sizes(e, len(ranks))
            key = (e["process_group"], e["collective_seq_id"])
            made = numbered.setdefault(key, {})
            assert rank not in made, (key, rank)
            made[rank] = e
    check_numbers(numbered, ranks)
    assert any(e["is_p2p"] for made in numbered.values() for e in made.values())
    return numbered


def make(cohort, out, *files):
    subprocess.run([cohort, "trace", "--pickle", out, *files], check=True,
                   stdout=subprocess.DEVNULL)
    return load(out)


def refuses(cohort, out, told, *files):
    made = subprocess.run(
        [cohort, "trace", "--pickle", out, *files], capture_output=True, text=True
    )
    assert made.returncode == 1, made
    assert re.search("cohort trace: --pickle: .*" + told, made.stderr), made.stderr
    assert not os.path.exists(out)


def check_refusals(cohort, dumps, scratch):
    out = scratch + "/out2"
    refuses(cohort, out, "needs the files of the ranks", *glob.glob(dumps + "/fr_*_merged.json"))
    several = scratch + "/several"
    shutil.copytree(dumps, several)
    path = glob.glob(several + "/fr_*_rank_0.json")[0]
    other = path.replace("fr_", "fr_x", 1)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(other, "w", encoding="utf-8") as file:
        file.write(text.replace('"group":"', '"group":"x'))
    refuses(cohort, out, "these files are of ", path, other)
    with open(other, "w", encoding="utf-8") as file:
        file.write(text.replace('"serial":', '"serial":9'))
    refuses(cohort, out, "rank 0 is in dumps of two processes", path, other)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[: len(text) // 2])
    refuses(cohort, out, re.escape(path), several)


def check_names(cohort, dumps, scratch):
    """Folders, groups and unknown keys may have any names and contents."""
    folder = scratch + "/[1]"
    shutil.copytree(dumps, folder)
    for path in glob.glob(dumps + "/fr_*_merged.json"):
        shutil.copy(path, folder + "/fr_a_rank_1_g1_h.1.1_merged.json")
    for path in glob.glob(glob.escape(folder) + "/fr_*_rank_0.json"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"desc":', f'"x":{"[" * 900}{"]" * 900},"desc":', 1))
    files = glob.glob(glob.escape(folder) + "/fr_*.json")
    check(make(cohort, scratch + "/out5", *(f for f in files if "_chrome" not in f)))


def check_verdict(cohort, dumps, scratch):
    """The dump of a verdict is preferred to a requested one."""
    folder = scratch + "/verdict"
    shutil.copytree(dumps, folder)
    for path in glob.glob(folder + "/fr_*_asked_rank_*.json"):
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
        dump["cohort"].update(trigger="verdict", verdict_number=1)
        dump["comm_lib_version"] = "a verdict's"
        with open(path.replace("_asked_", "_"), "w", encoding="utf-8") as file:
            json.dump(dump, file)
    for choice, wanted in (("", True), ("_asked", False)):
        ranks = make(cohort, scratch + "/out4" + choice,
                     *glob.glob(f"{folder}/fr_*{choice}_rank_*.json"))
        check(ranks)
        for dump in ranks.values():
            assert (dump["comm_lib_version"] == "a verdict's") == wanted, choice


def check_open_batch(cohort, dumps, scratch):
    """Copy the dumps, changed as if rank 1 still waited for a batch of rank 0."""
    folder = scratch + "/open"
    shutil.copytree(dumps, folder)
    for rank in (0, 1):
        path = glob.glob(f"{folder}/fr_*_rank_{rank}.json")[0]
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
        last = [
            e for e in dump["entries"] if e["is_p2p"] or e["call"] == "batch"
        ][-1]
        assert last["is_p2p"] == (rank == 1), last
        last.update(state="started", time_discovered_completed_ns=0)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dump, file)
    check(make(cohort, scratch + "/out3", folder))


def has_fr_trace():
    """Return whether there is a PyTorch with its own reader (2.4 or newer)."""
    try:
        return importlib.util.find_spec("torch.distributed.flight_recorder.fr_trace")
    except ModuleNotFoundError:
        return None


def main():
    cohort, dumps, scratch = sys.argv[1:]
    os.makedirs(scratch)
    out = os.path.join(scratch, "out")
    ranks = make(cohort, out, dumps)
    numbered = check(ranks)
    check_refusals(cohort, dumps, scratch)
    check_open_batch(cohort, dumps, scratch)
    check_verdict(cohort, dumps, scratch)
    check_names(cohort, dumps, scratch)
    if has_fr_trace():
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace",
             out, "--prefix", "rank_"],
            check=True,
        )
    else:
        print("[SKIP] PyTorch's reader of these files: it is not installed")
    print(f"{len(ranks)} pickles, {len(numbered)} collectives")


if __name__ == "__main__":
    main()
