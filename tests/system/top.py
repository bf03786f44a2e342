#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test cohort top on running groups: as text, as JSON, and on a terminal.

usage: top.py COHORT          exit status 0 passed, 1 failed, 77 skipped

A demo with a rank that stalls, and a benchmark, are watched as a user would.  Other states
are hard to reach at the right moment, so a thread here reads the FIFO and writes the dumps
that such a program would write.  Terminal output goes to a small model of a terminal, which
has its own entry in a terminfo database.
"""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

# Seconds before a test fails; no passing test waits this long.
LONG = 60


# Start the job as a shell does. A process group without a parent in its session would not stop.
JOB = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}


# ---- a terminal ---------------------------------------------------------------


class Screen:
    """A model of a terminal's screen, which understands only the sequences of TERMINFO."""

    TERMINFO = r"""
model|a terminal with few abilities,
    colors#8, cols#80, lines#24, pairs#64,
    bold=\E[1m, civis=\E[?25l, clear=\E[H\E[2J, cnorm=\E[?25h,
    cup=\E[%i%p1%d;%p2%dH, el=\E[K, op=\E[39m, rev=\E[7m,
    setaf=\E[3%p1%dm, sgr0=\E[m, smcup=\E[?1049h, rmcup=\E[?1049l,
    smkx=\E[?1h, rmkx=\E[?1l, kcud1=\EOB, kcuu1=\EOA, kpp=\E[5~,
"""

    SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")

    def __init__(self, rows, columns):
        self.alternate = self.hidden = self.has_keys = False
        self.cleared = 0
        self.colors = set()
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def feed(self, text):
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = self.SEQUENCE.match(text, at)
                assert found, ascii(text[at : at + 20])
                self.obey(*found.groups())
                at = found.end()
                continue
            if text[at] in "\r\n":
                self.row = min(self.row + (text[at] == "\n"), self.rows - 1)
                self.column = 0
            else:
                assert " " <= text[at] < "\x7f", ascii(text[at : at + 20])
                if self.column == self.columns and not self.alternate:
                    self.row, self.column = min(self.row + 1, self.rows - 1), 0
                assert self.column < self.columns, "a line is too long"
                self.cells[self.row][self.column] = text[at]
                self.column += 1
            at += 1

    def obey(self, private, numbers, letter):
        first = int(numbers.split(";")[0] or 0)
        if private:
            assert letter in "hl" and first in (1049, 25, 1), (numbers, letter)
            if first == 1049:
                self.alternate = letter == "h"
            elif first == 25:
                self.hidden = letter == "l"
            else:
                self.has_keys = letter == "h"
        elif letter == "H":
            row, column = (numbers.split(";") + ["", ""])[:2]
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
            assert self.row < self.rows and self.column < self.columns
        elif letter == "K":
            assert first == 0
            self.cells[self.row][self.column :] = " " * (self.columns - self.column)
        elif letter == "J":
            self.cleared += 1
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        else:
            assert letter == "m", (numbers, letter)
            self.colors.add(first)

    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]


