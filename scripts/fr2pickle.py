#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn dumps of the flight recorder into the files that PyTorch's torchfrtrace loads.

usage: fr2pickle.py [--group NAME] [--generation N] [--of TEXT] FOLDER OUT

FOLDER has the files fr_NAME_gN_OF_rank_R.json of a dump; OUT gets a file rank_R for each
of them, a pickle as PyTorch itself would write: unknown times are None, numbers that the
JSON has as text are numbers, and frames exist but are empty.  Then run

    torchfrtrace OUT --prefix rank_

torchfrtrace looks for the entries of one number on all ranks of a process group.  So a
send and its receive are in a group "NAME A->B" of their two ranks, with the message's
number.  Entries that torchfrtrace cannot match are left out: copies; batches of messages,
of which a dump has only the first, and messages whose other side may be in such a batch;
messages of a rank to itself; and completed calls that another rank's dump no longer has.
torchfrtrace drops entries by record_id as if all ranks had counted alike, so entries are
numbered anew, from 0.

FOLDER may have dumps of several groups and generations: --group chooses the group, and
the default is its last generation.  OF is HOST.PID.SERIAL, followed by _vN or _asked, see
cohort_dump(); if several processes have one rank, --of takes only files with TEXT in OF.
If a process has several dumps, the one of its first verdict is taken.  Exit status 0, or
1 with the reason in one line: a file that is no dump, or has a wrong value, is named, and
no file is written.
"""

import argparse
import glob
import json
import math
import os
import pickle
import re
import sys

TIMES = ("time_discovered_started_ns", "time_discovered_completed_ns")
SCHEMA = (
    "record_id", "pg_id", "process_group", "thread_name", "thread_id",
    "collective_seq_id", "p2p_seq_id", "op_id", "profiling_name",
    "time_created_ns", "duration_ms", "input_sizes", "input_dtypes",
    "output_sizes", "output_dtypes", "state", "time_discovered_started_ns",
    "time_discovered_completed_ns", "retired", "timeout_ms", "is_p2p",
)


class Wrong(Exception):
    """Why the files cannot be made, as a text for people."""


# ---- what a dump must have -------------------------------------------------

MOST_RANKS = 1024


def is_whole(value, least=0, most=2**63 - 1):
    return type(value) is int and least <= value <= most


def is_text(value):
    return isinstance(value, str)


def is_list_of(value, check):
    return isinstance(value, list) and all(map(check, value))


def is_rank(value):
    return is_whole(value, 0, MOST_RANKS - 1)


def is_number_text(value):
    return is_text(value) and re.fullmatch("[0-9]{1,19}", value, re.ASCII)


def is_time(value):
    return is_whole(value) or isinstance(value, float) and math.isfinite(value)


TEXT = ("a string", is_text)
WHOLE = ("a whole number from 0", is_whole)
BOOL = ("true or false", lambda value: isinstance(value, bool))
OBJECT = ("an object", lambda value: isinstance(value, dict))
SIZES = (
    "a list of lists of whole numbers",
    lambda value: is_list_of(value, lambda size: is_list_of(size, is_whole)),
)
TYPES = ("a list of strings", lambda value: is_list_of(value, is_text))
RANK = (f"a rank from 0 to {MOST_RANKS - 1}", is_rank)

HEAD = {
    "version": TEXT,
    "comm_lib_version": TEXT,
    "pg_config": OBJECT,
    "pg_status": OBJECT,
    "cohort": OBJECT,
    "entries": ("a list", lambda value: isinstance(value, list)),
}
GROUP = {"name": TEXT, "desc": TEXT, "ranks": TEXT}
STATUS = {
    f"last_{what}_collective": ("a whole number as text", is_number_text)
    for what in ("enqueued", "started", "completed")
}
FACTS = {
    "group": TEXT,
    "generation": WHOLE,
    "host": TEXT,
    "pid": WHOLE,
    "serial": WHOLE,
    "verdict_number": WHOLE,
    "rank": RANK,
    "world": (
        f"a number of ranks from 1 to {MOST_RANKS}",
        lambda value: is_whole(value, 1, MOST_RANKS),
    ),
    "lost": WHOLE,
}
ENTRY = {
    "record_id": WHOLE,
    "pg_id": WHOLE,
    "process_group": (
        "a list of two strings",
        lambda value: is_list_of(value, is_text) and len(value) == 2,
    ),
    "thread_name": TEXT,
    "thread_id": TEXT,
    "collective_seq_id": WHOLE,
    "p2p_seq_id": WHOLE,
    "op_id": WHOLE,
    "profiling_name": TEXT,
    "time_created_ns": WHOLE,
    "input_sizes": SIZES,
    "input_dtypes": TYPES,
    "output_sizes": SIZES,
    "output_dtypes": TYPES,
    "state": (
        "a state",
        lambda value: value in ("scheduled", "started", "completed"),
    ),
    "time_discovered_started_ns": WHOLE,
    "time_discovered_completed_ns": WHOLE,
    "retired": BOOL,
    "timeout_ms": WHOLE,
    "is_p2p": BOOL,
    "collective": WHOLE,
    "pair_seq_id": WHOLE,
}


def spell(value):
    """A value on one line, cut where it is long."""
    text = json.dumps(value) if not isinstance(value, (dict, list)) else (
        "an object" if isinstance(value, dict) else "a list"
    )
    return text if len(text) <= 60 else text[:60] + "..."


def check(path, where, value, keys):
    """Raise Wrong unless @value is an object with all @keys of the right types."""
    if not isinstance(value, dict):
        raise Wrong(f"{path}: {where} is {spell(value)}, not an object")
    for key, (what, is_right) in keys.items():
        name = f'{where} "{key}"'.lstrip()
        if key not in value:
            raise Wrong(f"{path}: {name} is missing")
        if not is_right(value[key]):
            raise Wrong(f"{path}: {name} is {spell(value[key])}, not {what}")


def check_entry(path, number, entry):
    where = f"entry {number}:"
    check(path, where, entry, ENTRY)
    if "duration_ms" in entry:
        check(path, where, entry, {"duration_ms": ("a time", is_time)})
    if entry["is_p2p"]:
        check(path, where, entry, {"peer": RANK})


def check_dump(path, dump):
    check(path, "", dump, HEAD)
    if dump["version"].split(".")[0] != "2":
        raise Wrong(f'{path}: "version" is {spell(dump["version"])}, not 2.x')
    check(path, '"cohort":', dump["cohort"], FACTS)
    for name, group in dump["pg_config"].items():
        check(path, f'"pg_config": {spell(name)}:', group, GROUP)
    for name, counts in dump["pg_status"].items():
        check(path, f'"pg_status": {spell(name)}:', counts, STATUS)
    for number, entry in enumerate(dump["entries"]):
        check_entry(path, number, entry)


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


# ---- which dumps -----------------------------------------------------------


def name_of(dump):
    """The part of a name that tells dumps of one group and generation apart."""
    number = dump["cohort"]["verdict_number"]
    return process_of(dump) + {0: "_asked", 1: ""}.get(number, f"_v{number}")


def process_of(dump):
    facts = dump["cohort"]
    return f"{facts['host']}.{facts['pid']}.{facts['serial']}"


def by_worth(dump):
    """A sort key: verdicts in their order, then dumps on demand."""
    number = dump["cohort"]["verdict_number"]
    return number == 0, number


def by_rank(dumps):
    chosen = {}
    for dump in sorted(dumps, key=by_worth):
        other = chosen.setdefault(dump["cohort"]["rank"], dump)
        if process_of(other) != process_of(dump):
            raise Wrong(
                f"rank {dump['cohort']['rank']} is of {name_of(other)} and "
                f"of {name_of(dump)}: choose one, --of"
            )
    return chosen


def choose(dumps, group, generation):
    """The dumps of one group and one generation, by rank."""
    groups = sorted({d["cohort"]["group"] for d in dumps})
    if not dumps:
        raise Wrong("no dump matches --of")
    if group is None and len(groups) > 1:
        raise Wrong(f"there are dumps of {', '.join(groups)}: choose one, --group")
    group = groups[0] if group is None else group
    dumps = [d for d in dumps if d["cohort"]["group"] == group]
    if generation is None:
        generation = max((d["cohort"]["generation"] for d in dumps), default=0)
    chosen = by_rank(d for d in dumps if d["cohort"]["generation"] == generation)
    if not chosen:
        raise Wrong(f"no dump of group {group}, generation {generation}")
    return chosen


# ---- pickles ---------------------------------------------------------------


def direction(entry, rank):
    """From which rank to which a send or a receive goes."""
    peer = entry["peer"]
    return (rank, peer) if ":send" in entry["profiling_name"] else (peer, rank)


def give_pair(made, entry, rank):
    """Make a transfer an operation of its two ranks, which are 0 and 1 in their group."""
    source, target = direction(entry, rank)
    name, desc = made["process_group"]
    made["process_group"] = (f"{name} {source}->{target}", desc)
    made["collective_seq_id"] = made["p2p_seq_id"] = entry["pair_seq_id"]
    a, b = (0, 1) if source < target else (1, 0)
    made["profiling_name"] = (
        f"nccl:send {a}->{b}" if rank == source else f"nccl:recv {b}<-{a}"
    )


def convert_entry(entry, rank):
    made = {key: entry[key] for key in SCHEMA if key in entry}
    for key in TIMES:
        made[key] = entry[key] or None
    made["process_group"] = tuple(entry["process_group"])
    made["frames"] = []
    if entry["is_p2p"]:
        give_pair(made, entry, rank)
    return made


def is_matched(entry, rank):
    """Whether an analyser can match the entry."""
    if entry["is_p2p"]:
        return entry["peer"] != rank
    return entry["profiling_name"].startswith("nccl:") and entry["collective"] > 0


def key_of(made):
    return made["process_group"][0], made["collective_seq_id"]


def has_open_batch(dump):
    """Whether a batch of the rank has messages that have not ended."""
    return any(
        e["profiling_name"] == "nccl:coalesced"
        and e["state"] != "completed"
        and not e["collective"]
        for e in dump["entries"]
    )


def may_miss(made, other, dump):
    """Whether another rank may have made the call without a trace in its dump."""
    if made["is_p2p"] and other not in pair_of(made):
        return False
    if made["state"] == "completed":
        return made["is_p2p"] or dump["cohort"]["lost"] > 0
    return made["is_p2p"] and has_open_batch(dump)


def drop_lost(ranks, chosen):
    """The entries that another rank of the group made too, but its dump lacks."""
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
    """The two ranks of a send or a receive."""
    return [int(r) for r in made["process_group"][0].split(" ")[-1].split("->")]


def entries_of(chosen):
    """Each rank's entries, so that those of all ranks match."""
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
    """The process groups, and those of the pairs that send and receive."""
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
        print(
            f"no dump of ranks {missing}: torchfrtrace wants "
            "--allow-incomplete-ranks",
            file=sys.stderr,
        )


