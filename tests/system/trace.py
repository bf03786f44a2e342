#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test cohort trace on intact and damaged dumps of a demo with a rank that stalls.

usage: trace.py COHORT          exit status 0 passed, 1 failed, 77 skipped
"""

import fcntl
import glob
import json
import os
import pickle
import pty
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

sys.dont_write_bytecode = True
import dump as checks


class Trace:
    def __init__(self, cohort, folder):
        self.cohort = cohort
        self.folder = folder

    def run(self, *arguments, status=0):
        made = subprocess.run(
            [self.cohort, "trace", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=100,
        )
        assert made.returncode == status, (arguments, made)
        return made

    def json(self, *arguments):
        return json.loads(self.run("--json", *arguments).stdout)

    def files(self, what="*"):
        return sorted(glob.glob(f"{self.folder}/fr_demo_g1_*_{what}.json"))

    def path(self, what):
        return self.files(what)[0]


def make_dumps(cohort, folder):
    environment = dict(os.environ, COHORT_PLATFORM="host", COHORT_DUMP_DIR=folder)
    subprocess.run(
        [cohort, "demo", "--json"],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def check_whole(trace):
    verdict = json.loads(read(trace.path("merged")))["cohort"]["verdict"]
    found = trace.json(*trace.files())
    assert found["verdict"]["text"] == verdict["text"]
    assert found["verdict"]["kind"] == "busy in the program"
    assert found["verdict"]["rank"] == 2
    assert found["stalled_at"] == verdict["collective"]
    assert found["missing_ranks"] == [] and found["problems"] == []
    stall = [r for r in found["window"] if r["collective"] == found["stalled_at"]]
    assert sorted(r["rank"] for r in stall[0]["ranks"]) == [0, 1, 3], stall
    assert all(r["state"] != "completed" for r in stall[0]["ranks"]), stall
    before = [r for r in found["window"] if r["collective"] < found["stalled_at"]]
    assert all(r["state"] == "completed" for w in before for r in w["ranks"])
    came_last = sum(r["came_last"] for r in found["ranks"])
    assert came_last == found["ranks"][0]["of"] > 0
    check_figures(trace, found)


def check_figures(trace, found):
    """Check the figures against ones computed here."""
    calls, lates = 0, {}
    arrivals = {}
    for path in trace.files("rank_*"):
        dump = json.loads(read(path))
        rank = dump["cohort"]["rank"]
        calls += sum(1 for e in dump["entries"] if e["finished_ns"])
        for e in dump["entries"]:
            if e["collective"]:
                arrivals.setdefault(e["collective"], {})[rank] = e["submitted_ns"]
    assert sum(s["calls"] for s in found["sites"]) == calls
    for times in arrivals.values():
        if len(times) == 4:
            last = max(times, key=times.get)
            lates.setdefault(last, []).append(max(times.values()) - min(times.values()))
    for rank in found["ranks"]:
        late = sorted(lates.get(rank["rank"], []))
        assert rank["came_last"] == len(late), rank
        assert rank["late_ns"]["max"] == (late[-1] if late else 0), rank
        assert rank["late_ns"]["p50"] == (late[(len(late) - 1) // 2] if late else 0)
    bounds = sum(e["finished_at_most"] for path in trace.files("rank_*")
                 for e in json.loads(read(path))["entries"])
    assert sum(s["finished_at_most"] for s in found["sites"]) == bounds > 0
    for site in found["sites"]:
        assert site["execution_ns"]["n"] <= site["calls"] - site["finished_at_most"], site
        for key in ("queueing_ns", "waiting_ns", "execution_ns", "between_ns"):
            s = site[key]
            assert 0 <= s["p50"] <= s["p95"] <= s["max"], site


def check_text(trace):
    text = trace.run(*trace.files()).stdout
    assert "verdict   busy in the program" in text, text
    assert re.search(r"^>\d+ +all_reduce.* > .* \. +> ", text, re.M), text
    assert "came last" in text and "execution" in text, text
    for line in text.splitlines():
        assert len(line) <= 79 or "call" in line or "addr2line" in line, line


def on_terminal(trace, columns, *arguments):
    """Return the lines that cohort trace prints on a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    text = b""
    with subprocess.Popen([trace.cohort, "trace", *arguments], stdout=slave):
        os.close(slave)
        try:
            while part := os.read(master, 65536):
                text += part
        except OSError:
            pass  # the other end is closed
    os.close(master)
    return text.decode().replace("\r", "").splitlines()


