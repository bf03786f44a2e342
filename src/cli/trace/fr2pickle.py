# SPDX-License-Identifier: Apache-2.0
"""Write the ranks' files of a dump as pickles, which PyTorch's torchfrtrace loads.

cohort trace --pickle contains this script and runs it with two kinds of arguments: the folder OUT
and the paths of the dump's files.  For each file fr_NAME_gN_PROCESS_rank_R.json, the script writes
OUT/rank_R, a pickle as PyTorch would write it: unknown times are None, numbers that are text in
the JSON are numbers, and frames exist but are empty.

torchfrtrace compares entries of different ranks that have the same number in a process group.
So a send and its receive are put into a process group "NAME A->B" of their two ranks, and numbered
like the message.  Entries that torchfrtrace cannot match are left out: copies; batches of
messages, because a dump has only the first message; messages whose other side may be in a batch;
messages of a rank to itself; and completed calls that another rank's dump no longer has.
torchfrtrace drops entries by record_id and assumes that all ranks count alike, so the entries of
each rank are numbered from 0.

The files must belong to one group and generation.  If a process has several dumps, the dump of
its first verdict is used.  The exit status is 0, or 1 with the reason in one line.  No file is
written if any of the files is not a dump or has a wrong value.
"""

import json
import math
import os
import pickle
import re
import sys

TIMES = ("time_discovered_started_ns", "time_discovered_completed_ns")


class Wrong(Exception):
    """An error whose message says why no pickles can be written."""


# ---- required contents of a dump -------------------------------------------

WHOLE = range(2**63)
RANK = range(1024)
GROUP = {"name": str, "desc": str, "ranks": str}
STATUS = {
    f"last_{what}_collective": re.compile("[0-9]{1,19}")
    for what in ("enqueued", "started", "completed")
}
FACTS = {
    "group": str,
    "generation": WHOLE,
    "host": str,
    "pid": WHOLE,
    "serial": WHOLE,
    "verdict_number": WHOLE,
    "rank": RANK,
    "world": range(1, len(RANK) + 1),
    "lost": WHOLE,
}
# A type, a range, a pattern, or a list or an object of these.  The key ... stands for any keys.
HEAD = {
    "version": re.compile(r"2(\..*)?"),
    "comm_lib_version": str,
    "pg_config": {...: GROUP},
    "pg_status": {...: STATUS},
    "cohort": FACTS,
    "entries": list,
}
ENTRY = {  # the keys of PyTorch, which are copied
    "record_id": WHOLE,
    "pg_id": WHOLE,
    "process_group": [str],
    "thread_name": str,
    "thread_id": str,
    "collective_seq_id": WHOLE,
    "p2p_seq_id": WHOLE,
    "op_id": WHOLE,
    "profiling_name": str,
    "time_created_ns": WHOLE,
    "input_sizes": [[WHOLE]],
    "input_dtypes": [str],
    "output_sizes": [[WHOLE]],
    "output_dtypes": [str],
    "state": re.compile("scheduled|started|completed"),
    "time_discovered_started_ns": WHOLE,
    "time_discovered_completed_ns": WHOLE,
    "retired": bool,
    "timeout_ms": WHOLE,
    "is_p2p": bool,
}
OURS = {"collective": WHOLE, "pair_seq_id": WHOLE}
KINDS = {
    str: "a string", bool: "true or false", float: "a time", list: "a list", dict: "an object",
}


def kind_of(wanted):
    return wanted if isinstance(wanted, type) else type(wanted)


def spell(value):
    """Return the first 60 characters of a value as JSON."""
    if isinstance(value, (dict, list)):
        return KINDS[type(value)]
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "..."


def describe(wanted):
    if isinstance(wanted, range):
        return f"a whole number from {wanted[0]} to {wanted[-1]}"
    if isinstance(wanted, re.Pattern):
        return f"a text like {wanted.pattern}"
    return KINDS[kind_of(wanted)]


