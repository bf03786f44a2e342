#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of torch.distributed that PyTorch's wheel contains, on the backend "cohort".

usage: c10d.py [TEST...]        exit status 0 passed, 1 failed, 77 skipped

Needs PyTorch 2.15 or newer, expecttest, and the wheel of this package (or PYTHONPATH and
LD_LIBRARY_PATH, and an entry point).  Conditions that admit only "gloo" also admit "cohort";
this is changed in memory, not in files.  The tests in UNABLE must fail, each for its reason.
"""

import importlib.util
import os
import sys
import tempfile
import unittest

COMPLETED = "a work in Python cannot answer is_completed(): PyTorch does not ask it"
SOURCE = "a backend in Python cannot tell PyTorch which rank sent a message"
UNABLE = {
    "test_irecv": COMPLETED,
    "test_isend": COMPLETED,
    "test_isend_autograd_profiler": COMPLETED,
    "test_isend_torch_profiler": COMPLETED,
    "test_send_recv_any_source": SOURCE,
    "test_send_recv_any_source_autograd_profiler": SOURCE,
    "test_send_recv_any_source_torch_profiler": SOURCE,
    "test_sparse_all_reduce_sum": "sparse tensors are refused",
    "test_ddp_logging_data_cpu": "PyTorch logs each backend that it does not have as 'custom'",
    "test_monitored_barrier_gloo": "it wants the texts of Gloo's errors",
    "test_monitored_barrier_gloo_rank_0_timeout": "it wants the texts of Gloo's errors",
}
NAME = "torch.testing._internal.distributed.distributed_test"


def load():
    """Return the module of the tests, which admits "cohort" where it admits "gloo"."""
    from torch.testing._internal.common_distributed import DistTestCases

    spec = importlib.util.find_spec(NAME)
    with open(spec.origin, encoding="utf-8") as file:
        text = file.read()
    for feature in "ddp", "gpu":
        DistTestCases.backend_feature[feature].add("cohort")
    for old, new in (
            ('BACKEND != "gloo"', 'BACKEND not in ("gloo", "cohort")'),
            ('BACKEND == "gloo"', 'BACKEND in ("gloo", "cohort")'),
            ("if not check(dist.Backend(BACKEND))", "if False"),
            ('{"gloo"}', '{"gloo", "cohort"}')):
        assert old in text, old
        text = text.replace(old, new)
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)  # pylint: disable=exec-used
    return module


def main():
    os.environ.update(BACKEND="cohort", WORLD_SIZE="3", TEMP_DIR=tempfile.mkdtemp(),
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="120", OMP_NUM_THREADS="1",
                      COHORT_LOG="none")
    try:
        import cohort.torch
        import torch
        cohort.torch.register()
    except ImportError as error:
        print(error)
        sys.exit(77)
    tests = load()

    class Cohort(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        """The tests, each in forked processes, because PyTorch's new processes take ten seconds
        to start."""

        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    names = sys.argv[1:] or unittest.TestLoader().getTestCaseNames(Cohort)
    suite = unittest.TestSuite(Cohort(name) for name in names)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    failed = {test._testMethodName for test, _ in result.failures + result.errors}
    skipped = {test._testMethodName for test, _ in result.skipped}
    wrong = sorted(failed - set(UNABLE))
    better = sorted(name for name in UNABLE if name in names and name not in failed | skipped)
    print(f"{len(names) - len(failed) - len(skipped)} passed, {len(failed)} failed, "
          f"{len(skipped)} skipped")
    for name in sorted(failed & set(UNABLE)):
        print(f"cannot pass: {name}: {UNABLE[name]}")
    for name in wrong:
        print(f"FAILED: {name}")
    for name in better:
        print(f"passed, but is listed as unable: {name}")
    sys.exit(1 if wrong or better else 0)


if __name__ == "__main__":
    main()
