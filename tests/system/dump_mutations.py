#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cohort trace and its --pickle on dumps that a seeded generator has changed.

usage: dump_mutations.py COHORT [COUNT [SEED]]
                                exit status 0 passed, 1 failed, 77 skipped

Uses real dumps, with a few entries each, of a demo and of a message that is not received.
Removes and repeats each key, and sets it to each of VALUES (without COUNT, to two of
them).  Then makes COUNT (default 100) random changes from SEED (default 1): such values at
one or several places, a file cut short, bytes changed, lines moved.  Each changed dump is
read as text, as JSON, with --chrome and with --html, and converted to a pickle.  No run may
end by a signal or with a traceback, JSON must be valid, the dump must add no markup to the
page, and the error about a value of a wrong type must name its key.
"""

import collections
import contextlib
import glob
import importlib.util
import io
import json
import multiprocessing
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True

VALUES = (
    "null", "7", "-1", str(2**64 - 1), "9" * 40, "1e308", "0.5", "NaN", "true",
    '"x"', '""', '"' + "long" * 20000 + '"', r'"\u0000\u001b[2J\ud800\n"', "[]",
    "[0,[null,{}]]", "{}", '{"x":{"y":[]}}', "[" * 3000 + "]" * 3000,
    '"</script><img src=x onerror=a()><!--"',
)
MARK = "@mark@"
ENTRY = '{"record_id":'

# Keys that cohort trace reads, by the keys of the enclosing objects.
RANK = "rank device tid lost recorded last_enqueued".split()
CALL = """record_id call first_call dtype tensors count bytes tag outcome collective
    state submitted_ns started_ns finished_ns""".split()
TOLD = {
    (): ["entries"],
    ("cohort",): RANK + """group host generation world pid serial monotonic_ns wall_ns
        trigger cause verdict""".split(),
    ("cohort", "cause"): "status kind rank collective text".split(),
    ("cohort", "verdict"): "kind rank collective joined missing text".split(),
    ("entries",): CALL,
    ("ranks",): RANK + ["entries"],
    ("ranks", "entries"): CALL,
}

# Keys that --pickle reads as well.
PICKLED = """group host generation world pid serial rank lost entries record_id
    collective state""".split()

Change = collections.namedtuple("Change", "what file text key")


# ---- dumps -----------------------------------------------------------------


def shorten(text):
    """Keep only each rank's first entry and last three, one per line.

    Of stacks, keep only the command's frames, because reading the C library's debug
    information took three quarters of the time of 1,700 runs."""
    text = re.sub(r',?\{"path":"[^"]*/libc\.so[^}]*\}', "", text)
    text = text.replace('"frames":[,', '"frames":[')
    lines, run = [], []
    for line in text.split("\n"):
        if line.startswith(ENTRY):
            run.append(line.rstrip(","))
            continue
        kept = run[:1] + run[1:][-3:]
        lines += [e + "," for e in kept[:-1]] + kept[-1:]
        run = []
        lines.append(line)
    return re.sub(r'"recorded":\d+', '"recorded":4', "\n".join(lines))


def make_dumps(cohort, folder):
    environment = dict(os.environ, COHORT_PLATFORM="host", COHORT_DUMP_DIR=folder)
    for arguments in (
        ["demo", "--json"],
        ["drill", "--json", "--ranks", "2", "--only", "send/recv/missing rank"],
    ):
        # It does not matter here whether verdicts are in time.
        subprocess.run(
            [cohort, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    sets = []
    for name in ("demo", "drill"):
        paths = sorted(glob.glob(f"{folder}/fr_{name}_g1_*.json"))
        chosen = [p for p in paths if not p.endswith("chrome.json")]
        assert chosen, paths
        made = {}
        for path in chosen:
            with open(path, encoding="utf-8") as file:
                made[os.path.basename(path)] = shorten(file.read())
        sets.append(made)
    return sets


# ---- changes ---------------------------------------------------------------


def places(value, path=()):
    """Return the places of all values, as paths of keys and indices."""
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield path + (key,)
        yield from places(inner, path + (key,))


def holder(dump, path):
    for key in path[:-1]:
        dump = dump[key]
    return dump


def put(text, path, raw):
    """Return @text with @raw at @path; None removes the value, "twice" repeats it."""
    dump = json.loads(text)
    inside, key = holder(dump, path), path[-1]
    again = f'{json.dumps(inside[key])},"{key}":[]'
    if raw is None:
        del inside[key]
    else:
        inside[key] = MARK
    made = json.dumps(dump, separators=(",", ":")).replace(',{"record', ',\n{"record')
    if isinstance(key, int) and raw == "twice":
        again = json.dumps(inside[key])
    return made.replace(f'"{MARK}"', again if raw == "twice" else str(raw))


def key_to_tell(text, path, raw):
    """Return the key that the error must name if @raw at @path has a wrong type."""
    *around, key = [k for k in path if isinstance(k, str)]
    if key != path[-1] or key not in TOLD.get(tuple(around), ()):
        return None
    if raw is None or raw.startswith("[[["):
        return key if raw is None else None
    value = holder(json.loads(text), path)[key]
    is_right = raw == "twice" or type(json.loads(raw)) is type(value)
    may_be_right = key in ("cause", "verdict") and raw[0] in "n{"
    return None if is_right or may_be_right else key


def each_value(texts, done, choose):
    """Yield changes that set each key not in @done to each value of choose()."""
    for file, text in texts.items():
        for path in places(json.loads(text)):
            name = tuple("" if isinstance(k, int) else k for k in path)
            if name in done:
                continue
            done.add(name)
            for raw in (None, "twice", *choose()):
                what = f"{file}: {path} {str(raw)[:40]}"
                yield Change(what, file, (path, raw), None)


def several_values(texts, dice):
    file = dice.choice(list(texts))
    text = texts[file]
    for _ in range(dice.choice((1, 1, 3, 10))):
        try:
            path = dice.choice(list(places(json.loads(text))))
        except (ValueError, RecursionError, IndexError):
            break
        text = put(text, path, dice.choice((None, "twice", *VALUES)))
    return file, text


def cut(texts, dice):
    file = dice.choice(list(texts))
    data = texts[file].encode()
    return file, data[: dice.randrange(len(data))]


def flip(texts, dice):
    file = dice.choice(list(texts))
    data = bytearray(texts[file].encode())
    for _ in range(dice.choice((1, 1, 3, 30, 300))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return file, bytes(data)


def move_lines(texts, dice):
    file = dice.choice(list(texts))
    lines = texts[file].split("\n")
    for _ in range(dice.choice((1, 3))):
        line = lines[dice.randrange(len(lines))]
        at = dice.randrange(len(lines))
        lines[at : at + dice.choice((0, 1))] = [line] * dice.choice((0, 1, 2)) or [""]
    return file, "\n".join(lines)


def zeros(texts, dice):
    file = dice.choice(list(texts))
    data = bytearray(texts[file].encode())
    at = dice.randrange(len(data))
    size = min(len(data) - at, dice.choice((1, 100, 4096)))
    data[at : at + size] = bytes(size)
    return file, bytes(data)


def changes(sets, count, seed):
    """Yield all changes, each with the number of its set of dumps."""
    done = set()
    dice = random.Random(seed)

    def choose():
        return VALUES if count else dice.sample(VALUES, 2)

    for number, texts in enumerate(sets):
        for change in each_value(texts, done, choose):
            yield number, change
    ways = (several_values, several_values, cut, flip, flip, move_lines, zeros)
    for i in range(count or 100):
        number = dice.randrange(len(sets))
        way = dice.choice(ways)
        file, text = way(sets[number], dice)
        yield number, Change(f"{file}: {way.__name__} {i}", file, text, None)


# ---- runs ------------------------------------------------------------------


def strict(text):
    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def check_page(text):
    """Check that the page's data is JSON, and that dumps have added no markup."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    made = strict(data)
    calls = sum(rank["operations"] for rank in made["ranks"])
    assert len(made["ops"]) == 8 * calls and "<" not in data
    tags = collections.Counter(re.findall(r"<(/?[a-z!-]+)", text.replace(data, "")))
    assert tags["script"] == tags["/script"] == 3 and tags["td"] == tags["/td"], tags
    assert not tags["img"] and tags["!--"] == 1, tags