def is_right(value, wanted):
    """Return whether a value is right, without the values that it contains."""
    if isinstance(wanted, range):
        return type(value) is int and value in wanted
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.fullmatch(value)
    if wanted is float:
        return is_right(value, WHOLE) or isinstance(value, float) and math.isfinite(value)
    return isinstance(value, kind_of(wanted))


def check(where, value, wanted):
    """Raise Wrong unless a value and all values that it contains are right."""
    if not is_right(value, wanted):
        raise Wrong(f"{where} is {spell(value)}, not {describe(wanted)}")
    if isinstance(wanted, list):
        for number, inner in enumerate(value):
            check(f"{where}: item {number}", inner, wanted[0])
    if isinstance(wanted, dict):
        if ... in wanted:
            wanted = dict.fromkeys(value, wanted[...])
        for key, inner in wanted.items():
            if key not in value:
                raise Wrong(f'{where}: "{key}" is missing')
            check(f"{where}: {spell(key)}", value[key], inner)


def check_entry(where, entry):
    check(where, entry, {**ENTRY, **OURS})
    if len(entry["process_group"]) != 2:
        raise Wrong(f'{where}: "process_group" is not a list of two strings')
    if "duration_ms" in entry:
        check(f'{where}: "duration_ms"', entry["duration_ms"], float)
    if entry["is_p2p"]:
        check(where, entry, {"peer": RANK})


def check_dump(path, dump):
    check(path, dump, HEAD)
    for number, entry in enumerate(dump["entries"]):
        check_entry(f"{path}: entry {number}", entry)


def load(path):
    if not os.path.isfile(path):
        raise Wrong(f"{path}: not a regular file")
    try:
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
    except RecursionError as error:
        raise Wrong(f"{path}: too deeply nested") from error
    except (OSError, ValueError) as error:
        raise Wrong(f"{path}: {error}") from error
    if not isinstance(dump, dict) or "cohort" not in dump:
        raise Wrong(f"{path}: not a dump of a rank")
    check_dump(path, dump)
    return dump


# ---- selecting dumps -------------------------------------------------------


def process_of(dump):
    facts = dump["cohort"]
    return f"{facts['host']}.{facts['pid']}.{facts['serial']}"


def by_worth(dump):
    """Return a sort key: the dump of the first verdict is first, and requested dumps are last."""
    number = dump["cohort"]["verdict_number"]
    return number == 0, number


def by_rank(dumps):
    chosen = {}
    for dump in sorted(dumps, key=by_worth):
        other = chosen.setdefault(dump["cohort"]["rank"], dump)
        if process_of(other) != process_of(dump):
            raise Wrong(
                f"rank {dump['cohort']['rank']} is in dumps of two processes, "
                f"{process_of(other)} and {process_of(dump)}: give the files of one process"
            )
    return chosen


def check_one(dumps):
    """Raise Wrong if the dumps are of several groups or generations."""
    found = {(d["cohort"]["group"], d["cohort"]["generation"]) for d in dumps}
    if len(found) > 1:
        names = [f'"{group}" generation {generation}' for group, generation in sorted(found)]
        raise Wrong(f"these files are of {', '.join(names)}: give the files of only one")


# ---- pickles ---------------------------------------------------------------


def give_pair(made, entry, rank):
    """Turn a transfer into an operation of a group of its two ranks, numbered 0 and 1."""
    is_send = ":send" in entry["profiling_name"]
    source, target = (rank, entry["peer"]) if is_send else (entry["peer"], rank)
    name, desc = made["process_group"]
    made["process_group"] = (f"{name} {source}->{target}", desc)
    made["collective_seq_id"] = made["p2p_seq_id"] = entry["pair_seq_id"]
    a, b = (0, 1) if source < target else (1, 0)
    made["profiling_name"] = (
        f"nccl:send {a}->{b}" if is_send else f"nccl:recv {b}<-{a}"
    )


def convert_entry(entry, rank):
    made = {key: entry[key] for key in (*ENTRY, "duration_ms") if key in entry}
    for key in TIMES:
        made[key] = entry[key] or None
    made["process_group"] = tuple(entry["process_group"])
    made["frames"] = []
    if entry["is_p2p"]:
        give_pair(made, entry, rank)
    return made