def run(options):
    # A group's name may contain "_rank_", and then the merged file's name does, too.
    paths = sorted(
        path
        for path in glob.glob(os.path.join(glob.escape(options.folder), "fr_*.json"))
        if re.search(r"_rank_[0-9]+\.json$", path)
    )
    if not paths:
        raise Wrong(f"{options.folder}: no files fr_*_rank_*.json")
    dumps = [d for d in map(load, paths) if options.of in name_of(d)]
    chosen = choose(dumps, options.group, options.generation)
    os.makedirs(options.out, exist_ok=True)
    entries = entries_of(chosen)
    for rank, dump in sorted(chosen.items()):
        with open(os.path.join(options.out, f"rank_{rank}"), "wb") as file:
            pickle.dump(convert(dump, entries[rank]), file)
    warn_of_missing(chosen)
    print(f"{len(chosen)} files in {one_line(options.out)}")


def one_line(what):
    """As text that any terminal shows: names come from files."""
    return "".join(c if c.isprintable() else "?" for c in str(what))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--group", metavar="NAME")
    parser.add_argument("--generation", metavar="N", type=int)
    parser.add_argument("--of", metavar="TEXT", default="")
    try:
        run(parser.parse_args())
    except (Wrong, OSError) as error:
        print(f"fr2pickle.py: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