class Try:
    """A worker process, with a directory for its files."""

    def __init__(self, cohort, script, sets, folder):
        self.cohort = cohort
        self.sets = sets
        self.folder = f"{folder}/{os.getpid()}"
        os.makedirs(self.folder)
        spec = importlib.util.spec_from_file_location("fr2pickle", script)
        self.script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)
        for number, texts in enumerate(sets):
            os.makedirs(f"{self.folder}/{number}")
            for file, text in texts.items():
                self.write(number, file, text)

    def write(self, number, file, text):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        with open(f"{self.folder}/{number}/{file}", "wb") as out:
            out.write(data)

    def trace(self, *arguments):
        made = subprocess.run(
            [self.cohort, "trace", *arguments],
            capture_output=True,
            timeout=300,
            check=False,
        )
        error = made.stderr.decode("utf-8", "replace")
        assert made.returncode in (0, 1), (made.returncode, error[-2000:])
        for line in error.splitlines():
            assert line.startswith("cohort trace: "), error[-2000:]
        assert made.returncode == 0 or error, "failed without a message"
        return made

    def check_trace(self, path, others, key):
        chrome, page = self.folder + "/chrome.json", self.folder + "/page.html"
        made = self.trace("--json", "--chrome", chrome, "--html", page, path)
        told = made.stderr.decode("utf-8", "replace")
        if made.returncode == 0:
            told = "\n".join(strict(made.stdout)["problems"])
            with open(chrome, "rb") as file:
                strict(file.read())
            with open(page, encoding="utf-8") as file:
                check_page(file.read())
        assert not key or f'"{key}" ' in told, (key, told)
        made = self.trace(*others)
        assert len(made.stdout) < 100000, len(made.stdout)

    def pickle(self, folder):
        """Run the script of --pickle; return its exit status and its output."""
        out, error = io.StringIO(), io.StringIO()
        sys.argv = ["-c", self.folder + "/pickles", *glob.glob(folder + "/*")]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = self.script.main()
        return status, error.getvalue()

    def check_pickle(self, folder, file, key):
        status, error = self.pickle(folder)
        if status == 0:
            for path in glob.glob(self.folder + "/pickles/*"):
                with open(path, "rb") as made:
                    assert pickle.load(made)["entries"] is not None
                os.unlink(path)
            return
        assert status == 1, status
        assert error.startswith("cohort trace: --pickle: ") and error.count("\n") == 1, error
        assert not key or (file in error and f'"{key}"' in error), (key, error)

    def change(self, number, change):
        texts = self.sets[number]
        path, key, text = (), None, change.text
        if isinstance(text, tuple):
            path, raw = text
            key = key_to_tell(texts[change.file], path, raw)
            text = put(texts[change.file], path, raw)
        self.write(number, change.file, text)
        folder = f"{self.folder}/{number}"
        changed = f"{folder}/{change.file}"
        all_files = [f"{folder}/{f}" for f in sorted(texts)]
        try:
            self.check_trace(changed, [changed, *all_files], key)
            if "merged" not in change.file:
                is_taken = key in PICKLED and not {"cause", "verdict"} & set(path[:-1])
                self.check_pickle(folder, change.file, key if is_taken else None)
        finally:
            self.write(number, change.file, texts[change.file])