class Terminal:
    """A cohort top that runs on a terminal."""

    def __init__(self, cohort, *arguments, size=(24, 80), **environment):
        self.screen = Screen(*size)
        self.master, self.slave = pty.openpty()
        self.set_size(*size)
        self.modes = termios.tcgetattr(self.slave)
        self.pieces = []
        self.process = subprocess.Popen(
            [cohort, "top", *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**os.environ, "TERM": "model", **environment},
            **JOB,
        )

    def set_size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.set_size(rows, columns)
        self.process.send_signal(signal.SIGWINCH)

    def read(self, seconds=0.05):
        """Feed new output to the screen; return false if there was none."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        piece = os.read(self.master, 1 << 16).decode("latin-1")
        self.pieces.append(piece)
        self.screen.feed(piece)
        return True

    def drain(self):
        """Read until no more output arrives."""
        while self.read(0.3):
            pass

    def wait(self, is_there, what):
        end = time.monotonic() + LONG
        while not is_there(self.screen):
            assert time.monotonic() < end, (what, self.screen.lines())
            self.read()

    def see(self, pattern):
        """Wait until a line matches the pattern, and return that line."""
        self.wait(lambda s: any(re.search(pattern, line) for line in s.lines()), pattern)
        return next(line for line in self.screen.lines() if re.search(pattern, line))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """Wait for the exit, and check that the terminal has its old settings."""
        end = time.monotonic() + LONG
        while self.process.poll() is None:
            assert time.monotonic() < end, self.screen.lines()
            self.read()
        while self.read(0):
            pass
        assert not self.screen.alternate and not self.screen.hidden
        assert termios.tcgetattr(self.slave) == self.modes
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode


# ---- a program that writes dumps ------------------------------------------------------


class Program:
    """A program that writes the dumps of its groups each time the FIFO is written to."""

    def __init__(self, folder):
        self.folder = folder
        self.fifo = folder + "/fifo"
        os.mkfifo(self.fifo)
        self.descriptor = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)
        self.asked = 0
        self.is_silent = False
        self.groups = [Group()]
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            if not select.select([self.descriptor], [], [], 0.02)[0]:
                continue
            os.read(self.descriptor, 65536)
            self.asked += 1
            groups = [] if self.is_silent else self.groups
            # Rename all at once, because the command waits only briefly for a second group.
            for names in [group.prepare(self.folder) for group in groups]:
                os.rename(*names)

    def end(self):
        if not self.stop.is_set():
            self.stop.set()
            self.thread.join()
            os.close(self.descriptor)


class Group:
    """The dumps of one group in one process."""

    def __init__(self, name="made", ranks=3, pid=None, serial=1, first=0, world=None):
        # The pid of this process, which is alive.
        self.name, self.pid, self.serial = name, pid or os.getpid(), serial
        self.generation, self.cause = 1, None
        self.world = world or ranks
        self.ranks = range(first, first + ranks)
        self.calls = dict.fromkeys(self.ranks, 0)
        self.tag = ""
        self.host = os.uname().nodename

    def entry(self, rank, number, now):
        return {
            "record_id": number, "call": "all_reduce", "first_call": "all_reduce",
            "dtype": "float32", "reduce_op": "sum", "root": None, "peer": None,
            "tensors": 1, "count": 1000, "bytes": 4000, "collective": number,
            "tag": self.tag, "label": "", "outcome": 0, "state": "completed",
            "submitted_ns": now - (100 - number) * 1000000 + rank * 1000,
            "started_ns": 0, "finished_ns": 0,
        }  # fmt: skip

    def write(self, folder, mark="_asked"):
        os.rename(*self.prepare(folder, mark))

    def prepare(self, folder, mark="_asked"):
        """Write the dump under a temporary name; return that name and the final one."""
        now = time.monotonic_ns()
        head = {
            "version": "2.10",
            "cohort": {
                "group": self.name, "generation": self.generation, "host": self.host,
                "world": self.world, "pid": self.pid, "serial": self.serial,
                "verdict_number": 0 if mark else 1, "trigger": "fifo",
                "monotonic_ns": now, "wall_ns": time.time_ns(),
                "cause": self.cause, "verdict": None,
            },
            "ranks": [
                {
                    "rank": rank, "device": rank, "tid": 1, "alive": 1, "inside": False,
                    "lost": 0, "recorded": self.calls[rank],
                    "last_enqueued": self.calls[rank],
                    "entries": [
                        self.entry(rank, i + 1, now) for i in range(self.calls[rank])
                    ],
                }
                for rank in self.ranks
            ],
        }  # fmt: skip
        name = re.sub(r"[^\w.-]", "_", self.name, flags=re.A)
        path = f"{folder}/fr_{name}_g{self.generation}_{self.host}.{self.pid}.{self.serial}"
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(head, file)
        return path + ".new", f"{path}{mark}_merged.json"


@contextlib.contextmanager
def program():
    folder = tempfile.mkdtemp()
    made = Program(folder)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder)


def run(cohort, *arguments, status=0, **environment):
    made = subprocess.run(
        [cohort, "top", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG,
        env=dict(os.environ, **environment),
    )
    assert made.returncode == status, (arguments, made)
    return made


# ---- real groups ---------------------------------------------------------------


def check_stall(cohort):
    """Check the demo's stall, and its cause at the end."""
    with tempfile.TemporaryDirectory() as folder:
        watch_stall(cohort, folder)