def check_width(trace):
    """Check that lines use the width of the terminal."""
    path = trace.path("merged")
    assert on_terminal(trace, 80, path) == trace.run(path).stdout.splitlines()
    wide = [line for line in on_terminal(trace, 160, path) if line.startswith(">")]
    assert len(wide) == 1 and "the first of 10 float32, sum  >" in wide[0], wide
    narrow = on_terminal(trace, 60, path)
    row = [line for line in narrow if line.startswith(">")]
    assert len(row) == 1 and re.search(r" >>\.>$", row[0]), "marks without times"
    assert all(len(line) < 60 for line in narrow[:narrow.index("")]), narrow


def check_folder(trace):
    """Check that only the newest dump of a folder is read."""
    files = [f for f in trace.files() if "_chrome" not in f]
    whole = trace.json(*files)
    assert trace.json(trace.folder) == whole
    folder = trace.folder + "/several"
    os.makedirs(folder)

    def copy(old, new, age, keep=lambda path: True):
        for path in filter(keep, files):
            made = f"{folder}/{os.path.basename(path).replace(old, new, 1)}"
            text = read(path)
            if new == "_g2_":
                text = text.replace('"generation":1', '"generation":2', 1)
            write(made, text)
            os.utime(made, ns=(10**18 - age * 10**9,) * 2)

    copy("demo", "demo", 1000)
    assert trace.json(folder) == whole
    copy("_g1_", "_g2_", 2000)
    assert trace.json(folder) == whole, "an older generation"
    copy("_g1_", "_g2_", 0)
    assert trace.json(folder)["generation"] == 2, "a newer generation"
    shutil.rmtree(folder)
    os.makedirs(folder)
    assert f"{folder}: no dump (fr_*_merged.json) in this folder" in trace.run(
        folder, status=1).stderr
    # Ranks 2 and 3 are of another process.
    of, other = os.path.basename(files[0]).rsplit("_", 1)[0].rsplit(".", 1)
    copy("demo", "demo", 0, lambda path: "rank_0" in path or "rank_1" in path)
    merged = json.loads(read(trace.path("merged")))
    for age, missing in ((70, [2, 3]), (50, [])):
        for ranks, serial, seconds in (((0, 1), other, 0), ((2, 3), "77", age)):
            made = f"{folder}/{of}.{serial}_merged.json"
            serial = int(serial)
            write(made, json.dumps(dict(
                merged, cohort=dict(merged["cohort"], serial=serial),
                ranks=[r for r in merged["ranks"] if r["rank"] in ranks])))
            os.utime(made, ns=(10**18 - seconds * 10**9,) * 2)
        assert trace.json(folder)["missing_ranks"] == missing, age
    shutil.rmtree(folder)


def stack_of(found, rank):
    stacks = [s for s in found["stacks"] if s["rank"] == rank]
    assert len(stacks) == 1, found["stacks"]
    return stacks[0]


def changed_stack(trace, to, change):
    """Apply @change(frame) to each frame of a merged file's stack, and trace it."""
    dump = json.loads(read(trace.path("merged")))
    for stack in dump["cohort"]["stacks"]:
        for frame in stack["frames"]:
            change(frame)
    write(to, json.dumps(dump))
    return trace.json(to), trace.run(to).stdout


def check_stacks(trace):
    """Check that files of the same build name frames, and a command is shown otherwise."""
    stack = stack_of(trace.json(*trace.files()), 2)
    named = [f for f in stack["frames"] if (f["function"] or "").startswith("train_worker")]
    assert len(named) == 1, stack
    assert os.path.samefile(named[0]["path"], trace.cohort), stack
    assert re.search(r"(^| < )train_worker(\+0x| \()", stack["text"]), stack
    text = trace.run(*trace.files()).stdout
    assert re.search(r"^ stack of rank 2, thread \d+ \"demo/2\"", text, re.M), text
    assert re.search(r"^   train_worker(\+0x| \()", text, re.M), text

    path, offset = named[0]["path"], named[0]["offset"]
    other = f"{trace.folder}/other.json"
    command = f"addr2line -e {path} -f -C [0x0-9a-f ]*0x{offset:x}"
    found, text = changed_stack(trace, other, lambda f: f.update(build_id="00"))
    assert all(not f["function"] for f in stack_of(found, 2)["frames"]), found
    assert re.search(command, text), text
    assert "(with the file of build ID 00: this file is of another build)" in text, text
    found, text = changed_stack(trace, other, lambda f: f.update(path="/no such/file's"))
    assert all(not f["function"] for f in stack_of(found, 2)["frames"]), found
    assert "addr2line -e '/no such/file'\\''s' -f -C 0x" in text, text
    found, text = changed_stack(trace, other, lambda f: f.update(offset=0, path=None))
    assert all(not f["function"] for f in stack_of(found, 2)["frames"]), found
    assert "addr2line" not in text and re.search(r"^   0x0$", text, re.M), text
    dump = json.loads(read(trace.path("merged")))
    del dump["cohort"]["stacks"]  # a dump of an earlier version
    write(other, json.dumps(dump))
    found = trace.json(other)
    assert found["stacks"] == [] and found["problems"] == [], found
    os.unlink(other)


