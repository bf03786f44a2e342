#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare an in-place all-reduce of float32 with MPI libraries, by turns.

usage: peers.py [--rounds N] [--ranks N,N,...] [--sizes LIST] [--out FOLDER] COHORT

Each round runs `cohort bench`, and bench/peer.c with Cohort and with every installed MPI, one
after another on the same cores: rank r on core r modulo the number of cores.  Prints medians
over the rounds, of the times and of the ratios within a round, for Cohort's public calls on
threads (cohort) and in processes (proc), and for the platform's own calls on threads (raw).

Writes peers.json with all measurements to FOLDER (default build), and peers.svg if gnuplot is
installed.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

INNER_ROUNDS = 3  # rounds of each process
TIME_LIMIT = 300  # limit for each process, in seconds
OURS = ["cohort", "raw", "proc"]
MODES = ["loop", "rewrite"]

# The best settings on one machine: messages through shared memory, and large messages copied by
# the kernel between processes, as MPICH does by default.  With more ranks than cores, both
# libraries spin while they wait, but Open MPI has an option to yield.
PEERS = {
    "Open MPI": {
        "compiler": "mpicc.openmpi",
        "run": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none",
                "--mca", "pml", "ob1", "--mca", "btl", "self,vader"],
        "crowded": ["--mca", "mpi_yield_when_idle", "1"],
        "packages": "openmpi-bin libopenmpi-dev",
    },
    "MPICH": {
        "compiler": "mpicc.mpich",
        "run": ["mpiexec.mpich"],
        "crowded": [],
        "packages": "mpich libmpich-dev",
    },
}

CORES = len(os.sched_getaffinity(0))

# Variables without which mpirun refuses to run as root in a container.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


# ---- programs ---------------------------------------------------------------

def build_peer(name, out, what="peer"):
    """Build the program for a peer; on failure print the reason and return None."""
    peer = PEERS[name]
    for tool in peer["compiler"], peer["run"][0]:
        if not shutil.which(tool):
            print(f"{name}: not measured: {tool} is not installed "
                  f"(Debian: {peer['packages']})")
            return None
    source = os.path.join(os.path.dirname(__file__), what + ".c")
    program = os.path.join(out, what + "." + name.lower().replace(" ", ""))
    command = [peer["compiler"], "-std=gnu11", "-D_GNU_SOURCE", "-O3", "-Wall",
               "-Wextra", source, "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: not measured: {' '.join(command)} failed:\n{done.stderr}")
        return None
    return program


def build_ours(cohort, out):
    """Build the program for Cohort's processes; on failure print the reason and return None."""
    compiler = os.environ.get("CC", "cc").split()
    if not shutil.which(compiler[0]):
        print(f"proc: not measured: {compiler[0]} is not installed")
        OURS.remove("proc")
        return None
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    lib = os.path.join(os.path.dirname(os.path.abspath(cohort)), "lib")
    program = os.path.join(out, "peer.cohort")
    subprocess.run([*compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O3", "-Wall",
                    "-Wextra", "-DPEER_COHORT",
                    "-I" + os.path.join(root, "include"),
                    os.path.join(root, "bench", "peer.c"), "-o", program,
                    "-L" + lib, "-Wl,-rpath," + lib, "-lcohort"], check=True)
    return program


# ---- measuring --------------------------------------------------------------

