#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn dumps of the flight recorder into the files that PyTorch's torchfrtrace loads.

usage: fr2pickle.py [--group NAME] [--generation N] [--of TEXT] FOLDER OUT

FOLDER has the files fr_NAME_gN_OF_rank_R.json of a dump; OUT gets rank_R for each of
them, a pickle with the same content as PyTorch writes itself: times that are not
known are None, numbers that its JSON has as text are numbers, frames are there and
empty.  Then

    torchfrtrace OUT --prefix rank_

It looks for an entry of one number on all ranks of a process group.  So a send and
its receive are in a group "NAME A->B" of their two ranks, with the message's number.
Left out is what it cannot match: copies, batches of messages, of which a dump has
the first only, and messages whose other side may be in one, messages to oneself, and
what has completed but another rank no longer has.  It drops entries by record_id as
if all ranks had counted alike, so that they are numbered anew, from 0.

FOLDER may have dumps of several groups and generations: of one group, the last
generation is taken unless told otherwise.  OF is HOST.PID.SERIAL, and _vN or
_asked behind it, see cohort_dump(); if several processes have the same rank, only files
with TEXT in that are taken.  A process's first verdict is taken if there are several
dumps of it.  Exit status 0, or 1 with the reason.
"""

import argparse
import glob
import json
import os
import pickle
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
    """What keeps the files from being made, for people."""


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
    except (OSError, ValueError) as error:
        raise Wrong(f"{path}: {error}") from error
    if not isinstance(dump, dict) or "cohort" not in dump or "entries" not in dump:
        raise Wrong(f"{path}: not a dump of a rank")
    if dump["version"].split(".")[0] != "2":
        raise Wrong(f"{path}: version {dump['version']}, not 2.x")
    return dump


def name_of(dump):
    """What tells dumps of one name and generation apart."""
    number = dump["cohort"]["verdict_number"]
    return process_of(dump) + {0: "_asked", 1: ""}.get(number, f"_v{number}")


def process_of(dump):
    facts = dump["cohort"]
    return f"{facts['host']}.{facts['pid']}.{facts['serial']}"


def by_worth(dump):
    """The first verdict first, and what was asked for last."""
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
    """Those of one group and one generation, by rank."""
    groups = sorted({d["cohort"]["group"] for d in dumps})
    if not dumps:
        raise Wrong("no dump is of that")
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


def direction(entry, rank):
    """From which rank to which a send or a receive goes."""
    peer = entry["peer"]
    return (rank, peer) if ":send" in entry["profiling_name"] else (peer, rank)


def give_pair(made, entry, rank):
    """As an operation of the two ranks, whose ranks in their group are 0 and 1."""
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
    """Whether an analyser can match it."""
    if entry["is_p2p"]:
        return entry["peer"] != rank
    return entry["profiling_name"].startswith("nccl:") and entry["collective"] > 0


def key_of(made):
    return made["process_group"][0], made["collective_seq_id"]


def has_open_batch(dump):
    """Whether messages that have not ended are in the rank's batch."""
    return any(
        e["profiling_name"] == "nccl:coalesced"
        and e["state"] != "completed"
        and not e["collective"]
        for e in dump["entries"]
    )


def may_miss(made, other, dump):
    """Whether another rank may have made it without its dump having it."""
    if made["is_p2p"] and other not in pair_of(made):
        return False
    if made["state"] == "completed":
        return made["is_p2p"] or dump["cohort"]["lost"] > 0
    return made["is_p2p"] and has_open_batch(dump)


def drop_lost(ranks, chosen):
    """What another rank of its group made too, but its dump does not have."""
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
    """Each rank's entries, such as the ranks' fit together."""
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
    groups = dict(dump["pg_config"])
    for made in (e for e in entries if e["is_p2p"]):
        name, desc = made["process_group"]
        ranks = str(sorted(pair_of(made)))
        groups[name] = {"name": name, "desc": desc, "ranks": ranks}
    return groups


def convert(dump, entries):
    status = {
        pg: {key: int(value) for key, value in counts.items()}
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
    paths = sorted(glob.glob(os.path.join(options.folder, "fr_*_rank_*.json")))
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
    print(f"{len(chosen)} files in {options.out}")


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
        print(f"fr2pickle.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