def check_parts(trace):
    """Check the merged file alone, and the files of all ranks but one."""
    whole = trace.json(*trace.files())
    merged = trace.json(trace.path("merged"))
    for key in ("verdict", "stalled_at", "window", "missing_ranks"):
        assert merged[key] == whole[key], key
    some = trace.json(*(f for f in trace.files("rank_*") if "rank_1" not in f))
    assert some["missing_ranks"] == [1]
    assert some["stalled_at"] == whole["stalled_at"]
    text = trace.run(trace.path("rank_0")).stdout
    assert "no dump of rank 1-3" in text, text


def check_asked(trace):
    """Check that a verdict's dump counts, not one on demand, in any order of files."""
    whole = trace.json(*trace.files())
    files = trace.files("rank_*") + trace.files("merged")
    asked = []
    for path in files:
        text = read(path).replace('"verdict_number":1', '"verdict_number":0')
        text = re.sub(r'"verdict":{[^}]*}', '"verdict":null', text, count=1)
        text = text.replace('"tid":', '"tid":7')
        asked.append(path.replace("_rank_", "_asked_rank_").replace(
            "_merged", "_asked_merged"))
        write(asked[-1], text)
    for order in (files + asked, asked + files):
        found = trace.json(*order)
        for key in ("verdict", "window", "ranks", "sites"):
            assert found[key] == whole[key], key
        assert any("_asked" in p for p in found["problems"]), found["problems"]
    assert trace.json(*asked)["verdict"] != whole["verdict"]
    for path in asked:
        os.unlink(path)


def check_processes(trace):
    """Check that the verdict of a process counts only if its ranks are included."""
    path = trace.folder + "/other.json"
    dump = json.loads(read(trace.path("rank_0")))
    dump["cohort"].update(serial=9, verdict_number=0, verdict=None, cause=None)
    write(path, json.dumps(dump))
    found = trace.json(path, trace.path("rank_0"))
    assert found["verdict"] is None, found["verdict"]
    assert len(found["problems"]) == 1, found["problems"]
    found = trace.json(trace.path("rank_0"), path)
    assert found["verdict"]["rank"] == 2, found["verdict"]


def check_chrome(trace):
    out = trace.folder + "/out.json"
    trace.run("--chrome", out, *trace.files("rank_*"))
    categories = checks.check_chrome(out, json.loads(read(out)))
    assert {"arrival", "waiting", "execution", "gap"} <= categories, categories
    trace.run("--chrome", "/dev/null/x", trace.path("merged"), status=1)


def change_entries(trace, path, change):
    """Write rank 0's dump with the entries that @change makes of one of its entries."""
    dump = json.loads(read(trace.path("rank_0")))
    one = next(e for e in dump["entries"] if e["finished_ns"] and e["collective"])
    dump["entries"] = change(one)
    dump["cohort"].update(cause=None, verdict=None, recorded=len(dump["entries"]))
    dump["cohort"]["last_enqueued"] = len(dump["entries"])
    write(path, json.dumps(dump))


def numbered(one, i, **other):
    return dict(one, record_id=i + 1, collective=i + 1, **other)


def check_kinds(trace):
    """Check that calls whose tags differ only in numbers are one kind of calls."""
    path = trace.folder + "/kinds.json"
    tags = ["step 8 of epoch 3", "step 9 of epoch 3", "step 10 of epoch 3", "eval 1"]
    change_entries(
        trace, path, lambda e: [numbered(e, i, tag=tags[i % 4]) for i in range(40)]
    )
    calls = {s["tag"]: s["calls"] for s in trace.json(path)["sites"]}
    assert calls == {"step # of epoch 3": 30, "eval 1": 10}, calls
    text = trace.run(path).stdout
    assert 'tag "step # of epoch 3", 30 calls' in text, text