def run(command):
    """Return the output of a command; on failure print the reason and return None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, timeout=TIME_LIMIT,
                              env={**os.environ, **ENVIRONMENT})
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)}: killed after {TIME_LIMIT} s")
        return None
    if done.returncode:
        print(f"{' '.join(command)}: exit status {done.returncode}\n"
              f"{done.stderr}")
        return None
    return done.stdout


def read_rounds(name, out):
    """Parse the output of bench/peer.c as {(system, mode, bytes): us}."""
    rounds = {}
    for line in (out or "").splitlines():
        mode, size, ns = line.split()
        rounds.setdefault((name, mode, int(size)), []).append(float(ns) / 1e3)
    return {key: statistics.median(values) for key, values in rounds.items()}


def measure_ours(cohort, program, ranks, sizes):
    """Return {(system, mode, bytes): us} of Cohort."""
    out = run([cohort, "bench", "all_reduce", "--platform", "host",
               "-g", str(ranks), "--sizes", ",".join(map(str, sizes)),
               "--loop", "--rewrite", "--api", "--raw",
               "--rounds", str(INNER_ROUNDS), "--json"])
    if out is None:
        sys.exit(1)
    times = {}
    for case in json.loads(out):
        mode, _, raw = case["mode"].partition(" ")
        times[raw or "cohort", mode, case["bytes"]] = case["time_us"]
    if program is None:
        return times
    out = run([program, str(ranks), str(INNER_ROUNDS), *map(str, sizes)])
    if out is None:
        sys.exit(1)
    return {**times, **read_rounds("proc", out)}


def measure_peer(name, program, ranks, sizes):
    peer = PEERS[name]
    crowded = peer["crowded"] if ranks > CORES else []
    out = run(peer["run"] + crowded + ["-n", str(ranks), program,
                                       str(INNER_ROUNDS), *map(str, sizes)])
    return read_rounds(name, out)


def measure(args, ours, programs):
    """Return {(ranks, system, mode, bytes): us of each round}."""
    all_times = {}
    for number in range(args.rounds):
        for ranks in args.ranks:
            if sys.stderr.isatty():
                print(f"\rround {number + 1}/{args.rounds}, {ranks} ranks ",
                      end="", file=sys.stderr, flush=True)
            times = measure_ours(args.cohort, ours, ranks, args.sizes)
            for name, program in programs.items():
                times.update(measure_peer(name, program, ranks, args.sizes))
            for key, us in times.items():
                all_times.setdefault((ranks, *key), []).append(us)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return all_times


# ---- output -----------------------------------------------------------------

def ratio(times, ranks, ours, peer, mode, size):
    """Return the speedup over a peer, as the median of the rounds; None if unknown."""
    a = times[ranks, ours, mode, size]
    b = times.get((ranks, peer, mode, size), [])
    if len(a) != len(b):
        return None
    return statistics.median(y / x for x, y in zip(a, b))


def cell(us):
    return f"{us:.3f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def show(args, times, peers):
    for ranks in args.ranks:
        for mode in MODES:
            print(f"\n{ranks} ranks, {mode}: us, and how many times as fast as")
            print(f"{'bytes':>10}" + "".join(f"{ours:>10}" for ours in OURS) + "".join(
                f"{name:>12}" + "".join(f"{ours:>8}" for ours in OURS)
                for name in peers))
            for size in args.sizes:
                show_size(times, peers, ranks, mode, size)


def show_size(times, peers, ranks, mode, size):
    line = f"{size:>10}"
    for ours in OURS:
        line += f"{cell(statistics.median(times[ranks, ours, mode, size])):>10}"
    for peer in peers:
        theirs = times.get((ranks, peer, mode, size))
        line += f"{cell(statistics.median(theirs)) if theirs else '-':>12}"
        for ours in OURS:
            faster = ratio(times, ranks, ours, peer, mode, size)
            line += f"{'-' if faster is None else f'{faster:.2f}':>8}"
    print(line)


def write_json(args, times, peers):
    cases = []
    for (ranks, system, mode, size), values in times.items():
        case = {"system": system, "ranks": ranks, "mode": mode, "bytes": size,
                "time_us": statistics.median(values), "rounds_us": values}
        for peer in peers if system in OURS else []:
            case["faster_than " + peer] = ratio(times, ranks, system, peer,
                                                mode, size)
        cases.append(case)
    path = os.path.join(args.out, "peers.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(cases, file, indent=1)
    return path


def plot_commands(args, times, peers, path):
    """Return gnuplot's commands: one figure per number of ranks, one line per peer and mode."""
    width = 480 * len(args.ranks)
    yield f"set terminal svg size {width},420 font 'sans,12' background 'white'"
    yield f"set output '{path}'"
    yield f"set multiplot layout 1,{len(args.ranks)}"
    yield "set logscale xy"
    yield "set xtics (" + ", ".join(
        f"'{short(size)}' {size}" for size in args.sizes) + ")"
    yield "set xlabel 'bytes'; set ylabel 'times as fast'; set grid"
    yield "set key outside bottom center maxrows 2"
    for ranks in args.ranks:
        lines, data = ["1 with lines linecolor 'black' notitle"], []
        for color, peer in enumerate(peers, 1):
            if ranks > CORES and not PEERS[peer]["crowded"]:
                continue  # the comparison would only measure the scheduler
            for mode in MODES:
                values = [(size, ratio(times, ranks, "cohort", peer, mode,
                                       size)) for size in args.sizes]
                values = [f"{s} {r}" for s, r in values if r is not None]
                if not values:
                    continue
                dash = 1 if mode == "loop" else 2
                lines.append(f"'-' with linespoints linecolor {color} "
                             f"dashtype {dash} pointtype 7 "
                             f"title '{peer}, {mode}'")
                data += [*values, "e"]
        yield f"set title 'all\\_reduce of float32, {ranks} ranks'"
        if data:
            first, last = min(args.sizes), max(args.sizes)
            yield f"plot [{first * 0.7}:{last * 1.4}] " + ", ".join(lines)
            yield from data


def short(size):
    for unit in "", "K", "M":
        if size < 1024 or unit == "M":
            return f"{size:g}{unit}"
        size /= 1024


def plot(args, times, peers):
    """Draw the figure and return its path; on failure print the reason and return None."""
    if not shutil.which("gnuplot"):
        print("no figure: gnuplot is not installed (Debian: gnuplot-nox)")
        return None
    path = os.path.join(args.out, "peers.svg")
    commands = "\n".join(plot_commands(args, times, peers, path)) + "\n"
    done = subprocess.run(["gnuplot"], input=commands, text=True, check=False)
    if done.returncode:
        print(f"no figure: gnuplot failed with exit status {done.returncode}")
        return None
    return path


# ---- main -------------------------------------------------------------------

def parse_size(text):
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() \
        else (text, "")
    size = int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
    if size < 4 or size % 4 or size > 1 << 32:
        raise ValueError
    return size


def numbers(parse):
    def parse_list(text):
        try:
            return [parse(part) for part in text.split(",")]
        except (ValueError, KeyError):
            raise argparse.ArgumentTypeError(f"'{text}' is no such list")
    return parse_list


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=numbers(int), default=[2, 4])
    parser.add_argument("--sizes", type=numbers(parse_size),
                        default="4,1K,64K,1M,16M,64M")
    parser.add_argument("--out", default="build")
    parser.add_argument("cohort", metavar="COHORT")
    args = parser.parse_args()
    if args.rounds < 1 or min(args.ranks) < 2:
        parser.error("at least 1 round, of at least 2 ranks")
    return args


def main():
    args = parse_args()
    os.makedirs(args.out, exist_ok=True)
    programs = {name: build_peer(name, args.out) for name in PEERS}
    programs = {name: p for name, p in programs.items() if p}
    times = measure(args, build_ours(args.cohort, args.out), programs)
    print(f"{args.rounds} rounds by turns, {CORES} cores; medians")
    show(args, times, list(programs))
    left = [write_json(args, times, list(programs))]
    if programs:
        left.append(plot(args, times, list(programs)))
    print("\n" + ", ".join(path for path in left if path))


if __name__ == "__main__":
    main()