def watch_stall(cohort, folder):
    places = {
        "COHORT_PLATFORM": "host",
        "COHORT_DUMP_DIR": folder,
        "COHORT_DUMP_FIFO": folder + "/fifo",
    }
    environment = dict(os.environ, **places)
    with subprocess.Popen(
        [cohort, "demo", "--json", "--join-deadline", "2000"],
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as demo:
        await_fifo(demo, folder + "/fifo")
        made = run(cohort, "--json", "--interval", "0.2", **places)
        assert demo.wait() == 0
    found = [json.loads(line) for line in made.stdout.splitlines()]
    assert not made.stderr, made.stderr
    assert all(f["group"] == "demo" and f["world"] in (3, 4) for f in found)
    assert [f["ended"] for f in found] == [False] * (len(found) - 1) + [True]
    first = [f for f in found if f["generation"] == 1]
    behind = [[r["behind"] for r in f["ranks"]] for f in first]
    assert [0, 0, 1, 0] in behind, behind
    stalled = [f for f in first if not f["cause"]]
    assert stalled[-1]["ranks"][2]["state"] in ("outside", "between")
    assert stalled[-1]["ranks"][0]["in_flight"] > 0
    assert stalled[-1]["ranks"][2]["last_call"]["call"] == "copy"
    busy = [f["ranks"][2] for f in stalled if f["ranks"][2]["state"] == "outside"]
    assert busy and all(r["frame"].startswith("train_worker") for r in busy), busy
    assert all(r["thread"].startswith("asleep") for r in busy), busy
    ended = [f for f in first if f["cause"]]
    assert ended, found
    assert ended[0]["cause"]["kind"] == "busy in the program"
    assert ended[0]["cause"]["rank"] == 2


def await_fifo(process, path):
    end = time.monotonic() + LONG
    while not os.path.exists(path):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)


@contextlib.contextmanager
def bench(cohort):
    """Run a benchmark, yield its directory, and kill it at the end."""
    folder = tempfile.mkdtemp()
    places = {
        "COHORT_PLATFORM": "host",
        "COHORT_DUMP_DIR": folder,
        "COHORT_DUMP_FIFO": folder + "/fifo",
    }
    command = [cohort, "bench", "all_reduce", "-g", "2", "-b", "64", "-e", "64"]
    with subprocess.Popen(
        [*command, "--rounds", "100000", "-n", "100", "--no-pin"],
        env=dict(os.environ, **places),
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            await_fifo(process, folder + "/fifo")
            yield process, folder
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder)


def check_rates(cohort):
    with bench(cohort) as (process, folder):
        text = run(cohort, "--count", "2", "--interval", "0.1", folder).stdout
        blocks = text.split("\n\n")
        assert len(blocks) == 3 and not blocks[2], text
        assert re.match(r'"bench" generation 1, 2 ranks; host .*, process \d+\n', text)
        # "-": the ranks' records have no collective in common.
        row = re.search(r"^ +1 \w+ .* (\S+)  +(\S+) +(?:\d+%|-) +\d+ +1 all_reduce 64",
                        blocks[1], re.M)  # fmt: skip
        assert row and row[1] != "0" and row[2] != "0", text
        lines = subprocess.Popen(
            [cohort, "top", "--json", "--interval", "0.1", folder],
            stdout=subprocess.PIPE,
            text=True,
        )
        lines.stdout.readline()
        # Do not wait for it yet, because older kernels then forget how it ended.
        process.kill()
        last = json.loads(lines.communicate()[0].splitlines()[-1])
        told = f"process {process.pid} was killed by signal 9"
        assert lines.returncode == 1 and last["ended"] and last["gone"] == told, last


def terminal_kill(cohort):
    with bench(cohort) as (process, folder):
        terminal = Terminal(cohort, "--interval", "0.1", folder)
        terminal.see("all_reduce 64")
        process.kill()
        assert terminal.end() == 1
        assert f"process {process.pid} was killed by signal 9" in "".join(terminal.pieces)


# ---- views ------------------------------------------------------------