# Keys of an entry that are read; others are omitted, so that they take no time.
READ = """record_id call first_call dtype reduce_op root peer tensors count bytes tag label
          outcome collective state submitted_ns started_ns finished_ns""".split()


def seconds_of_kinds(trace, n, **other):
    """Return the processor time for @n calls, each of a different kind."""

    def make(one):
        one = {key: one[key] for key in READ}
        return [numbered(one, i, count=i + 1, **other) for i in range(n)]

    path = trace.folder + "/kinds.json"
    change_entries(trace, path, make)
    begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    found = trace.json(path)
    assert found["ranks"][0]["operations"] == n, found["problems"]
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin


def check_many_kinds(trace, **other):
    """Check that four times as many kinds take about four times as long, not 16 times."""
    few = max(seconds_of_kinds(trace, 10000, **other) for _ in range(2))
    many = min(seconds_of_kinds(trace, 40000, **other) for _ in range(2))
    assert many < 8 * few, (few, many)


def check_front(trace):
    """Check that a stall is at the first collective that no rank has completed."""
    path = trace.folder + "/kinds.json"
    change_entries(
        trace,
        path,
        lambda e: [
            numbered(e, i, state="started" if i >= 3 else "completed", finished_ns=0)
            for i in range(9)
        ],
    )
    assert trace.json(path)["stalled_at"] == 4
    change_entries(
        trace,
        path,
        lambda e: [numbered(e, i, state="started", finished_ns=0) for i in range(9)],
    )
    assert trace.json(path)["stalled_at"] == 1
    # Nothing stalls if all collectives are done.
    change_entries(trace, path, lambda e: [numbered(e, i, state="completed") for i in range(9)])
    assert trace.json(path)["stalled_at"] == 0
    assert not re.search(r"^>\d", trace.run(path).stdout, re.M)


def check_damaged(trace):
    path = trace.folder + "/damaged.json"
    lines = read(trace.path("rank_0")).split("\n")
    lines[5] = lines[5][:40] + "\x01" + lines[5][41:70]
    write(path, "\n".join(lines))
    found = trace.json(path)
    assert found["ranks"][0]["operations"] == len(lines) - 4, len(lines)
    assert any("1 line cannot be read" in p for p in found["problems"]), found
    assert any("1 of rank 0's" in p for p in found["problems"]), found
    assert found["verdict"]["rank"] == 2
    write(path, "{}")
    assert "not a Cohort dump (fr_*.json)\n" in trace.run(path, status=1).stderr
    write(path, "nothing")
    assert "not a Cohort dump (fr_*.json)\n" in trace.run(path, status=1).stderr
    write(path, lines[0][:200])
    assert "the head of a dump, is damaged: left out" in trace.run(path, status=1).stderr
    for other in (b'{"version":"2.10","pg_config":{},"entries":[]}',
                  pickle.dumps({"version": "2.10", "pg_config": {}, "entries": []})):
        with open(path, "wb") as file:
            file.write(other)
        assert "torchfrtrace reads it" in trace.run(path, status=1).stderr
    assert "No such file" in trace.run(path + "x", status=1).stderr
    assert "has trace events for viewers" in trace.run(
        trace.path("chrome"), status=1
    ).stderr
    assert "\nproblems  " in trace.run(trace.path("chrome"), path, trace.path("merged")).stdout
    other = read(trace.path("rank_1")).replace('"group":"demo"', '"group":"other"')
    write(path, other)
    found = trace.json(*trace.files("rank_*"), path)
    assert any('a dump of group "other"' in p for p in found["problems"]), found
    write(path, read(trace.path("rank_1")).replace('"serial":', '"serial":9'))
    found = trace.json(*trace.files("rank_*"), path)
    assert any("rank 1 is from" in p for p in found["problems"]), found


def change(trace, what, old, new):
    """Return the report on a dump with one changed value."""
    path = trace.folder + "/wrong.json"
    text = read(trace.path(what))
    assert old in text, old
    write(path, text.replace(old, new, 1))
    return trace.json(path)


