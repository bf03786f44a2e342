#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the files of a dump with an independent parser.

usage: dump.py FOLDER [RANKS]

Each rank's file must have the keys and types of PyTorch's flight recorder 2.10, and ours.
The merged file must have the entries of all ranks.  A viewer must be able to read the
trace events: their phases are known, their times are numbers, slices of a track do not
overlap, and asynchronous events end.  Exit status 0, or 1 with a message.
"""

import ast
import collections
import glob
import json
import os
import sys

SCHEMA = {
    "record_id": int,
    "pg_id": int,
    "process_group": [str],
    "thread_name": str,
    "thread_id": str,
    "collective_seq_id": int,
    "p2p_seq_id": int,
    "op_id": int,
    "profiling_name": str,
    "time_created_ns": int,
    "input_sizes": [[int]],
    "input_dtypes": [str],
    "output_sizes": [[int]],
    "output_dtypes": [str],
    "state": str,
    "time_discovered_started_ns": int,
    "time_discovered_completed_ns": int,
    "retired": bool,
    "timeout_ms": int,
    "is_p2p": bool,
}
OURS = {
    "call": str,
    "first_call": str,
    "dtype": str,
    "reduce_op": (str, type(None)),
    "root": (int, type(None)),
    "peer": (int, type(None)),
    "tensors": int,
    "digest": int,
    "count": int,
    "bytes": int,
    "collective": int,
    "pair_seq_id": int,
    "tag": str,
    "label": str,
    "outcome": int,
    "submitted_ns": int,
    "started_ns": int,
    "finished_ns": int,
    "finished_at_most": bool,
}
FACTS = {
    "format": int,
    "group": str,
    "generation": int,
    "size": int,
    "world": int,
    "host": str,
    "pid": int,
    "serial": int,
    "trigger": str,
    "verdict_number": int,
    "wall_ns": int,
    "monotonic_ns": int,
    "cause": (dict, type(None)),
    "verdict": (dict, type(None)),
    "stacks": [dict],
    "threads_left_out": int,
}
STACK = {
    "rank": (int, type(None)),
    "tid": int,
    "thread": str,
    "state": str,
    "holds_interpreter_lock": bool,
    "text": str,
    "frames": [dict],
}
FRAME = {
    "path": (str, type(None)),
    "build_id": (str, type(None)),
    "offset": int,
}
RANK_FACTS = {
    "rank": int,
    "device": int,
    "tid": int,
    "thread": str,
    "inside": bool,
    "recorded": int,
    "lost": int,
}
# Calls that PyTorch's analyzer knows.
CALLS = {
    "all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter",
    "gather", "scatter", "all_to_all", "barrier", "split", "send", "recv",
    "coalesced",
}


def is_a(value, kind):
    if isinstance(kind, list):
        return isinstance(value, list) and all(is_a(v, kind[0]) for v in value)
    # In Python, but not in JSON, True is an int.
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)


def check_keys(where, values, schema):
    for key, kind in schema.items():
        assert key in values, f"{where}: no {key}"
        assert is_a(values[key], kind), f"{where}: {key} is {values[key]!r}"


def check_times(where, e):
    assert e["time_created_ns"] > 10**18, f"{where}: no time of the wall"
    order = [e["submitted_ns"], e["started_ns"], e["finished_ns"]]
    seen = [t for t in order if t]
    assert seen == sorted(seen), f"{where}: {order}"
    assert (e["state"] == "completed") == (e["time_discovered_completed_ns"] > 0), where
    if e["state"] == "scheduled":
        assert e["time_discovered_started_ns"] == 0, where
    assert not e["finished_at_most"] or e["finished_ns"], where
    if "duration_ms" in e:
        assert not e["finished_at_most"], f"{where}: a duration without an end"
        assert isinstance(e["duration_ms"], float), where
        wanted = (e["finished_ns"] - e["started_ns"]) / 1e6
        assert abs(e["duration_ms"] - wanted) < 1e-9, where


def check_entry(where, e):
    check_keys(where, e, SCHEMA)
    check_keys(where, e, OURS)
    unknown = set(e) - set(SCHEMA) - set(OURS) - {"duration_ms"}
    assert not unknown, f"{where}: {unknown}"
    assert len(e["process_group"]) == 2, where
    assert e["state"] in ("scheduled", "started", "completed"), where
    library, name = e["profiling_name"].split(":")
    assert (library, name) == ("cohort", "copy") or (
        library == "nccl" and name.split(" ")[0] in CALLS
    ), f"{where}: {e['profiling_name']}"
    assert e["is_p2p"] == (name.split(" ")[0] in ("send", "recv")), where
    check_times(where, e)


def check_entries(where, entries):
    for i, e in enumerate(entries):
        check_entry(f"{where}, entry {i}", e)
    ids = [e["record_id"] for e in entries]
    assert ids == sorted(set(ids)), f"{where}: out of order"
    numbers = [e["collective_seq_id"] for e in entries]
    assert numbers == sorted(numbers), f"{where}: collectives out of order"


def check_facts(path, facts):
    check_keys(path, facts, FACTS)
    for stack in facts["stacks"]:
        check_keys(path, stack, STACK)
        for frame in stack["frames"]:
            check_keys(path, frame, FRAME)


def check_rank(path, dump):
    assert dump["version"] == "2.10", path
    assert is_a(dump["comm_lib_version"], str), path
    check_facts(path, dump["cohort"])
    check_keys(path, dump["cohort"], RANK_FACTS)
    assert path.endswith(f"_rank_{dump['cohort']['rank']}.json"), path
    for name, group in dump["pg_config"].items():
        assert group["name"] == name and is_a(group["desc"], str), path
        ranks = ast.literal_eval(group["ranks"])
        assert ranks == list(range(dump["cohort"]["world"])), path
    for status in dump["pg_status"].values():
        for which in ("enqueued", "started", "completed"):
            int(status[f"last_{which}_collective"])
            assert is_a(status[f"last_{which}_collective"], str), path
    check_entries(path, dump["entries"])
    assert len(dump["entries"]) == dump["cohort"]["recorded"], path
    for e in dump["entries"]:
        assert e["process_group"][0] in dump["pg_config"], path


def check_merged(path, dump, ranks):
    check_facts(path, dump["cohort"])
    assert [r["rank"] for r in dump["ranks"]] == sorted(ranks), path
    for r in dump["ranks"]:
        check_keys(path, r, RANK_FACTS)
        check_entries(path, r["entries"])
        n = len(r["entries"])
        assert r["entries"] == ranks[r["rank"]]["entries"][-n:] or not n, path


def check_slices(path, slices):
    """Check that slices of a track are nested, or follow one another."""
    end = 0.0
    for s in sorted(slices, key=lambda s: s["ts"]):
        assert s["ts"] >= end - 0.0015, f"{path}: overlap at {s}"
        end = s["ts"] + s["dur"]


def check_chrome(path, trace):
    tracks, open_ids = collections.defaultdict(list), {}
    named = set()
    assert isinstance(trace["traceEvents"], list), path
    for e in trace["traceEvents"]:
        assert is_a(e["name"], str) and is_a(e["pid"], int), f"{path}: {e}"
        if e["ph"] == "M":
            if e["name"] == "thread_name":
                named.add(e["tid"])
            continue
        assert is_a(e["ts"], float) and is_a(e["tid"], int), f"{path}: {e}"
        assert is_a(e["cat"], str), f"{path}: {e}"
        key = (e["cat"], e.get("id"), e["pid"])
        if e["ph"] == "X":
            assert is_a(e["dur"], float) and e["dur"] >= 0, f"{path}: {e}"
            tracks[e["tid"]].append(e)
        elif e["ph"] == "b":
            assert key not in open_ids, f"{path}: {e} is open"
            open_ids[key] = e["ts"]
        elif e["ph"] == "e":
            assert open_ids.pop(key) <= e["ts"], f"{path}: {e}"
        else:
            assert e["ph"] == "i" and e["s"] == "t", f"{path}: {e}"
    assert not open_ids, f"{path}: {open_ids} never ended"
    assert set(tracks) <= named, f"{path}: a track without a name"
    for slices in tracks.values():
        check_slices(path, slices)
    for e in trace["traceEvents"]:
        is_bound = e.get("cat", "").startswith("execution") \
            and e["args"]["finished_at_most"]
        assert (e.get("cat") == "execution,upper bound") == is_bound, f"{path}: {e}"
        assert e["name"].endswith(" (or less)") == is_bound, f"{path}: {e}"
    return {e.get("cat", "").split(",")[0] for e in trace["traceEvents"]}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def check_folder(folder, wanted=None):
    """Check all dumps of a directory; return how many files there were."""
    count = 0
    for path in glob.glob(os.path.join(folder, "fr_*_merged.json")):
        stem = path[: -len("merged.json")]
        ranks = {}
        for rank_path in glob.glob(glob.escape(stem) + "rank_*.json"):
            dump = load(rank_path)
            check_rank(rank_path, dump)
            ranks[dump["cohort"]["rank"]] = dump
        assert ranks and (wanted is None or len(ranks) == wanted), path
        check_merged(path, load(path), ranks)
        categories = check_chrome(stem + "chrome.json", load(stem + "chrome.json"))
        assert "arrival" in categories and "execution" in categories, categories
        count += 2 + len(ranks)
    assert count, f"{folder}: no dump"
    return count


if __name__ == "__main__":
    try:
        total = check_folder(
            sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
        )
    except AssertionError as wrong:
        print(wrong)
        sys.exit(1)
    print(f"{total} files")