def terminal_frames(cohort):
    with program() as made:
        group = made.groups[0] = Group(ranks=30)
        group.calls = dict.fromkeys(group.ranks, 5)
        group.calls[7] = 3
        top = Terminal(cohort, "--interval", "0.1", made.fifo)
        top.see(r'^"made" generation 1, 30 ranks; host .*, process \d+$')
        top.see(r"^RANK STATE   BEHIND    AGO COLL/S BYTES/S LAST LAST CALL$")
        top.see(r"^   7 \w+ +2 .* all_reduce 4000$")
        last = top.see("30  q quit  space pause  sort: r rank, l last, c rate .rank.")
        assert top.screen.lines()[23] == last
        assert last.startswith("1-19 of 30"), last
        assert top.screen.alternate and top.screen.hidden and top.screen.cleared == 1
        assert 33 in top.screen.colors
        # Only changes are sent.
        before = len(top.pieces)
        group.calls = dict.fromkeys(group.ranks, 6)
        top.see("collective 6")
        sent = "".join(top.pieces[before:])
        assert '"made"' not in sent and "RANK" not in sent and "q quit" not in sent, sent
        press_keys(top, made)
        # Pause, so that no frame of the old size is in flight.
        top.press(" ")
        top.see("^PAUSED")
        top.drain()
        top.resize(10, 45)
        top.see(r"^RANK STATE   BEHIND    AGO LAST CALL$")
        top.drain()
        assert max(map(len, top.screen.lines())) <= 44
        top.resize(24, 80)
        top.see("all_reduce 4000")
        # The screen is not cleared for each frame.
        cleared = top.screen.cleared
        group.calls = dict.fromkeys(group.ranks, 7)
        top.press(" ")
        top.see("collective 7")
        assert top.screen.cleared == cleared
        top.press("q")
        assert top.end() == 0


def press_keys(top, made):
    top.press("j")
    top.see("^2-20 of 30")
    assert top.screen.has_keys
    top.press("\x1bOB")
    top.see("^3-21 of 30")
    top.press("k\x1bOA")
    top.see("^1-19 of 30")
    top.press("G")
    top.see("^12-30 of 30")
    top.press("\x1b[5~g")
    top.see("^1-19 of 30")
    top.press("c")
    top.see("rate .rate.")
    top.press("r")
    top.see("rate .rank.")
    top.press(" ")
    top.see("^PAUSED  ")
    top.drain()
    asked = made.asked
    top.press("l")
    top.see("rate .last.")
    assert made.asked == asked, "it asks while it pauses"
    top.press(" ")
    top.wait(lambda s: made.asked > asked, "goes on")


def terminal_history(cohort):
    """Check that empty rows show the earlier refreshes, the newest first."""
    with program() as made:
        made.groups[0].calls[1] = 3
        top = Terminal(cohort, "--interval", "0.1", made.fifo)
        top.see("^HISTORY$")
        top.see(r"^\d\d:\d\d:\d\d .* coll/s .* bytes/s  rank 0: \w+, 3 behind")
        top.press("q")
        assert top.end() == 0


def terminal_signals(cohort):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with program() as made:
            top = Terminal(cohort, "--interval", "0.1", made.fifo)
            top.see('"made"')
            if number == signal.SIGINT:
                # Ctrl-C must still send a signal.
                assert termios.tcgetattr(top.slave)[3] & termios.ISIG
            assert not termios.tcgetattr(top.slave)[3] & (termios.ECHO | termios.ICANON)
            top.process.send_signal(number)
            assert top.end() == -number


def terminal_stop(cohort):
    """Check that Ctrl-Z restores the terminal, and that continuing takes it again."""
    with program() as made:
        top = Terminal(cohort, "--interval", "0.1", made.fifo)
        top.see('"made"')
        top.process.send_signal(signal.SIGTSTP)
        top.wait(lambda s: not s.alternate, "gives the terminal back")
        assert not top.screen.hidden

        def takes_it_again(screen):
            # SIGCONT has no effect before the process has stopped.
            top.process.send_signal(signal.SIGCONT)
            return screen.alternate and screen.hidden

        top.wait(takes_it_again, "takes the terminal again")
        top.see('"made"')
        top.press("q")
        assert top.end() == 0


HOSTILE = "\x1b]0;x\x07\x9b2J\x7f\u00fc\u202e\n"


def check_hostile(cohort):
    with program() as made:
        made.groups[0] = Group(name=HOSTILE)
        text = run(cohort, "--count", "1", made.fifo).stdout
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), ascii(text)


