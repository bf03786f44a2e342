#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Find sources that call each other in a circle, by the symbols of their objects.

    scripts/circles.py [--all] OBJECTS

OBJECTS is the directory with the objects of one build, such as build/debug/src, without
link-time optimization, which would leave no symbols of calls.  Run it from the top of the
tree; objects without a source in src/ are leftovers, and ignored.  A circle is a set of
sources in which each one reaches every other by calls or by uses of data.  A circle inside a
directory may have at most four sources; directories must not form any.  Prints each circle
that is too large; the exit status is 1 if there is one.  With --all, also prints the smaller
circles, and what each directory uses.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict

MOST = 4


def symbols(path):
    """Return the symbols that an object defines, and those that it uses."""
    defined, used = set(), set()
    lines = subprocess.run(["nm", "-P", path], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    for name, kind in (line.split()[:2] for line in lines):
        if kind in "TDBRVW":
            defined.add(name)
        elif kind == "U":
            used.add(name)
    return defined, used


def uses_of(folder):
    """Return, for each source, the sources that it uses, with the symbols."""
    home, used = {}, {}
    for where, _, files in os.walk(folder):
        for file in files:
            if file.endswith(".o"):
                path = os.path.join(where, file)
                source = os.path.relpath(path, folder)[:-2]
                # Skip objects whose source has moved, because nothing removes them.
                stem = re.sub(r"\.\d+$", "", source)
                if not any(os.path.exists(f"src/{stem}.{end}") for end in "cS"):
                    continue
                defined, used[source] = symbols(path)
                home.update(dict.fromkeys(defined, source))
    uses = {source: defaultdict(list) for source in used}
    for source, names in used.items():
        for name in names:
            if home.get(name, source) != source:
                uses[source][home[name]].append(name)
    return uses


def circles(uses):
    """Return strongly connected components of more than one node, by Tarjan's algorithm."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in uses.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(uses):
        if node not in order:
            visit(node)
    return found


def main():
    show_all = "--all" in sys.argv[1:]
    folders = [word for word in sys.argv[1:] if not word.startswith("-")]
    if len(folders) != 1 or not os.path.isdir(folders[0]):
        sys.exit(__doc__)
    sys.setrecursionlimit(10000)
    uses = uses_of(folders[0])
    if not uses:
        sys.exit(f"{folders[0]}: no objects")

    floors = defaultdict(lambda: defaultdict(list))
    for source, others in uses.items():
        for other, names in others.items():
            above, below = os.path.dirname(source), os.path.dirname(other)
            if above != below:
                floors[above][below].append(
                    f"{source} -> {other}: {' '.join(sorted(names))}")

    bad = False
    for circle in circles(uses):
        large = len(circle) > MOST
        bad |= large
        if large or show_all:
            print(f"{len(circle)} sources in a circle: {' '.join(circle)}")
    for circle in circles(floors):
        bad = True
        print(f"{len(circle)} folders in a circle: {' '.join(circle)}")
        for above in circle:
            for below in sorted(set(circle) & set(floors[above])):
                lines = sorted(floors[above][below])
                print(f"  {above} uses {below}, {len(lines)} times")
                for line in lines if show_all else lines[:3]:
                    print(f"    {line}")
    if show_all:
        for above in sorted(floors):
            print(f"{above}: {' '.join(sorted(floors[above]))}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