def check_wrong(trace):
    """Check that a wrong value is reported with its key, and the rest is read."""
    count = len(json.loads(read(trace.path("rank_0")))["entries"])
    found = change(trace, "rank_0", '"generation":1', '"generation":[]')
    assert '"generation" is an array, not a whole number' in found["problems"][0]
    assert found["ranks"][0]["operations"] == count and found["verdict"]["rank"] == 2
    found = change(trace, "rank_0", '"verdict":{', '"verdict":7,"other":{')
    assert '"verdict" is 7, not an object' in found["problems"][0], found
    assert found["verdict"]["rank"] == 2, "of the cause"
    found = change(trace, "rank_0", '"joined":[0', '"joined":[-1,true,5000,0')
    assert '"joined" is -1, not from 0 to 1023, and 2 more' in found["problems"][0]
    assert found["verdict"]["joined"] == [0, 1, 3], found
    for old, new, told in (
        ('"submitted_ns":', '"submitted_ns":-', '"submitted_ns" is -'),
        ('"count":', '"count":1.0,"x":', '"count" is 1.0, not a whole number'),
        ('"dtype":"', '"dtype":"x', "which is not a type"),
        ('"tensors":', '"x":', '"tensors" is missing'),
    ):
        found = change(trace, "rank_0", old, new)
        assert told in found["problems"][1], (told, found["problems"])
        assert f"1 of rank 0's {count} operations are" in found["problems"][0]
        assert found["ranks"][0]["operations"] == count - 1, found["ranks"]
    path = trace.folder + "/wrong.json"
    write(path, '{"cohort":{},"ranks":5}')
    assert '"ranks" is 5, not an array' in trace.run(path, status=1).stderr
    write(path, read(trace.path("rank_1")) + "{}")
    assert "data after the end of the dump is ignored" in trace.json(path)["problems"][0]


def check_characters(trace):
    """Check that text is cut between characters, and has no control characters."""
    for text, told in (
        ("e" * 62 + "\u00e9", "e" * 62),
        ("\u65e5" * 40, "\u65e5" * 21),
        ("\U0001f600" * 40, "\U0001f600" * 15),
        ("\x9b2J", "??2J"),
        ("\x85\u00a0\x7f", "??\u00a0?"),
    ):
        found = change(trace, "rank_0", '"group":"demo"', f'"group":"{text}"')
        assert found["group"] == told, (text, found["group"])


def check_huge(trace):
    """Check that collective numbers near 2^64 are refused, and no loop is endless."""
    text = re.sub(r'("verdict":.*?"collective":)\d+', rf"\g<1>{2**64 - 4}",
                  read(trace.path("rank_0")), count=1)
    head, entries = text.split("\n", 1)
    numbers = r'("(?:collective|last_enqueued)":)(\d+)'
    last = max(int(n) for _, n in re.findall(numbers, entries))
    entries = re.sub(numbers, lambda m: m[1] + str(
        int(m[2]) and int(m[2]) + 2**64 - 1 - last), entries)
    head = re.sub('"last_enqueued":[0-9]+', f'"last_enqueued":{2**64 - 1}', head)
    path = trace.folder + "/wrong.json"
    write(path, head + "\n" + entries)
    assert len(trace.run(path).stdout) < 10000
    for key in ("collective", "last_enqueued"):
        told = f'"{key}" is {2**64 - 1 if key == "last_enqueued" else 2**64 - 4}, not'
        assert any(told in p for p in trace.json(path)["problems"]), key