def terminal_stopped_end(cohort):
    """Check that a signal sent while the command is stopped ends it."""
    with program() as made:
        top = Terminal(cohort, "--interval", "0.1", made.fifo)
        top.see('"made"')
        top.process.send_signal(signal.SIGTSTP)
        top.wait(lambda s: not s.alternate, "gives the terminal back")
        top.process.send_signal(signal.SIGTERM)

        def ends(_):
            top.process.send_signal(signal.SIGCONT)
            return top.process.poll() is not None

        top.wait(ends, "ends")
        assert top.end() == -signal.SIGTERM


def terminal_hostile(cohort):
    with program() as made:
        group = made.groups[0] = Group(name=HOSTILE)
        group.tag = "\x1b[2J\u4e2d"
        group.calls[1] = 1
        top = Terminal(cohort, "--interval", "0.1", made.fifo, NO_COLOR="1")
        # The model rejects all other control characters.
        top.see(r'^"\?\]0;x\?.*2J.*" generation 1')
        top.see(r'^   1 .* "\?\[2J')
        assert 33 not in top.screen.colors
        top.press("q")
        assert top.end() == 0


def terminal_ends(cohort):
    cause = {
        "status": -19, "kind": "busy in the program", "rank": 2, "collective": 6,
        "text": "all_reduce: \x1b[31m" + "rank 2 is missing; " * 20,
    }  # fmt: skip
    with program() as made:
        group = made.groups[0]
        top = Terminal(cohort, "--interval", "0.1", made.fifo)
        top.see("running")
        group.cause = cause
        top.see("^ended: busy in the program")
        top.see(r"^all_reduce: \?\[31mrank 2 is missing;")
        group.cause = None
        group.generation, group.serial = 2, 2
        top.see("generation 2")
        top.see("running")
        # A process has exited: its verdict is in a file, and it no longer writes dumps.
        child = subprocess.Popen(["sleep", "100"])
        group = made.groups[0] = Group(pid=child.pid)
        other = Terminal(cohort, "--interval", "0.1", "--group", "made", made.fifo)
        other.see(str(child.pid))
        top.press("q")
        assert top.end() == 0
        group.cause = cause
        group.write(made.folder, mark="")
        child.kill()
        child.wait()
        made.end()
        assert other.end() == 0
        assert "rank 2 is missing" in "".join(other.pieces).split("1049l")[1]


def terminal_silence(cohort):
    with program() as made:
        made.is_silent = True
        top = Terminal(cohort, "--interval", "0.1", made.fifo)
        top.see("no answer yet from FIFO")
        made.is_silent = False
        top.see('^"made"')
        made.is_silent = True
        top.see('^NO ANSWER FOR .*"made"')
        top.press("q")
        assert top.end() == 0


def check_groups(cohort):
    with program() as made:
        made.groups = [
            Group(name="one", serial=1),
            Group(name="two", serial=2),
            Group(name="two.0", serial=3),
        ]
        told = run(cohort, "--count", "1", made.folder, status=2).stderr
        assert "several groups" in told and '"one"' in told and '"two"' in told, told
        for name in ("one", "two", "two.0"):
            text = run(cohort, "--count", "1", "--group", name, made.folder).stdout
            assert text.startswith(f'"{name}" '), text
        told = run(cohort, "--count", "1", "--group", "x", made.folder, status=2).stderr
        assert "no group that has answered has this name" in told, told
        # With a group and a communicator split from it, the group is chosen.
        made.groups = made.groups[1:]
        assert run(cohort, "--count", "1", made.folder).stdout.startswith('"two" ')
        # Two processes of one group.
        child = subprocess.Popen(["sleep", "100"])
        made.groups = [
            Group(ranks=2, world=4),
            Group(ranks=2, first=2, world=4, pid=child.pid, serial=1),
        ]
        text = run(cohort, "--json", "--count", "1", "--pid", str(child.pid), made.folder).stdout
        child.kill()
        child.wait()
        assert [r["pid"] for r in json.loads(text)["ranks"]] == [os.getpid()] * 2 + [child.pid] * 2
        # A process that has written no dump.
        text = run(cohort, "--count", "1", made.folder, "--pid", str(os.getpid())).stdout
        assert '"made"' in text


