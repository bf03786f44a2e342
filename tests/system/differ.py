#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the simulator's NCCL with NVIDIA's, on the simulator's devices.

    differ.py OUT [--show] [SCENE]...
    differ.py OUT --mix SECONDS

The program in tests/system/differ runs each scene twice, each in its own process: under
OUT/cohort run, and under OUT/cohort run --nccl auto.  Both must print the same.  A
difference is allowed if the table of docs/simulator.md names the scene and gives a
reason; an entry of that table without a difference is an error.  If the table says "from
2.31", the scene may differ from that version of NVIDIA's NCCL on.

--show prints all differences, with both texts.  --mix only runs random programs, half of
which are aborted, on NVIDIA's NCCL; they must not crash, hang, or leak a thread or file.
"""

import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

DEVICES = "5"
TABLE = "docs/simulator.md"
HEAD = "## What differs from NVIDIA's NCCL"
ENTRY = re.compile(r"`([^`]+)`(?: from ([0-9]+)\.([0-9]+))?")
SKIP = re.compile("no libnccl.so.2|works on x86-64 only|is not supported by the simulator")


def version(out):
    """Return the version of NVIDIA's NCCL, as two numbers."""
    result = subprocess.run(
        [out + "/cohort", "run", "--nccl", "auto", "--", out + "/cohort", "info"],
        text=True, stdout=subprocess.PIPE, check=True)
    found = re.search(r"^gpu .* NCCL ([0-9]+)\.([0-9]+)\.", result.stdout, re.M)
    return tuple(int(number) for number in found.groups())


def allowed(nccl):
    """Return patterns of the scenes that may differ from this version."""
    with open(TABLE, encoding="utf-8") as file:
        section = file.read().split(HEAD + "\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|") for line in section.splitlines()
            if line.startswith("|")][2:]
    return [name for row in rows for name, *since in ENTRY.findall(row[-2])
            if nccl >= tuple(int(number or 0) for number in since)]


def build(out, program):
    sources = [os.path.join("tests/system/differ", name)
               for name in sorted(os.listdir("tests/system/differ"))
               if name.endswith(".c")]
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run(
        compiler + ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
                    "-Isrc", "-Isrc/sim/include", *sources, "-o", program,
                    "-L" + out + "/lib/drop-in", "-lnccl", "-lcudart", "-pthread"],
        check=True)


def play(out, options, program, scene):
    """Run a scene, and return what it prints, without its name."""
    environment = dict(os.environ)
    environment.pop("COHORT_HOST_STRICT", None)
    result = subprocess.run(
        [out + "/cohort", "run", "-n", DEVICES, *options, "--", program, scene],
        env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=300, check=False)
    if result.returncode:
        return "exit status %d: %s" % (result.returncode, result.stderr.strip())
    return result.stdout.strip()[len(scene):].strip()


def compare(out, program, scene):
    """Return both texts; a difference must repeat, because a loaded machine is slow."""
    for _ in range(2):
        ours = play(out, [], program, scene)
        theirs = play(out, ["--nccl", "auto"], program, scene)
        if ours == theirs:
            break
    return scene, ours, theirs


def mix(out, program, seconds):
    """Run the random programs; return 1 if they crash, hang or leak, else 0.

    Their ranks destroy communicators at any time, even during other ranks' collectives.
    NCCL frees memory then; if that waits for kernels, ranks may wait for each other.
    """
    return subprocess.run(
        [out + "/cohort", "run", "-n", "4", "--nccl", "auto", "--", program, "--mix",
         seconds, "4"], env=dict(os.environ, COHORT_HOST_SYNC="none"),
        timeout=int(seconds) + 300, check=False).returncode != 0


def skip(out):
    """Return why there is nothing to compare with, or None."""
    result = subprocess.run(
        [out + "/cohort", "run", "--nccl", "auto", "--", out + "/cohort", "info"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return result.stderr.strip() if SKIP.search(result.stderr) else None


def main():
    arguments = [a for a in sys.argv[1:] if a != "--show"]
    out, wanted = arguments[0], arguments[1:]
    reason = skip(out)
    if reason:
        print(reason)
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        program = scratch + "/differ"
        build(out, program)
        if wanted[:1] == ["--mix"]:
            return mix(out, program, wanted[1])
        scenes = subprocess.run(
            [out + "/cohort", "run", "--", program, "--list"], check=True,
            text=True, stdout=subprocess.PIPE).stdout.split()
        if wanted:
            scenes = [s for s in scenes
                      if any(fnmatch.fnmatch(s, w) for w in wanted)]
        # Scenes that hang sleep, so more of them can run than there are processors.
        with concurrent.futures.ThreadPoolExecutor(
                (os.cpu_count() or 1) + 1) as pool:
            results = list(pool.map(
                lambda scene: compare(out, program, scene), scenes))
    return judge(results, allowed(version(out)), bool(wanted))


def judge(results, patterns, some):
    differing, failed = [], 0
    for scene, ours, theirs in results:
        if ours == theirs:
            continue
        differing.append(scene)
        known = any(fnmatch.fnmatch(scene, p) for p in patterns)
        if not known or "--show" in sys.argv:
            print("%s%s\n  simulator: %s\n  NVIDIA's:  %s" % (
                scene, " (known)" if known else "", ours, theirs))
        failed += not known
    for pattern in patterns:
        if not some and not fnmatch.filter(differing, pattern):
            print("%s: %s no longer differs" % (TABLE, pattern))
            failed += 1
    print("%d scenes, %d differ, %d unexpectedly" % (
        len(results), len(differing), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
