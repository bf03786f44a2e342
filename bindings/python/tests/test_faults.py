# SPDX-License-Identifier: Apache-2.0
"""Test failures: ranks that hang, fail or exit, arrays that are freed early, signals, forks
and the exit of the interpreter."""

import copy
import ctypes
import gc
import io
import os
import pickle
import signal
import sys
import threading
import time
import unittest
import warnings
import weakref
from array import array
from unittest import mock

import support
from support import Case, floats, opened

import cohort
from cohort import _library, testing
from cohort.testing import Fault

# Long enough for a rank to call in time on a busy machine.
SHORT = cohort.Deadlines(join=1.0, exec=20.0, abort=20.0, close=20.0)


class Watched(array):
    """An array that supports weak references."""


class Ranks(Case):
    """Ranks that hang, fail or exit."""

    def tearDown(self):
        testing.clear()

    def test_hung_rank_is_named_in_error_and_verdict(self):
        seen, raised, release = [], [], threading.Event()

        def worker(comm):
            x = floats(comm.rank)
            comm.all_reduce(x).wait()
            if comm.rank == 2:
                release.wait(support.sure())
                return
            try:
                comm.all_reduce(x).wait()
            except cohort.Stalled as error:
                raised.append(error)
                if len(raised) == 2:
                    release.set()
                raise
        with opened(3, deadlines=SHORT, name="hung", on_verdict=seen.append) as group:
            with self.assertRaises(cohort.Stalled) as caught:
                group.run(worker)
            cause, lost = group.cause, group.lost
        error = caught.exception
        self.assertEqual((error.rank, error.status), (2, cohort.Status.STALLED))
        self.assertEqual((lost, cause.world_rank), ([2], 2))
        self.assertEqual(error.verdict, cohort.VerdictKind.OUTSIDE)
        self.assertRegex(str(error), r'^rank 2 has not called all_reduce 2 of "hung" '
                                     r"\([^)]*, limit 1\.0 s\): .*; ranks 0-1 wait$")
        self.assertIn("busy in the program", error.details)
        self.assertEqual((error.text, error.details), (cause.text, cause.details))
        self.assertEqual([one.rank for one in raised], [2, 2])
        self.assertEqual((error.cause, error.cause.missing, error.cause.joined),
                         (cause, {2}, {0, 1}))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.rank, again.text),
                         (cohort.Stalled, 2, error.text))
        ended = [verdict for verdict in seen if verdict.stage == cohort.Stage.ENDED]
        self.assertEqual([(one.rank, len(one.ranks), one.group) for one in ended],
                         [(2, 3, "hung")])
        self.assertEqual([report.rank for report in ended[0].ranks], [0, 1, 2])
        self.assertEqual((ended[0].line, ended[0].text, ended[0].world_rank, ended[0].call),
                         (cause.text, cause.details, 2, 'all_reduce 2 of "hung"'))

    def test_on_verdict_that_raises_ends_nothing(self):
        raised = threading.Event()

        def fail(verdict):
            raised.set()
            raise ValueError("a bug")

        def worker(comm):
            if comm.rank:
                raised.wait(support.sure())
            comm.barrier().wait()
        with mock.patch.object(sys, "stderr", io.StringIO()) as printed, \
                opened(2, deadlines=SHORT, policy=cohort.Policy.ASK, on_verdict=fail) as group:
            group.run(worker)
        self.assertIn("ValueError: a bug", printed.getvalue())

    def test_hung_rank_of_a_split_comm_is_blamed_in_the_group(self):
        """Checked with and without a timeout of the waiting rank."""
        def worker(comm, timeout):
            with comm.split(comm.rank % 2) as child:
                while comm.rank == 2 and not comm.cause:
                    time.sleep(0.001)
                if comm.rank == 0:
                    child.barrier().wait(timeout)
        for timeout in None, 0.1:
            with opened(3, deadlines=SHORT) as group:
                with self.assertRaises(cohort.Stalled) as caught:
                    group.run(worker, timeout)
                cause = caught.exception.cause
                self.assertEqual((cause.world_rank, cause.missing, group.lost),
                                 (2, {2}, [2]))

    def test_lost_is_empty_while_the_group_runs(self):
        with opened(2) as group:
            self.assertEqual(group.lost, [])
            with self.assertRaises(cohort.StateError) as caught:
                group.respawn(group.lost)
            self.assertEqual(caught.exception.details, caught.exception.text)

    def test_verdict_has_the_python_stack_of_a_hung_thread(self):
        release = threading.Event()
        self.addCleanup(release.set)
        seen = []

        def load_the_batch():
            release.wait(support.sure())

        def worker(comm):
            if comm.rank == 1:
                load_the_batch()
            comm.barrier().wait()

        def told(verdict):
            seen.append(verdict)
            if verdict.stage == cohort.Stage.ENDED:
                release.set()

        with opened(2, deadlines=SHORT, on_verdict=told) as group:
            with self.assertRaises(cohort.Stalled):
                group.run(worker)
        hung, waiting = seen[-1].ranks[1], seen[-1].ranks[0]
        self.assertRegex(hung.python, r" < load_the_batch \(test_faults\.py:\d+\) < "
                                      r"worker \(test_faults\.py:\d+\)")
        self.assertTrue(hung.python.startswith("wait (threading.py:"), hung.python)
        self.assertRegex(waiting.python, r"^worker \(test_faults\.py:\d+\)|^$")
        self.assertEqual(cohort._errors.thread_idents, {})

    def test_verdict_names_the_thread_that_holds_the_interpreter_lock(self):
        # PyDLL calls a function with the interpreter lock held; no signal interrupts this call.
        held = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(held)

        def worker(comm):
            if comm.rank == 1:
                while not comm.snapshot()[0].joined:
                    time.sleep(0.001)
                until = (ctypes.c_long * 2)(int(time.time()) + 4, 0)
                ctypes.PyDLL(None).pthread_mutex_timedlock(held, until)
            comm.barrier().wait()
        for _ in range(10):  # a busy machine may deliver the stack too late
            with opened(2, deadlines=SHORT, stack_signal=signal.SIGRTMIN + 1) as group:
                with self.assertRaises(cohort.Stalled) as caught:
                    group.run(worker)
            if "stack unavailable" not in caught.exception.details:
                break
        self.assertIn("; it holds Python's interpreter lock", caught.exception.details)

    def test_only_the_rank_that_holds_the_interpreter_lock_is_blamed(self):
        """Rank 0 is late as well, but only because it waits for the lock."""
        held = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(held)
        lock = ctypes.PyDLL(None).pthread_mutex_timedlock
        released = threading.Event()

        def worker(comm):
            if comm.rank == 0:
                while not released.is_set():
                    time.sleep(0.001)
            if comm.rank == 1:
                while not all(rank.joined for rank in comm.snapshot()[2:]):
                    time.sleep(0.001)
                lock(held, (ctypes.c_long * 2)(int(time.time()) + 4, 0))
                released.set()
            comm.barrier().wait()
        for _ in range(10):  # a busy machine may deliver the stacks too late
            released.clear()
            with opened(4, deadlines=SHORT, stack_signal=signal.SIGRTMIN + 1) as group:
                with self.assertRaises(cohort.Stalled) as caught:
                    group.run(worker)
                lost = group.lost
            if "\nnote   rank 0 waits for" in caught.exception.details:
                break
        self.assertEqual((caught.exception.rank, lost), (1, [1]))
        self.assertIn("\nnote   rank 0 waits for Python's interpreter lock",
                      caught.exception.details)

    def test_scripted_fault_ends_the_run(self):
        testing.script(Fault("stuck", rank=1, operation=1))
        deadlines = cohort.Deadlines(join=1.0, exec=1.0, abort=20.0)

        def worker(comm):
            for _ in range(3):
                comm.barrier().wait()
        with opened(2, deadlines=deadlines) as group:
            with self.assertRaises(cohort.Stalled) as caught:
                group.run(worker)
        self.assertEqual(caught.exception.rank, 1)

    def test_exception_in_a_worker_fails_its_rank(self):
        def worker(comm):
            if comm.rank == 1:
                raise KeyError("shard 12")
            comm.barrier().wait()
        with opened(3) as group:
            with self.assertRaises(cohort.WorkerError) as caught:
                group.run(worker)
            self.assertEqual(group.abandoned, [])
        error = caught.exception
        self.assertEqual((error.rank, error.verdict), (1, cohort.VerdictKind.WORKER))
        self.assertIn("rank 1 gave up with code -14: KeyError: 'shard 12'", error.text)
        self.assertIsInstance(error.__cause__, KeyError)

    def test_exception_whose_str_raises_fails_its_rank(self):
        """Checked for a worker and for a with block."""
        class Silent(Exception):
            def __str__(self):
                raise ZeroDivisionError

        def worker(comm):
            if comm.rank == 1:
                raise Silent
            comm.barrier().wait()
        with opened(2) as group:
            with self.assertRaisesRegex(cohort.WorkerError, "-14: Silent: it has no text"):
                group.run(worker)
        with self.assertRaises(Silent):
            with opened(1) as group:
                raise Silent
        self.assertRaises(cohort.StateError, lambda: group.size)

    def test_exception_whose_str_raises_system_exit_fails_its_rank(self):
        class Fatal(Exception):
            def __str__(self):
                raise SystemExit(3)

        def worker(comm):
            if comm.rank == 1:
                raise Fatal
            comm.barrier().wait()
        with opened(2) as group:
            with self.assertRaisesRegex(cohort.WorkerError, "-14: Fatal: it has no text"):
                group.run(worker)

    def test_cohort_error_subclass_without_status_fails_its_rank(self):
        class Bare(cohort.CohortError):
            def __init__(self):  # pylint: disable=super-init-not-called
                pass

        class Broken(cohort.Stalled):
            status = property(lambda self: 1 // 0)

            def __init__(self):  # pylint: disable=super-init-not-called
                pass
        for kind in Bare, Broken:
            def worker(comm, kind=kind):
                if comm.rank == 1:
                    raise kind
                comm.barrier().wait()
            with opened(2) as group:
                with self.assertRaises(cohort.WorkerError) as caught:
                    group.run(worker)
            self.assertIsInstance(caught.exception.__cause__, kind)

    def test_exception_with_raising_attributes_fails_its_rank(self):
        class Remote(Exception):
            @property
            def cause(self):
                raise RuntimeError("not fetched yet")

        def worker(comm):
            if comm.rank == 1:
                raise Remote("disk full")
            comm.barrier().wait()
        with opened(2) as group:
            with self.assertRaises(cohort.WorkerError) as caught:
                group.run(worker)
        self.assertEqual(caught.exception.rank, 1)
        self.assertIsInstance(caught.exception.__cause__, Remote)

    def test_exception_behind_a_mismatch_becomes_cause(self):
        """The mismatch comes from the barrier in the finally clause."""
        def worker(comm):
            try:
                if comm.rank == 2:
                    raise ValueError("loss is NaN")
                comm.all_reduce(floats(1)).wait()
            finally:
                comm.barrier().wait()
        with opened(3) as group:
            with self.assertRaises(cohort.Mismatch) as caught:
                group.run(worker)
        error = caught.exception
        self.assertEqual((error.rank, str(error.__cause__)), (2, "loss is NaN"))
        self.assertEqual(error.exceptions, {2: error.__cause__})

    def test_exception_behind_a_stall_becomes_cause(self):
        """Rank 1 is to blame, but only rank 0 has an exception."""
        release = threading.Event()

        def worker(comm):
            if comm.rank == 1:
                release.wait(support.sure())
                return
            try:
                comm.barrier().wait()
            except cohort.Stalled:
                release.set()
                raise KeyError("shard 3")  # pylint: disable=raise-missing-from
        with opened(2, deadlines=SHORT) as group:
            with self.assertRaises(cohort.Stalled) as caught:
                group.run(worker)
        error = caught.exception
        self.assertEqual((error.rank, str(error.__cause__)), (1, "'shard 3'"))

    def test_run_omits_a_timeout_that_was_handled_when_the_group_ended(self):
        def worker(comm):
            if comm.rank == 1:
                timed_out.wait(support.sure())
                raise KeyError
            ticket = comm.barrier()
            try:
                ticket.wait(timeout=0.001)
            except cohort.TimedOut:
                timed_out.set()
                ticket.wait()
        timed_out = threading.Event()
        with opened(2) as group:
            with self.assertRaises(cohort.WorkerError) as caught:
                group.run(worker)
        self.assertEqual(list(caught.exception.exceptions), [1])

    def test_run_collects_exceptions_of_all_ranks(self):
        both = threading.Barrier(2)

        def worker(comm):
            if comm.rank == 2:
                comm.barrier().wait()
            both.wait(support.sure())
            raise KeyError(comm.rank)
        with opened(3) as group:
            with self.assertRaises(cohort.WorkerError) as caught:
                group.run(worker)
        error = caught.exception
        self.assertEqual({rank: one.args for rank, one in error.exceptions.items()},
                         {0: (0,), 1: (1,)})
        self.assertIs(error.__cause__, error.exceptions[error.rank])

    def test_run_omits_exceptions_that_report_the_end_of_a_split_comm(self):
        reported = threading.Event()

        def worker(comm):
            child = comm.split(0)
            if comm.rank == 1:
                child.fail(7)
                reported.wait(support.sure())
                raise KeyError
            try:
                child.barrier().wait()
            except cohort.WorkerError:
                reported.set()
                raise
        with opened(2) as group:
            with self.assertRaises(cohort.WorkerError) as caught:
                group.run(worker)
        error = caught.exception
        self.assertEqual((error.rank, list(error.exceptions)), (1, [1]))
        self.assertIsInstance(error.__cause__, KeyError)

    def test_exit_of_a_bound_thread_raises_thread_exited(self):
        def leave(comm):
            comm.bind()

        with opened(2) as group:
            first, second = group.split()
            ticket = first.all_reduce(floats(1))
            thread = threading.Thread(target=leave, args=(second,))
            thread.start()
            thread.join()
            with self.assertRaises(cohort.ThreadExited) as caught:
                ticket.wait(support.sure())
            self.assertEqual(caught.exception.rank, 1)

    def test_worker_that_returns_early_is_blamed(self):
        def worker(comm):
            if comm.rank == 0:
                comm.barrier().wait()
        with opened(2, deadlines=SHORT) as group:
            with self.assertRaises(cohort.Stalled) as caught:
                group.run(worker)
            self.assertEqual(caught.exception.rank, 1)
            group.respawn([1])
            self.assertEqual((group.size, group.generation), (1, 2))
            self.assertEqual(group.run(lambda comm: comm.origin), [0])

    def test_different_calls_raise_mismatch(self):
        def worker(comm):
            comm.all_reduce(array("f" if comm.rank != 1 else "d", [1])).wait()
        with opened(3) as group:
            with self.assertRaises(cohort.Mismatch) as caught:
                group.run(worker)
        self.assertEqual(caught.exception.rank, 1)
        self.assertIn("1 float64", caught.exception.text)

    def test_fail_and_abort_handle_end_the_group(self):
        def worker(comm):
            if comm.rank == 0:
                comm.fail(7, "no more data")
            comm.barrier().wait()
        with opened(2) as group:
            with self.assertRaisesRegex(cohort.WorkerError, "gave up with code 7: no more data"):
                group.run(worker)
        with opened(1) as group:
            [comm] = group.split()
            handle = comm.abort_handle()
            self.assertFalse(handle.fired)
            self.assertTrue(handle.fire("enough"))
            self.assertFalse(handle.fire())
            self.assertRaisesRegex(cohort.Aborted, "enough", comm.barrier)

    def test_close_names_a_callback_that_hangs(self):
        release = threading.Event()
        self.addCleanup(release.set)
        deadlines = cohort.Deadlines(close=20.0, abort=0.3)
        with self.assertRaisesRegex(cohort.Wedged, "on_verdict has not returned"):
            with opened(1, deadlines=deadlines, on_verdict=lambda verdict: release.wait(
                    support.sure())) as group:
                group.abort()

    def test_abort_handle_ends_an_open_in_progress(self):
        handle, release = cohort.AbortHandle(), threading.Event()

        def allgather(data):
            handle.fire("enough")
            release.wait(support.sure())
            return [data, data]
        table = cohort.Table(process=0, processes=2, allgather=allgather)
        try:
            with self.assertRaisesRegex(cohort.Aborted, "enough"):
                cohort.Group.open(2, platform="host", abort=handle, bootstrap=table)
        finally:
            release.set()

    def test_abort_handle_in_options_ends_the_group(self):
        handle = cohort.AbortHandle()
        with opened(2, abort=handle) as group:
            self.assertFalse(handle.fired)
            self.assertTrue(handle.fire("enough"))
            self.assertEqual(group.cause.status, cohort.Status.ABORTED)
        with self.assertRaisesRegex(TypeError, "abort is 3, not cohort.AbortHandle"):
            cohort.Group.open(2, abort=3)

    def test_comm_of_a_reclaimed_generation_can_be_closed(self):
        """Checked also for a split communicator and for the end of a with block."""
        with opened(1) as group:
            [comm] = group.split()
            child = comm.split(0)
            with comm.split(0), comm:
                for _ in range(5):
                    group.abort()
                    group.respawn()
                self.assertRaisesRegex(cohort.Stale, "respawned 5 times", comm.abort_handle)
            child.close()
            self.assertRaises(cohort.StateError, child.abort_handle)

    def test_close_raises_the_cause_of_its_tickets(self):
        with opened(2, deadlines=SHORT) as group:
            first = group.split()[0]
            first.barrier()
            with self.assertRaisesRegex(cohort.Stalled, "never called") as caught:
                first.close()
            self.assertEqual(caught.exception.rank, 1)
            group.abort()

    def test_abandoned_worker_gets_stale(self):
        """The worker's state must stay alive until its thread has returned."""
        release, said = threading.Event(), []

        def worker(comm):
            if comm.rank:
                release.wait(support.sure())
                try:
                    comm.barrier()
                except cohort.CohortError as error:
                    said.append(error)
                return
            comm.barrier().wait()
        self.abandon_rank_1(worker, release)
        self.assertIsInstance(said[0], cohort.Stale)

    def abandon_rank_1(self, worker, release):
        """Run worker, which hangs on rank 1; then release it, and wait until it has returned."""
        deadlines = cohort.Deadlines(join=1.0, abort=2.0, close=20.0)
        with opened(2, deadlines=deadlines) as group:
            with self.assertRaises(cohort.Stalled):
                group.run(worker)
            self.assertEqual(group.abandoned, [1])
        release.set()
        end = time.monotonic() + support.sure()
        from cohort import _group
        while _group._runs and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(_group._runs, {})

    def test_group_closes_while_an_abandoned_worker_is_inside_a_call(self):
        """The worker waits in Python, as for the interpreter lock after a call of C."""
        release = threading.Event()
        self.addCleanup(release.set)

        def worker(comm):
            if comm.rank:
                comm._inside_of(lambda: release.wait(support.sure()))
            comm.barrier().wait()
        self.abandon_rank_1(worker, release)

    def test_wait_raises_timed_out_and_can_be_repeated(self):
        with opened(2) as group:
            first, second = group.split()
            ticket = first.all_reduce(floats(1))
            self.assertFalse(ticket.done())
            with self.assertRaises(TimeoutError) as caught:
                ticket.wait(0.01)
            self.assertIsInstance(caught.exception, cohort.TimedOut)
            second.all_reduce(floats(1)).wait()
            ticket.wait()
            self.assertTrue(ticket.done())


class Arrays(Case):
    """The lifetime of arrays and memory that are in use."""

    def test_dropped_array_stays_alive_until_its_ticket_is_done(self):
        with opened(2) as group:
            first, second = group.split()
            mine = Watched("f", [3.0])
            gone = weakref.ref(mine)
            ticket = first.all_reduce(mine)
            address = mine.buffer_info()[0]
            with self.assertRaises(BufferError):  # the call prevents a resize
                mine.append(1.0)
            del mine
            gc.collect()
            self.assertIsNotNone(gone())
            self.assertEqual(gone().buffer_info()[0], address)
            second.all_reduce(floats(4)).wait()
            ticket.wait()
            gc.collect()
            self.assertIsNone(gone())

    def test_handles_cannot_be_copied(self):
        """A copy would release the handle twice."""
        with opened(1) as group:
            [comm] = group.split()
            with cohort.Reducer(comm, [floats(1)]) as reducer, comm.premul_sum(2) as scaled:
                for what in (group, comm, comm.alloc(1), comm.abort_handle(), reducer, scaled,
                             comm.batch(), comm.paused(), comm.prepare_all_reduce(floats(1)),
                             comm.prepare_all_reduce_host(floats(1))):
                    for copied in copy.copy, copy.deepcopy, pickle.dumps:
                        with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                            copied(what)

    def test_arrays_of_dropped_tickets_are_released(self):
        with opened(1) as group:
            [comm] = group.split()
            for _ in range(300):
                comm.all_reduce(floats(1))
            self.assertLess(len(comm._held), 200)
            comm.synchronize()
            self.assertEqual(len(comm._held), 0)

    def test_memory_in_use_by_a_call_is_not_freed(self):
        with opened(2) as group:
            first, second = group.split()
            memory = first.alloc(4)
            ticket = first.all_reduce(memory)
            self.assertRaisesRegex(BufferError, "in use", memory.free)
            second.all_reduce(floats(0, 0, 0, 0)).wait()
            ticket.wait()
            memory.free()
            self.assertRaisesRegex(BufferError, "send was freed", first.all_reduce, memory)

    def test_memory_in_use_by_a_batch_a_reducer_or_a_sum_is_not_freed(self):
        with opened(1) as group:
            [comm] = group.split()
            users = (lambda memory: comm.batch(),
                     lambda memory: cohort.Reducer(comm, [memory]),
                     lambda memory: comm.premul_sum(memory))
            for user in users:
                memory = comm.alloc(1)
                with user(memory) as using:
                    with memory:
                        if isinstance(using, cohort.Batch):
                            comm.all_reduce(memory)
                    self.assertRaisesRegex(BufferError, "in use", memory.free)
                comm.synchronize()
                memory.free()
            memory = comm.alloc(1)
            with self.assertRaises(ValueError):
                cohort.Reducer(comm, [memory, cohort.Parameter(count=-1)])
            memory.free()

    def test_memory_in_use_by_another_communicator_is_not_freed(self):
        """The other communicator is of another generation, or of another group."""
        with opened(2) as group, opened(2) as other:
            memory = group.split()[0].alloc(1)
            group.abort()
            group.respawn()
            for comms in group.split(), other.split():
                ticket = comms[0].all_reduce(memory)
                self.assertRaisesRegex(BufferError, "in use", memory.free)
                comms[1].all_reduce(floats(1)).wait()
                ticket.wait()
            memory.free()

    def test_prepared_call_raises_after_its_memory_is_freed(self):
        with opened(1) as group:
            def worker(comm):
                for prepare in comm.prepare_all_reduce, comm.prepare_all_reduce_host:
                    memory = comm.alloc(1)
                    prepared = prepare(memory)
                    prepared.run()
                    memory.free()
                    self.assertRaisesRegex(BufferError, "was freed", prepared.run)
                comm.barrier().wait()
            group.run(worker)

    def test_refused_close_keeps_memory_of_an_open_reducer(self):
        deadlines = cohort.Deadlines(close=0.05, abort=20.0)
        with opened(2, deadlines=deadlines) as group:
            first, second = group.split()
            memory = first.alloc(1)
            reducer = cohort.Reducer(first, [memory])
            reducer.begin()
            reducer.ready(0)  # the bucket is in flight until the other rank calls
            self.assertRaises(cohort.TimedOut, first.close)
            self.assertRaisesRegex(BufferError, "in use", memory.free)
            group.abort()

    def test_close_frees_memory_used_by_a_reducer_or_sum(self):
        unfreed = self.unfreed()
        with opened(1) as group:
            [comm] = group.split()
            memory, scalar = comm.alloc(1), comm.alloc(1)
            using = cohort.Reducer(comm, [memory]), comm.premul_sum(scalar)
        self.assertEqual(len(unfreed), 0)
        self.assertRaisesRegex(cohort.StateError, "was freed", using[0].begin)

    def test_memory_dropped_by_another_thread_is_freed_by_the_next_call(self):
        """Only the owning rank's thread may free the memory."""
        given_back = []
        free = _library.lib.cohort_free

        def spy(comm, address):
            status = free(comm, address)
            if status == cohort.Status.OK:
                given_back.append(address)
            return status

        def worker(comm, box):
            if comm.rank == 0:
                box.append(comm.alloc(4))
                box.append(box[0]._address)
            comm.barrier().wait()
            if comm.rank == 1:
                del box[0]
                gc.collect()
            comm.barrier().wait()
            comm.barrier().wait()
            return box[0] in given_back or comm.rank
        with mock.patch.object(_library.lib, "cohort_free", spy), opened(2) as group:
            self.assertEqual(group.run(worker, []), [True, 1])
            comm = group._comms[0]
            lost = [comm.alloc(2), comm.alloc(2)]
            addresses = [memory._address for memory in lost]
            del lost[0]
        self.assertLessEqual(set(addresses), set(given_back))
        self.assertRaises(cohort.StateError, comm.alloc, 1)
        lost[0].free()
        self.assertEqual(len(given_back), 3)

    def unfreed(self):
        """Return a set that tracks the addresses of memory allocated and not yet freed."""
        addresses = set()
        alloc, free = _library.lib.cohort_alloc, _library.lib.cohort_free

        def allocating(comm, size, cell):
            status = alloc(comm, size, cell)
            addresses.add(cell._obj.value)
            return status

        def freeing(comm, address):
            status = free(comm, address)
            if status == cohort.Status.OK:
                addresses.remove(address)
            return status
        patch = mock.patch.multiple(_library.lib, cohort_alloc=allocating, cohort_free=freeing)
        patch.start()
        self.addCleanup(patch.stop)
        return addresses

    def test_respawn_frees_memory_of_a_failed_worker(self):
        """Needs no garbage collection, because the package's objects form no cycles."""
        def worker(comm):
            memory = comm.alloc(1)
            comm.register(memory)
            with comm.premul_sum(memory):
                if comm.rank:
                    raise KeyError(memory)
                comm.barrier().wait()
        unfreed = self.unfreed()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        with opened(2) as group:
            for _ in range(7):
                try:  # assertRaises() would clear the frames
                    group.run(worker)
                except cohort.WorkerError as error:
                    self.assertIsInstance(error.__cause__, KeyError)
                group.respawn()
            self.assertEqual((len(unfreed), group._former), (0, []))

    def test_close_frees_memory_of_earlier_workers(self):
        """The communicators are part of uncollected garbage."""
        def worker(comm):
            memory = comm.alloc(4)
            memory.cycle = memory
            child = comm.split(0)
            other = child.alloc(4)
            other.cycle = other
            raise KeyError
        unfreed = self.unfreed()
        with opened(2) as group:
            for _ in range(7):
                with self.assertRaises(cohort.WorkerError):
                    group.run(worker)
                group.respawn()
            self.assertGreater(len(unfreed), 0)
            gc.collect()
        self.assertEqual(len(unfreed), 0)

    def test_close_frees_memory_of_a_dropped_split_comm(self):
        unfreed = self.unfreed()
        with opened(2) as group:
            group.run(lambda comm: comm.split(0).alloc(4) and None)
            gc.collect()
        self.assertEqual(len(unfreed), 0)

    def test_close_frees_registered_memory(self):
        with opened(1) as group:
            [comm] = group.split()
            memory = comm.alloc(4)
            comm.register(memory)
        self.assertRaisesRegex(BufferError, "was freed", comm._array, memory, "send", False, None)

    def test_context_of_a_closed_group_cannot_be_entered(self):
        with opened(1) as group:
            [comm] = group.split()
            contexts = [comm.paused(), comm.deadlines(join=5), comm.native(), comm.batch()]
        for context in contexts:
            self.assertRaisesRegex(cohort.StateError, "was closed", context.__enter__)

    def test_bound_comm_of_a_closed_group_raises_but_can_be_closed(self):
        group = opened(1)
        [comm] = group.split()
        comm.bind()
        group.close()
        for call in comm.barrier, comm.unbind, lambda: comm.alloc(1):
            self.assertRaises(cohort.StateError, call)
        comm.close()

    def test_interrupt_between_call_and_ticket_keeps_the_array_alive(self):
        """C has queued the call, but the program never gets a ticket."""
        def interrupted(call):
            def after(*arguments):
                call(*arguments)
                raise KeyboardInterrupt
            return after
        with opened(2) as group:
            first, second = group.split()
            for prepared in (False, True):
                mine = Watched("f", [3.0])
                gone = weakref.ref(mine)
                made = first.prepare_all_reduce(mine) if prepared else None
                with self.assertRaises(KeyboardInterrupt):
                    if made:
                        made._submit = interrupted(made._submit)
                        made()
                    else:
                        first._submit(interrupted(_library.lib.cohort_all_reduce), (mine,),
                                      mine.buffer_info()[0], mine.buffer_info()[0], 1,
                                      cohort.Type.F32, cohort.Op.SUM, 0)
                del mine, made
                gc.collect()
                self.assertIsNotNone(gone())
                second.all_reduce(floats(4)).wait()
                first.synchronize()
                gc.collect()
                self.assertIsNone(gone())
        with opened(1) as group:
            mine = Watched("f", [3.0])
            gone = weakref.ref(mine)
            with self.assertRaises(KeyboardInterrupt):
                group._queue(interrupted(_library.lib.cohort_group_all_reduce), [mine], None,
                             None, cohort.Op.SUM)
            del mine
            gc.collect()
            self.assertIsNotNone(gone())

    def test_interrupted_gather_keeps_its_arrays_alive(self):
        with opened(1) as group:
            [comm] = group.split()
            with cohort.Reducer(comm, [floats(1)], cohort.ReducerOptions(sharded=True)) as reducer:
                mine = Watched("f", [3.0])
                gone = weakref.ref(mine)
                with mock.patch.object(_library, "wait", side_effect=KeyboardInterrupt):
                    self.assertRaises(KeyboardInterrupt, reducer.gather, [mine])
                del mine
                gc.collect()
                self.assertIsNotNone(gone())
            del reducer
            gc.collect()
            self.assertIsNone(gone())

    def test_close_is_refused_while_a_thread_is_in_a_call(self):
        told = []

        def wait(ticket):
            try:
                ticket.wait()
            except cohort.CohortError as error:
                told.append(type(error))

        def waiting(comm):
            thread = threading.Thread(target=wait, args=(comm.all_reduce(floats(1)),))
            thread.start()
            while not comm._count_inside():
                time.sleep(0.001)
            return thread
        with opened(2) as group:
            first, second = group.split()
            thread = waiting(first)
            self.assertRaisesRegex(cohort.StateError, "a thread is inside", group.close)
            second.all_reduce(floats(2)).wait()
            thread.join()
        self.assertRaises(cohort.StateError, second.barrier)
        self.assertEqual(told, [])
        with self.assertRaises(ZeroDivisionError), opened(2) as group:
            first, second = group.split()
            thread = waiting(first)
            print(1 // 0)
        thread.join()
        self.assertEqual(told, [cohort.Aborted])

    def test_refused_call_does_not_keep_its_arrays(self):
        with opened(1) as group:
            [comm] = group.split()
            mine = Watched("f", [3.0])
            gone = weakref.ref(mine)
            made = comm.prepare_all_reduce(mine)
            made().wait()
            comm.fail(7)
            self.assertRaises(cohort.CohortError, made)
            for _ in range(200):
                self.assertRaises(cohort.CohortError, comm.copy, floats(1), floats(2))
            self.assertEqual(len(comm._copies), 0)
            self.assertEqual(len(comm._held), 0)
            del mine, made
            gc.collect()
            self.assertIsNone(gone())

    def test_registered_array_stays_alive(self):
        with opened(1) as group:
            [comm] = group.split()
            for end in ("deregister", "close"):
                mine = Watched("f", [3.0])
                gone = weakref.ref(mine)
                number = comm.register(mine)
                del mine
                gc.collect()
                self.assertIsNotNone(gone())
                if end == "deregister":
                    comm.deregister(number)
                else:
                    comm.close()
                gc.collect()
                self.assertIsNone(gone())

    def test_reducer_dropped_in_a_step_lives_until_the_comm_closes(self):
        with opened(2) as group:
            comms = group.split()
            kept = Watched("f", [1.0])
            gone = weakref.ref(kept)
            reducer = cohort.Reducer(comms[0], [kept])
            reducer.begin()
            reducer.ready(0)  # the bucket is in flight until the other rank calls
            del reducer, kept
            gc.collect()
            self.assertIsNotNone(gone())
            group.abort()
        gc.collect()
        self.assertIsNone(gone())

    def test_reducer_dropped_between_steps_is_freed_by_the_next_call(self):
        with opened(1) as group:
            [comm] = group.split()
            array_of_it = Watched("f", [1.0])
            gone = weakref.ref(array_of_it)
            reducer = cohort.Reducer(comm, [array_of_it])
            del reducer, array_of_it
            comm.barrier().wait()  # the next call frees the reducer
            gc.collect()
            self.assertIsNone(gone())

    def test_refused_close_frees_nothing(self):
        def worker(comm):
            memory = comm.alloc(2)
            for call in group.close, lambda: group.run(worker), group.close:
                with self.assertRaises(cohort.StateError):
                    call()
            comm.all_reduce(memory).wait()
        with opened(2) as group:
            group.run(worker)

    def test_dropped_group_warns_and_is_closed(self):
        with self.assertWarnsRegex(ResourceWarning, "was not closed"):
            group = opened(2)
            comms = group.split()
            comms[0].all_reduce(floats(1))
            del group, comms
            gc.collect()
        self.await_closes()

    def await_closes(self):
        """Wait until other threads have closed all dropped objects."""
        end = time.monotonic() + support.sure()
        while _library._open and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(len(_library._open), 0)

    def test_collecting_a_dropped_group_does_not_block_the_rank(self):
        """The group's devices are busy with a collective that waits for the rank."""
        def worker(comm):
            if comm.rank == 0:
                while not comm.snapshot()[1].started:
                    time.sleep(0.001)
                gc.collect()
            comm.barrier().wait()
        gc.disable()
        self.addCleanup(gc.enable)
        deadlines = cohort.Deadlines(join=5.0, abort=20.0)
        with self.assertWarnsRegex(ResourceWarning, "was not closed"):
            dropped = opened(2, deadlines=deadlines)
            dropped.memory, dropped.cycle = dropped.split()[0].alloc(1), dropped
            del dropped
            with opened(2, deadlines=deadlines) as group:
                group.run(worker)
        self.await_closes()


class Signals(Case):
    """Ctrl-C on the main thread."""

    HEAD = """
import sys, time, threading, cohort
from array import array
group = cohort.Group.open(2, platform="host", deadlines=cohort.Deadlines(abort=20.0))
"""

    def interrupted(self, text, status=0):
        began = time.monotonic()
        out = self.program(self.HEAD + text, status=status,
                           send=lambda process: process.send_signal(signal.SIGINT))
        self.assertLess(time.monotonic() - began, support.sure() / 2)
        return out

    def test_ctrl_c_ends_a_wait(self):
        self.assertIn("heard, in flight: True", self.interrupted("""
first, second = group.split()
ticket = first.all_reduce(array("f", [1]))
try:
    print("waiting", flush=True)
    ticket.wait()
except KeyboardInterrupt:
    print("heard, in flight:", not ticket.done())
group.abort()
group.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
"""))

    def test_ctrl_c_ends_a_run(self):
        out = self.interrupted("""
ends = []
def worker(comm):
    if comm.rank == 0:
        print("waiting", flush=True)
    try:
        if comm.rank == 0:
            comm.barrier().wait()
        while not comm.cause:
            time.sleep(0.001)
    except cohort.Aborted as error:
        ends.append(str(error))
        raise
try:
    group.run(worker)
except KeyboardInterrupt:
    print("heard", group.abandoned, group.cause.kind.name, ends)
group.close()
""")
        self.assertIn("heard [] ABORTED ['aborted: the main thread was interrupted", out)

    def test_ctrl_c_ends_a_host_call(self):
        self.assertIn("heard WorkerError", self.interrupted("""
first, second = group.split()
def tell():
    while not first.snapshot()[0].inside:
        time.sleep(0.001)
    print("waiting", flush=True)
threading.Thread(target=tell).start()
try:
    first.all_reduce_host(array("f", [1]))
except KeyboardInterrupt:
    try:
        second.barrier()
    except cohort.CohortError as error:
        print("heard", type(error).__name__)
group.close()
"""))


    def test_ctrl_c_ends_a_split(self):
        self.assertIn("heard WorkerError", self.interrupted("""
first, second = group.split()
def tell():
    while not first.snapshot()[0].inside:
        time.sleep(0.001)
    print("waiting", flush=True)
threading.Thread(target=tell).start()
try:
    first.split(0)
except KeyboardInterrupt:
    try:
        second.barrier()
    except cohort.CohortError as error:
        print("heard", type(error).__name__)
group.close()
"""))

    def test_ctrl_c_ends_a_join(self):
        """If the join still succeeds, its rank must leave again, and other ranks get an error."""
        self.assertIn("heard WorkerError", self.interrupted("""
group.close()
identity = cohort.unique_id()
options = cohort.Options(platform="host")
begin = cohort._lib.cohort_comm_join
def tell(*arguments):
    print("waiting", flush=True)
    cohort._lib.cohort_comm_join = begin
    return begin(*arguments)
cohort._lib.cohort_comm_join = tell
try:
    cohort.join(identity, 2, 0, 0, options)
except KeyboardInterrupt:
    try:
        with cohort.join(identity, 2, 1, 1, options) as comm:
            comm.barrier().wait()
    except cohort.CohortError as error:
        print("heard", type(error).__name__)
"""))


    def test_close_waits_for_an_interrupted_respawn_or_run(self):
        """Checked for a respawn, and for a run after a second Ctrl-C."""
        for call in "respawn()", "run(print)":
            name = "cohort_group_" + call.split("(", maxsplit=1)[0]
            out = self.interrupted(f"""
lib, closing = cohort._lib, threading.Event()
real, abort = lib.{name}, lib.cohort_group_abort
def slow(*arguments):
    print("waiting", flush=True)
    closing.wait()
    return real(*arguments)
def aborting(*arguments):
    abort(*arguments)
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt("the second")
    closing.set()
lib.{name} = slow
group.abort()
lib.cohort_group_abort = aborting
try:
    try:
        group.{call}
    finally:
        group.close()
except KeyboardInterrupt as error:
    print("heard", group)
""")
            self.assertIn("heard <cohort.Group 'cohort', closed>", out)

    def test_ctrl_c_during_a_close_still_closes_the_group(self):
        """After the interrupted close, every call raises StateError."""
        for ends in ("raise ZeroDivisionError", "pass"):
            out = self.program(f"""
import cohort, threading, time
called, release = threading.Event(), threading.Event()
def slow(verdict):
    called.set()
    release.wait()
def interrupt():
    called.wait()
    while not group._shut:
        time.sleep(0.001)
    print("closing", flush=True)
    threading.Timer(0.1, release.set).start()
try:
    with cohort.Group.open(2, platform="host", on_verdict=slow) as group:
        threading.Thread(target=interrupt).start()
        if {ends == "pass"}:
            group.abort()
        {ends}
except (KeyboardInterrupt, ZeroDivisionError) as error:
    print(type(error).__name__)
try:
    group.size
except cohort.StateError as error:
    print(error)
""", send=lambda process: process.send_signal(signal.SIGINT))
            self.assertIn("KeyboardInterrupt\nthe group was closed", out)


class Interrupted(BaseException):
    """Raised by the simulated signal handler."""


class Instructions(Case):
    """A signal handler that raises before each bytecode instruction of the package."""

    FOLDER = os.path.dirname(cohort.__file__)
    # Functions without side effects, in which no interrupt is tried.
    PURE = {"integer", "nanoseconds", "raw_options", "as_bytes", "_raw", "look"}

    def at_each(self, call, check, step=1):
        """Call call() repeatedly, and interrupt it step instructions later each time."""
        def trace(frame, event, _argument):
            nonlocal left
            frame.f_trace_opcodes = True
            code = frame.f_code
            if event == "opcode" and code.co_name not in self.PURE \
                    and code.co_filename.startswith(self.FOLDER):
                left -= 1
                if not left:
                    raise Interrupted
            return trace
        tries, ended = 0, False
        sys._getframe().f_trace_opcodes = True  # needed before settrace() in Python 3.12
        # Python prints exceptions of destructors; suppress that.
        with mock.patch.object(sys, "unraisablehook", lambda _: None):
            while not ended:
                tries += 1
                left = tries * step
                before = sys.gettrace()
                sys.settrace(trace)
                try:
                    call()
                except Interrupted:
                    pass
                finally:
                    sys.settrace(before)
                ended = left > 0
                check()
        self.assertGreater(tries, 100)

    def spy(self, name, after):
        """Call after(arguments, result) after each call of the C function name."""
        call = getattr(_library.lib, name)

        def spied(*arguments):
            result = call(*arguments)
            after(arguments, result)
            return result
        patch = mock.patch.object(_library.lib, name, spied)
        patch.start()
        self.addCleanup(patch.stop)

    def pair(self, begin, end):
        """Return a list with the number of calls of begin minus the number of calls of end."""
        depth = [0]

        def add(step):
            def after(_arguments, result):
                if result == cohort.Status.OK:
                    depth[0] += step
            return after
        self.spy(begin, add(1))
        self.spy(end, add(-1))
        return depth

    def test_interrupted_code_frees_memory_once(self):
        given = set()

        def check():
            comm.barrier().wait()
            comm._give_back_dropped()
            self.assertEqual(given, set())
            self.assertEqual(comm._count_inside(), 0)
        self.spy("cohort_alloc", lambda arguments, status: given.add(
            arguments[2]._obj.value))
        self.spy("cohort_free", lambda arguments, status: given.remove(arguments[1]))
        with opened(1) as group:
            [comm] = group.split()

            def use():
                memory = comm.alloc(2)
                try:
                    comm.all_reduce(memory).wait()
                finally:
                    comm.synchronize()
                    memory.free()
            self.at_each(use, check)

    def test_interrupted_code_ends_each_context_and_object_once(self):
        pairs = [self.pair(*names) for names in (
            ("cohort_pause", "cohort_resume"),
            ("cohort_deadline_push", "cohort_deadline_pop"),
            ("cohort_comm_native_enter", "cohort_comm_native_leave"),
            ("cohort_premul_sum_create", "cohort_op_destroy"),
            ("cohort_reducer_create", "cohort_reducer_free"))]

        def check():
            comm.barrier().wait()  # no batch may be left open
            self.assertEqual(pairs, [[0]] * len(pairs))

        def enclose():
            with comm.paused(), comm.deadlines(join=5):
                pass
            with comm.native():
                pass
            with comm.batch():
                comm.barrier()
            with comm.premul_sum(2.0):
                pass
            cohort.Reducer(comm, [floats(1)]).free()
        with opened(1) as group:
            [comm] = group.split()
            self.at_each(enclose, check, 3)

    def test_interrupted_code_closes_a_group_once(self):
        depth = self.pair("cohort_group_open", "cohort_group_close")
        groups = []

        def check():
            for group in groups:
                group.close()
                self.assertRaises(cohort.StateError, lambda: group.size)
            groups.clear()
            end = time.monotonic() + support.sure()
            while depth[0] and time.monotonic() < end:  # another thread may be closing the group
                gc.collect()
                time.sleep(0.001)
            self.assertEqual(depth, [0])

        def use():
            with opened(1) as group:
                groups.append(group)
                [comm] = group.split()
                comm.bind()  # makes this thread close the group
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self.at_each(use, check, 5)


class Processes(Case):
    """The exit of the interpreter, and forks."""

    def test_interpreter_exits_with_a_rank_in_a_call(self):
        """The ranks are Python threads, or workers of a run on another thread."""
        out = self.program("""
import cohort, os, threading, time
from array import array
def verdict(verdict):
    pass
groups = [cohort.Group.open(2, platform="host", on_verdict=verdict) for _ in range(3)]
inside = []
# A thread that uses sys.stdout while Python exits may end the process.
threading.excepthook = lambda thrown: os.write(1, thrown.exc_type.__name__.encode() + b"\\n")
def wait(comm):
    inside.append(comm)
    comm.all_reduce(array("f", [1])).wait()
threading.Thread(target=wait, args=(groups[0].split()[0],), daemon=True).start()
def worker(comm):
    inside.append(comm)
    if comm.rank == 0:
        comm.barrier().wait()
    time.sleep(100 if comm.rank else 0.1)
cohort._library.EXIT_S = 0.5  # shortens the wait for the worker at exit
threading.Thread(target=groups[1].run, args=(worker,), daemon=True).start()
def host(comm):
    inside.append(comm)
    comm.all_reduce_host(array("f", [1]))
threading.Thread(target=host, args=(groups[2].split()[1],), daemon=True).start()
while len(inside) < 4:
    time.sleep(0.001)
print("ends", flush=True)
""").splitlines()
        self.assertEqual(out[0], "ends")
        self.assertLessEqual(set(out[1:]), {"Aborted"})  # the exception of threads that still run

    def test_interpreter_exit_waits_for_program_threads(self):
        """Python joins non-daemon threads before it exits."""
        self.assertEqual(self.program("""
import cohort, sys, threading, time
from array import array
group = cohort.Group.open(2, platform="host")
def rank(comm):
    x = array("f", [comm.rank])
    time.sleep(0.05)
    comm.all_reduce(x).wait()
    sys.stdout.write(f"{x[0]}\\n")
for comm in group.split():
    threading.Thread(target=rank, args=(comm,)).start()
"""), "1.0\n1.0\n")

    def test_sys_exit_in_a_worker_fails_its_rank(self):
        out = self.program("""
import sys, cohort
def worker(comm):
    if comm.rank == 1:
        sys.exit(3)
    comm.barrier().wait()
with cohort.Group.open(2, platform="host") as group:
    try:
        group.run(worker)
    except cohort.WorkerError as error:
        print(error.rank, repr(error.__cause__))
""")
        self.assertEqual(out, "1 SystemExit(3)\n")

    @unittest.skipIf("libasan" in os.environ.get("LD_PRELOAD", ""),
                     "another thread may have AddressSanitizer's allocator locked at a fork")
    def test_child_of_a_fork_gets_forked(self):
        """Both processes must still be able to exit."""
        self.assertEqual(self.program("""
import cohort, os, sys
from array import array
with cohort.Group.open(2, platform="host") as group:
    first, second = group.split()
    ticket = first.all_reduce(array("f", [1]))
    memory = second.alloc(3)
    handle = first.abort_handle()
    child = os.fork()
    if not child:
        try:
            handle.fire()
        except cohort.Forked as error:
            assert "fork" in str(error), error
        for call in (lambda: first.barrier(), lambda: cohort.Group(2),
                     lambda: group.run(print), lambda: ticket.wait(),
                     lambda: group.respawn(), lambda: first.abort_handle()):
            try:
                call()
            except cohort.Forked:
                continue
            os._exit(1)
        group.close()
        del memory
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    second.all_reduce(array("f", [1])).wait()
    ticket.wait()
    print("both end")
"""), "both end\n")

    @unittest.skipIf("libasan" in os.environ.get("LD_PRELOAD", ""),
                     "another thread may have AddressSanitizer's allocator locked at a fork")
    def test_child_of_a_fork_in_a_worker_can_exit(self):
        """The child inherits the record that the main thread is in run()."""
        self.assertEqual(self.program("""
import cohort, os
def worker(comm):
    if comm.rank == 0:
        child = os.fork()
        if not child:
            group.close()
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with cohort.Group.open(2, platform="host") as group:
    print(group.run(worker)[0])
"""), "5\n")


class Fixture(Case):
    """The pytest plugin."""

    def test_fixture_works_with_pytest(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("no pytest")
        import subprocess
        import sys
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_it.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("""
import cohort, pytest
from cohort.testing import Fault

def train(comm):
    for _ in range(3):
        comm.barrier().wait()

def test_hang(simulated_group):
    group = simulated_group(3, Fault("stuck", rank=2, operation=1),
                            deadlines=cohort.Deadlines(join=1.0, exec=1.0))
    with pytest.raises(cohort.Stalled) as caught:
        group.run(train)
    assert caught.value.rank == 2

def test_left_open(simulated_group):
    simulated_group(2, Fault("never", rank=0, operation=7)).split()

def test_faults_are_gone(simulated_group):
    simulated_group(2).run(lambda comm: [comm.barrier().wait() for _ in range(9)])
""")
            subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "cohort.testing",
                            "-p", "no:cacheprovider", path], check=True, cwd=folder,
                           env=dict(os.environ, PYTHONPATH=os.path.abspath(
                               os.path.join(support.HERE, "..")), LD_LIBRARY_PATH=os.path
                               .abspath(os.environ.get("LD_LIBRARY_PATH", "."))),
                           )

    def test_fixture_closes_its_groups_without_pytest(self):
        for group in testing._groups():
            opened_group = group(2, Fault("delay", rank=0, seconds=0.001))
            opened_group.run(lambda comm: comm.barrier().wait())
        self.assertEqual(len(_library._open), 0)


if __name__ == "__main__":
    unittest.main()