def is_matched(entry, rank):
    """Return whether an analyzer can match the entry with entries of other ranks."""
    if entry["is_p2p"]:
        return entry["peer"] != rank
    return entry["profiling_name"].startswith("nccl:") and entry["collective"] > 0


def key_of(made):
    return made["process_group"][0], made["collective_seq_id"]


def has_open_batch(dump):
    """Return whether the rank has a batch of messages that has not completed."""
    return any(
        e["profiling_name"] == "nccl:coalesced"
        and e["state"] != "completed"
        and not e["collective"]
        for e in dump["entries"]
    )


def may_miss(made, other, dump):
    """Return whether rank @other may have made the call although its dump lacks it."""
    if made["is_p2p"] and other not in pair_of(made):
        return False
    if made["state"] == "completed":
        return made["is_p2p"] or dump["cohort"]["lost"] > 0
    return made["is_p2p"] and has_open_batch(dump)


def drop_lost(ranks, chosen):
    """Remove entries of calls that another rank may have made but that its dump lacks."""
    held = {r: {key_of(e) for e in entries} for r, entries in ranks.items()}
    for rank, entries in ranks.items():
        ranks[rank] = [
            e
            for e in entries
            if not any(
                key_of(e) not in held[r] and may_miss(e, r, chosen[r])
                for r in ranks
            )
        ]


def pair_of(made):
    """Return the two ranks of a send or a receive."""
    return [int(r) for r in made["process_group"][0].split(" ")[-1].split("->")]


def entries_of(chosen):
    """Return the entries of each rank that an analyzer can match, numbered from 0."""
    ranks = {
        rank: [convert_entry(e, rank) for e in dump["entries"] if is_matched(e, rank)]
        for rank, dump in chosen.items()
    }
    drop_lost(ranks, chosen)
    for entries in ranks.values():
        for number, made in enumerate(entries):
            made["record_id"] = number
    return ranks


def groups_of(dump, entries):
    """Return the process groups, including one for each pair of ranks with a transfer."""
    groups = {
        name: {key: group[key] for key in GROUP}
        for name, group in dump["pg_config"].items()
    }
    for made in (e for e in entries if e["is_p2p"]):
        name, desc = made["process_group"]
        ranks = str(sorted(pair_of(made)))
        groups[name] = {"name": name, "desc": desc, "ranks": ranks}
    return groups


def convert(dump, entries):
    status = {
        pg: {key: int(counts[key]) for key in STATUS}
        for pg, counts in dump["pg_status"].items()
    }
    return {
        "version": dump["version"],
        "comm_lib_version": dump["comm_lib_version"],
        "pg_config": groups_of(dump, entries),
        "pg_status": status,
        "entries": entries,
    }


def warn_of_missing(chosen):
    world = max(d["cohort"]["world"] for d in chosen.values())
    missing = sorted(set(range(world)) - set(chosen))
    if missing:
        say(f"no dump of ranks {missing}: torchfrtrace needs --allow-incomplete-ranks")


def run(out, paths):
    paths = sorted(path for path in paths if re.search(r"_rank_[0-9]+\.json$", path))
    if not paths:
        raise Wrong("needs the files of the ranks, fr_*_rank_*.json")
    dumps = [load(path) for path in paths]
    check_one(dumps)
    chosen = by_rank(dumps)
    entries = entries_of(chosen)
    os.makedirs(out, exist_ok=True)
    for rank, dump in sorted(chosen.items()):
        with open(os.path.join(out, f"rank_{rank}"), "wb") as file:
            pickle.dump(convert(dump, entries[rank]), file)
    warn_of_missing(chosen)


def say(what):
    # Names come from files, and a terminal would obey their control characters.
    text = "".join(c if c.isprintable() else "?" for c in str(what))
    print(f"cohort trace: --pickle: {text}", file=sys.stderr)


def main():
    try:
        run(sys.argv[1], sys.argv[2:])
    except (Wrong, OSError) as error:
        say(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
