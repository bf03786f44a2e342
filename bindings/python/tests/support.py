# SPDX-License-Identifier: Apache-2.0
"""What the tests of the binding have in common."""

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

# No test waits for a deadline but those that say so, and those have short ones.
PATIENT = cohort.Deadlines(abort=20.0, close=20.0)


def opened(n, **options):
    """A group on the host platform."""
    options.setdefault("deadlines", PATIENT)
    return cohort.Group.open(n, platform="host", **options)


def floats(*values):
    """An array of float32 without NumPy."""
    return array("f", values)


def sure(timeout=60):
    """How long a test waits for what must come."""
    return timeout


class Case(unittest.TestCase):
    """A test that can run programs."""

    def program(self, text, *, status=0, timeout=60, send=None):
        """Run a Python program, and return what it prints; send is called with it once
        it has printed a line."""
        process = subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", "-W",
             "ignore::DeprecationWarning", "-c", text],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
            env={**os.environ, "COHORT_LOG": "none"})  # what follows is compared
        try:
            first = process.stdout.readline() if send else ""
            if send:
                send(process)
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # children have its pipes, too
            out, err = process.communicate()
            self.fail(f"it hangs: {out!r} {err!r}")
        self.assertEqual(process.returncode, status, first + out + err)
        return first + out + err