def check_closed(cohort):
    """Check a group that is closed while its process continues with another one."""
    with program() as made:
        made.groups = [Group(name="one", serial=1), Group(name="two", serial=2)]
        with subprocess.Popen(
            [cohort, "top", "--json", "--interval", "0.1", "--group", "one", made.fifo],
            stdout=subprocess.PIPE,
            text=True,
        ) as top:
            assert not json.loads(top.stdout.readline())["ended"]
            made.groups = made.groups[1:]
            last = json.loads(top.communicate(timeout=LONG)[0].splitlines()[-1])
        assert top.returncode == 0 and last["group"] == "one" and last["ended"], last
        assert not last["gone"] and not last["cause"], last


def check_errors(cohort):
    with program() as made:
        made.is_silent = True
        told = run(cohort, "--count", "1", made.fifo, status=1).stderr
        assert re.search("no answer for 2.*s from FIFO '.*fifo': no new dump in '", told), told
        assert "the group has not answered" in told, told
        plain = made.folder + "/plain"
        with open(plain, "w", encoding="utf-8"):
            pass
        for operands, told in (
            ([made.folder + "/none"], "/none': No such file or directory"),
            ([plain], "/plain' is neither a FIFO nor a directory"),
            ([made.fifo, "/nowhere"], "'/nowhere': No such file or directory"),
            (["/"], "no running group has a FIFO in '/', and COHORT_DUMP_FIFO is not set"),
        ):
            assert told in run(cohort, *operands, status=1).stderr, operands
        told = run(cohort, status=1, COHORT_DUMP_FIFO=plain).stderr
        assert "/plain': not a FIFO" in told, told
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(folder + "/fifo")
        told = run(cohort, folder + "/fifo", status=1).stderr
        assert "/fifo': no running group has it open" in told, told
        if os.geteuid():
            os.chmod(folder + "/fifo", 0)
            assert "Permission denied" in run(cohort, folder + "/fifo", status=1).stderr
    assert "no FIFO given: name one, or set COHORT_DUMP_FIFO" in run(cohort, status=2).stderr
    for wrong, told in (
        (("--interval", "0"), '--interval: "0" is not a number of seconds from 0.1 to 3600'),
        (("--interval", "nan"), '--interval: "nan"'),
        (("--count", "0"), '--count: "0"'),
        (("--pid", "0"), '--pid: "0"'),
    ):
        assert told in run(cohort, *wrong, status=2).stderr, wrong


def find_terminals(cohort, folder):
    """Install the model's terminfo entry; return why that is impossible, or None."""
    with program() as made:
        top = Terminal(cohort, made.fifo, TERM="unknown")
        assert top.end() == 1
        told = "".join(top.pieces)
        if "without ncurses" in told:
            assert re.fullmatch(r"cohort top: .*install libncurses-dev .*--plain\r\n", told), told
            return "cohort was built without ncurses"
        assert told == (
            "cohort top: TERM: no terminfo entry for \"unknown\": set another TERM, or use --plain\r\n"
        ), told
    if not shutil.which("tic"):
        return "there is no tic"
    subprocess.run(["tic", "-o", folder, "-"], input=Screen.TERMINFO, text=True, check=True)
    os.environ["TERMINFO"] = folder
    return None


def main():
    cohort = os.path.abspath(sys.argv[1])
    for name in ("COHORT_DUMP_DIR", "COHORT_DUMP_FIFO", "NO_COLOR"):
        os.environ.pop(name, None)
    made = subprocess.run(
        [cohort, "trace", "/dev/null"], capture_output=True, text=True, check=False
    )
    if "without json-c" in made.stderr:
        told = run(cohort, "/tmp", status=1).stderr
        assert told == made.stderr.replace("cohort trace", "cohort top"), told
        print("cohort was built without json-c")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        reason = find_terminals(cohort, folder)
        if reason:
            print(f"[SKIP] on a terminal: {reason}")
        begins = ("check_",) if reason else ("check_", "terminal_")
        # The checks mostly wait, so run them in parallel.
        checks = [check for name, check in globals().items() if name.startswith(begins)]
        with concurrent.futures.ThreadPoolExecutor(len(checks)) as pool:
            for made in [pool.submit(check, cohort) for check in checks]:
                made.result()
    print("top: ok")


if __name__ == "__main__":
    main()