def check_once(trace):
    """Check that a repeated file counts once, and an intact one beats a damaged one."""
    whole = trace.json(*trace.files())
    again = trace.json(*trace.files(), *trace.files())
    assert again == whole
    path = trace.folder + "/half.json"
    text = read(trace.path("rank_1"))
    write(path, text[: len(text) // 2])
    for files in ([path, *trace.files()], [*trace.files(), path]):
        found = trace.json(*files)
        assert found["ranks"] == whole["ranks"] and found["problems"], found
    lines = text.split("\n")
    write(path, "\n".join([lines[0], lines[1], *lines[1:]]))
    found = trace.json(path)
    assert "1 operation of rank 1 is in the file twice" in found["problems"][0], found
    assert found["ranks"][0]["operations"] == len(lines) - 3


def check_merged_head(trace):
    """Check that entries after a rank's damaged head are not given to another rank."""
    path = trace.folder + "/merged.json"
    text = read(trace.path("merged"))
    write(path, text.replace('{"rank":1,', '{"rank":1,,', 1))
    found = trace.json(path)
    assert [r["rank"] for r in found["ranks"]] == [0, 2, 3], found["ranks"]
    whole = trace.json(trace.path("merged"))
    assert found["ranks"][0]["operations"] == whole["ranks"][0]["operations"]
    assert any("1 line cannot be read" in p for p in found["problems"])


def check_hostile_names(trace):
    """Check that escape sequences in a file's name do not reach the terminal."""
    path = trace.folder + "/\x1b]0;owned\x07\x9b2J\x7f.json"
    made = trace.run(path, status=1)
    assert "?]0;owned???2J?.json: No such file" in made.stderr, made
    write(path, "")
    for made in (trace.run(path, status=1), trace.run(path, trace.path("merged"))):
        told = made.stdout + made.stderr
        assert "?]0;owned???2J?.json: the file is empty" in told, told
        assert all(c == "\n" or " " <= c < "\x7f" for c in told), ascii(told)
    assert f"{path}: the file is empty" in trace.json(path, trace.path("merged"))["problems"]


def check_no_files(trace):
    """Check files that do not exist, are empty, or are not regular files."""
    path = trace.folder + "/fifo"
    os.mkfifo(path)
    empty = trace.folder + "/empty"
    write(empty, "")
    for file, told in (
        (path, "the file is empty"),
        (empty, "the file is empty"),
        ("/dev/null", "the file is empty"),
        ("", "No such file or directory"),
        (trace.folder + "/" + "x" * 300, "File name too long"),
    ):
        made = trace.run(file, status=1)
        assert f"{file}: {told}" in made.stderr, (file, made)
        assert f"{file}: {told}" in trace.json(file, trace.path("merged"))["problems"]
    if os.geteuid():
        os.chmod(empty, 0)
        assert "Permission denied" in trace.run(empty, status=1).stderr
    with subprocess.Popen(["cat", trace.path("merged")], stdout=subprocess.PIPE) as cat:
        made = subprocess.run(
            [trace.cohort, "trace", "--json", "/dev/stdin"],
            stdin=cat.stdout,
            capture_output=True,
            check=True,
        )
    assert json.loads(made.stdout) == trace.json(trace.path("merged"))


def check_truncated(trace, what):
    """Check that a file cut anywhere gives a report on the rest, or an error."""
    path = trace.folder + "/cut.json"
    with open(trace.path(what), "rb") as file:
        whole = file.read()
    head = whole.index(b"\n")
    for _ in range(40):
        n = random.choice([random.randrange(len(whole) - 2), random.randrange(head)])
        with open(path, "wb") as file:
            file.write(whole[:n])
        if n < head:
            made = trace.run(path, status=1)
            assert made.stderr.startswith("cohort trace: "), made
            continue
        if what == "merged" and whole.index(b'"entries":[') > n:
            continue
        found = trace.json(path)
        assert any("damaged or cut short" in p for p in found["problems"]), (n, found)
        kept = sum(r["operations"] for r in found["ranks"])
        assert kept <= whole[:n].count(b'"record_id"'), (n, kept)
        assert kept >= whole[:n].count(b'"record_id"') - 1, (n, kept)
        assert found["verdict"]["rank"] == 2


def check_garbage(trace):
    """Check that random changes of bytes never end the process by a signal."""
    path = trace.folder + "/garbage.json"
    with open(trace.path("rank_3"), "rb") as file:
        whole = file.read()
    for _ in range(40):
        changed = bytearray(whole)
        for _ in range(random.choice([1, 10, 1000])):
            changed[random.randrange(len(changed))] = random.randrange(256)
        with open(path, "wb") as file:
            file.write(changed)
        made = subprocess.run(
            [trace.cohort, "trace", path], capture_output=True, check=False
        )
        assert made.returncode in (0, 1), made


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(sys.argv[1], folder)
        if "json-c" in trace.run("/dev/null", status=1).stderr:
            print("cohort was built without json-c: skipped")
            sys.exit(77)
        make_dumps(sys.argv[1], folder)
        check_whole(trace)
        check_text(trace)
        check_width(trace)
        check_folder(trace)
        check_stacks(trace)
        check_parts(trace)
        check_asked(trace)
        check_processes(trace)
        check_chrome(trace)
        check_kinds(trace)
        check_many_kinds(trace)
        check_many_kinds(trace, state="started", finished_ns=0)
        check_front(trace)
        check_damaged(trace)
        check_wrong(trace)
        check_characters(trace)
        check_huge(trace)
        check_once(trace)
        check_merged_head(trace)
        check_hostile_names(trace)
        check_no_files(trace)
        check_truncated(trace, "rank_0")
        check_truncated(trace, "merged")
        check_garbage(trace)
    print("trace: ok")


if __name__ == "__main__":
    main()
