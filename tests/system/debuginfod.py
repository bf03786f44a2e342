#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test that names in a stack are looked up on this machine, never on a server.

The symbols of a stripped command could come from the server in DEBUGINFOD_URLS, but a
verdict must not wait for a server.  Here that server is a socket that never answers; the
test fails if anything connects to it.

usage: debuginfod.py COHORT     exit status 0 passed, 1 failed, 77 skipped
"""

import ctypes
import os
import re
import socket
import subprocess
import sys
import tempfile


def skip(why):
    print(f"{why}: skipped")
    sys.exit(77)


def need_libraries(cohort):
    with open(cohort, "rb") as file:
        if b"libdw.so" not in file.read():
            skip("cohort was built without libdw")
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        skip("there is no libdebuginfod, which asks servers")


def stall(cohort, url, cache):
    """Run a demo with a stack in its verdict."""
    environment = dict(
        os.environ,
        COHORT_PLATFORM="host",
        DEBUGINFOD_URLS=url,
        DEBUGINFOD_CACHE_PATH=cache,
    )
    made = subprocess.run(
        [cohort, "demo", "--ranks", "2", "--epochs", "4"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.search(r"^ *where  \S", made.stdout, re.M), made


def has_come(server):
    server.setblocking(False)
    try:
        server.accept()
    except BlockingIOError:
        return False
    return True


def main():
    need_libraries(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, socket.socket() as server:
        bare = f"{folder}/cohort"
        subprocess.run(["strip", "-o", bare, sys.argv[1]], check=True)
        server.bind(("127.0.0.1", 0))
        server.listen()
        stall(bare, f"http://127.0.0.1:{server.getsockname()[1]}/", folder)
        assert not has_come(server), "a server was asked for symbols"
    print("debuginfod: ok")


if __name__ == "__main__":
    main()
