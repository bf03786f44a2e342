# SPDX-License-Identifier: Apache-2.0
"""Helpers shared by the tests of the binding."""

import os
import signal
import subprocess
import sys
import unittest
from array import array

os.environ["COHORT_PLATFORM"] = "host"

import cohort  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))

# Deadlines that a test should never reach.  Tests of deadlines set shorter ones.
PATIENT = cohort.Deadlines(abort=20.0, close=20.0)


def opened(n, **options):
    """Open a group on the host platform."""
    options.setdefault("deadlines", PATIENT)
    return cohort.Group.open(n, platform="host", **options)


def floats(*values):
    """Return an array of float32, without NumPy."""
    return array("f", values)


def sure(timeout=60):
    """Return the time that a test waits for an event that must happen, in seconds."""
    return timeout


class Case(unittest.TestCase):
    """Base class of tests that run Python programs."""

    def program(self, text, *, status=0, timeout=60, send=None):
        """Run a Python program and return its output; fail unless it exits with status.

        send, if given, is called with the process once it has printed a line."""
        process = subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", "-W",
             "ignore::DeprecationWarning", "-c", text],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
            env={**os.environ, "COHORT_LOG": "none"})  # no log, because callers compare the output
        try:
            first = process.stdout.readline() if send else ""
            if send:
                send(process)
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # children hold its pipes open
            out, err = process.communicate()
            self.fail(f"it hangs: {out!r} {err!r}")
        self.assertEqual(process.returncode, status, first + out + err)
        return first + out + err