at_work = None


def begin(cohort, script, sets, folder):
    global at_work
    at_work = Try(cohort, script, sets, folder)


def work(change):
    """Run both programs on a change; return what is wrong, or None."""
    try:
        at_work.change(*change)
    except Exception:
        return f"{change[1].what}\n{traceback.format_exc()[-3000:]}"
    return None


def check_as_program(cohort, folder, texts):
    """Check the exit status of cohort trace --pickle as the shell sees it."""
    bad = f"{folder}/bad"
    os.makedirs(bad)
    file = next(f for f in texts if "rank_0" in f)
    for raw, status in ((None, 1), ("twice", 1), ("7", 1)):
        with open(f"{bad}/{file}", "w", encoding="utf-8") as out:
            out.write(put(texts[file], ("entries", 1, "state"), raw))
        made = subprocess.run(
            [cohort, "trace", "--pickle", bad + "/out", f"{bad}/{file}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == status, made
        assert re.fullmatch(
            f'cohort trace: --pickle: .*{re.escape(file)}: entry 1: "state" is .*\n',
            made.stderr,
        ), made.stderr
        assert not os.path.exists(bad + "/out")


def main():
    cohort = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    script = os.path.join(os.path.dirname(__file__), "../../src/cli/trace/fr2pickle.py")
    made = subprocess.run(
        [cohort, "trace", "/dev/null"], capture_output=True, check=False
    )
    if b"json-c" in made.stderr:
        print("cohort was built without json-c: skipped")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        sets = make_dumps(cohort, folder + "/dumps")
        check_as_program(cohort, folder, sets[0])
        tried = failed = 0
        with multiprocessing.get_context("fork").Pool(
            os.cpu_count(), begin, (cohort, script, sets, folder)
        ) as pool:
            for wrong in pool.imap_unordered(work, changes(sets, count, seed), 16):
                tried += 1
                if wrong:
                    failed += 1
                    print(wrong)
                if failed == 20:
                    break
    print(f"{tried} changed dumps, {failed} wrong, seed {seed}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
