# SPDX-License-Identifier: Apache-2.0
"""Print the options with which a C compiler builds a program for the library of this package."""

import argparse
import os
import sys

from . import _abi


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m cohort", description=__doc__,
        epilog="cc -o program program.c $(python -m cohort --cflags --libs)")
    parser.add_argument("--cflags", action="store_true", help="print the options for the headers")
    parser.add_argument("--libs", action="store_true", help="print the options for the library")
    parser.add_argument("--version", action="version", version=_abi.VERSION)
    options = parser.parse_args()
    if not (options.cflags or options.libs):
        parser.error("nothing to print: use --cflags, --libs or both")
    folder = os.path.dirname(os.path.abspath(__file__))
    include = os.path.join(folder, "include")
    if not os.path.isdir(include):
        sys.exit(f"python -m cohort: no folder {include}: this package is not from a wheel; use "
                 "pkg-config --cflags --libs cohort")
    parts = []
    if options.cflags:
        parts.append(f"-I{include}")
    if options.libs:
        parts += [f"-L{folder}", f"-Wl,-rpath,{folder}",
                  f"-l:libcohort.so.{_abi.VERSION_MAJOR}"]
    print(*parts)


if __name__ == "__main__":
    main()
