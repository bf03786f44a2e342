# SPDX-License-Identifier: Apache-2.0
"""Test every call of the package, with arrays from Python's standard library."""

import dataclasses
import functools
import json
import os
import struct
import tempfile
import threading
import unittest
from array import array
from unittest import mock

import support
from support import Case, floats, opened

import cohort
from cohort import _abi, _library, _options


class Abi(Case):
    """Hand-written classes must match the C API."""

    def test_each_failing_status_has_an_exception_class(self):
        from cohort import _errors
        for status in cohort.Status:
            if status < 0:
                self.assertEqual(
                    type(_errors.error_of(status, "")),
                    _errors.CLASSES[status])

    def test_option_classes_have_all_fields_of_c(self):
        fields = {field.name for field in dataclasses.fields(cohort.Options)}
        wanted = {_options.TIMES.get(name, name)
                  for name, *_ in _abi.cohort_group_options._fields_}
        wanted -= {"size", "user", "reserved"}
        self.assertEqual(fields, wanted)
        fields = {field.name for field in dataclasses.fields(cohort.ReducerOptions)}
        wanted = {name for name, *_ in _abi.cohort_reducer_options._fields_}
        self.assertEqual(fields, wanted - {"size", "reserved"})
        fields = {field.name for field in dataclasses.fields(cohort.Deadlines)}
        wanted = {name[:-3] for name, *_ in _abi.cohort_deadlines._fields_
                  if name.endswith("_ns")}
        self.assertEqual(fields, wanted)

    def test_result_classes_have_all_fields_of_c(self):
        for ours, theirs in ((cohort.Cause, _abi.cohort_cause),
                             (cohort.RankReport, _abi.cohort_rank_report),
                             (cohort.Verdict, _abi.cohort_verdict),
                             (cohort.Process, _abi.cohort_process),
                             (cohort.PlatformInfo, _abi.cohort_platform_info)):
            have = [field.name for field in dataclasses.fields(ours)
                    if field.name != "python"]  # this field is from the interpreter, not from C
            want = [name for name, *_ in theirs._fields_
                    if name not in ("size", "reserved", "rank_size")]
            self.assertEqual(sorted(have), sorted(want), ours)

    def test_every_c_function_is_used(self):
        """The list has the functions that are unused on purpose."""
        text = ""
        folder = os.path.dirname(cohort.__file__)
        for name in os.listdir(folder):
            if name.endswith(".py") and name != "_abi.py":
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text += file.read()
        unused = {name for name in _abi.FUNCTIONS if name not in text}
        self.assertEqual(unused, {
            # Not needed: options start zeroed, and Python has its own enumeration names.
            "cohort_group_options_init", "cohort_reducer_options_init",
            "cohort_status_name", "cohort_verdict_text",
            # Not offered, because it is for one thread with memory on all devices.
            "cohort_group_copy"})


class Aside(Case):
    """Calls that aside() makes on another thread."""

    def test_aside_reraises_in_the_caller(self):
        raised = []

        def call():
            try:
                _library.aside(lambda: 1 // 0, print)
            except ZeroDivisionError as error:
                raised.append(error)
        call()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        self.assertEqual(len(raised), 2)


class Spelled:
    """A fake array with __array_interface__, from which lacks removes one entry."""

    def __init__(self, shape, lacks=None):
        self.__array_interface__ = {"shape": shape, "typestr": "<f4", "data": (4096, False),
                                    "version": 3}
        self.__array_interface__.pop(lacks, None)


class Collectives(Case):
    """Each collective, on two ranks."""

    @classmethod
    def setUpClass(cls):
        cls.group = opened(2)

    @classmethod
    def tearDownClass(cls):
        cls.group.close()

    def ranks(self, worker):
        return self.group.run(worker)

    def test_all_reduce_combines_all_ranks(self):
        def worker(comm):
            x = floats(1 + comm.rank, 10)
            comm.all_reduce(x).wait()
            y = floats(0, 0)
            ticket = comm.all_reduce(x, y, op="max", stream=comm.stream)
            ticket.wait(support.sure())
            self.assertTrue(ticket.done())
            return x.tolist(), y.tolist()
        self.assertEqual(self.ranks(worker), [([3, 20], [3, 20])] * 2)

    def test_prepared_calls_run_repeatedly(self):
        def worker(comm):
            x = floats(comm.rank + 1)
            call = comm.prepare_all_reduce(x)
            call().wait()
            call.run()
            comm.prepare_all_reduce_host(x, op="max").run()
            return x[0]
        self.assertEqual(self.ranks(worker), [6.0, 6.0])
        with opened(1) as group:  # here, calls run on the main thread
            [comm] = group.split()
            x = floats(3)
            comm.prepare_all_reduce(x).run()
            comm.prepare_all_reduce_host(x).run()
            self.assertEqual(x[0], 3)

    def test_main_thread_waits_for_a_call_on_host_memory_in_slices(self):
        """Between two slices, Python checks for signals."""
        with opened(2) as group:
            first, second = group.split()
            mine, theirs = floats(1), floats(2)
            waits, started = threading.Semaphore(0), threading.Event()

            def again(*arguments):
                waits.release()
                return wait(*arguments)

            def aside(*arguments):
                started.set()
                return on_thread(*arguments)

            def other():
                waits.acquire()
                waits.acquire()
                second.all_reduce_host(theirs)  # the last one in which first has not timed out
                started.wait()
                for _ in range(2):
                    second.all_reduce_host(theirs)
            thread = threading.Thread(target=other)
            thread.start()
            wait, on_thread = cohort._lib.cohort_wait_host, first._interruptible
            with mock.patch.object(cohort._lib, "cohort_wait_host", again), \
                    mock.patch.object(first, "_interruptible", aside):
                first.all_reduce_host(mine)
                self.assertEqual(mine[0], 3)
                with self.assertRaises(cohort.TimedOut):
                    first.all_reduce_host(mine, timeout=0.001)
                mine[0] = 4  # 3 + 3, then 4 + 6
                first.all_reduce_host(mine)  # first waits for the call that has timed out
                self.assertEqual(mine[0], 10)
            thread.join()

    def test_broadcast_and_reduce_use_the_root(self):
        def worker(comm):
            x = array("q", [comm.rank, 7])
            comm.broadcast(x, root=1).wait()
            y = array("q", [comm.rank + 2, 1])
            comm.reduce(y, op=cohort.Op.PROD, root=0).wait()
            return x.tolist(), y.tolist()
        self.assertEqual(self.ranks(worker), [([1, 7], [6, 1]), ([1, 7], [3, 1])])

    def test_collectives_with_a_block_per_rank(self):
        def worker(comm):
            part, whole = floats(comm.rank, 5), floats(0, 0, 0, 0)
            comm.all_gather(part, whole).wait()
            piece = floats(0, 0)
            comm.reduce_scatter(whole, piece).wait()
            gathered = floats(0, 0, 0, 0) if comm.rank == 1 else None
            comm.gather(part, gathered, root=1).wait()
            mine = floats(0, 0)
            comm.scatter(floats(1, 2, 3, 4) if comm.rank == 0 else None, mine).wait()
            crossed = floats(0, 0)
            comm.all_to_all(floats(10 * comm.rank, 10 * comm.rank + 1), crossed).wait()
            return [list(x) if x else x for x in (whole, piece, gathered, mine, crossed)]
        self.assertEqual(self.ranks(worker), [
            [[0, 5, 1, 5], [0, 10], None, [1, 2], [0, 10]],
            [[0, 5, 1, 5], [2, 10], [0, 5, 1, 5], [3, 4], [1, 11]]])

    def test_many_calls_take_lists_of_arrays(self):
        def worker(comm):
            a, b, c = floats(1, 2), array("i", [comm.rank]), array("i", [0])
            comm.all_reduce_many([a, (b, c)]).wait()
            comm.broadcast_many([a, b], root=1).wait()
            return list(a), list(b), list(c)
        self.assertEqual(self.ranks(worker), [([2, 4], [1], [1])] * 2)

    def test_batched_sends_and_receives_share_a_ticket(self):
        def worker(comm):
            mine, theirs = floats(comm.rank), floats(9)
            with comm.batch() as batch:
                comm.send(mine, 1 - comm.rank)
                comm.recv(theirs, 1 - comm.rank)
            batch.ticket.wait()
            with self.assertRaises(ZeroDivisionError):
                with comm.batch():
                    comm.all_reduce(mine)
                    raise ZeroDivisionError
            comm.barrier().wait()
            return theirs[0], mine[0]
        self.assertEqual(self.ranks(worker), [(1.0, 0.0), (0.0, 1.0)])

    def test_premul_sum_scales_each_ranks_input(self):
        def worker(comm):
            x, y = floats(1, 2), floats(1, 2)
            with comm.premul_sum(comm.rank + 0.5) as scaled:
                comm.all_reduce(x, op=scaled).wait()
            with comm.premul_sum(floats(2)) as scaled:
                comm.all_reduce(y, op=scaled).wait()
            return list(x), list(y)
        self.assertEqual(self.ranks(worker), [([2, 4], [4, 8])] * 2)

    def test_host_calls_work_on_host_memory(self):
        def worker(comm):
            x = floats(comm.rank, 1)
            comm.all_reduce_host(x)
            comm.broadcast_host(x, root=1, timeout=support.sure())
            comm.reduce_host(x, root=1)
            whole, part = floats(0, 0), floats(comm.rank)
            comm.all_gather_host(part, whole)
            comm.reduce_scatter_host(whole, part)
            at_root = floats(0, 0) if comm.rank == 0 else None
            comm.gather_host(part, at_root)
            comm.scatter_host(at_root, part)
            crossed = floats(0, 0)
            comm.all_to_all_host(whole, crossed)
            if comm.rank == 0:
                comm.send_host(whole, 1)
            else:
                comm.recv_host(crossed, 0)
            return list(whole), list(part), list(crossed)
        self.assertEqual(self.ranks(worker), [([0, 1], [0], [0, 0]), ([0, 1], [2], [0, 1])])

    def test_alloc_returns_usable_device_memory(self):
        def worker(comm):
            with comm.alloc((2, 3)) as memory, comm.alloc(6, registered=True) as other:
                comm.copy(memory, floats(*range(6)))
                number = comm.register(memory)
                comm.all_reduce(memory, other).wait()
                comm.deregister(number)
                back = floats(*[0] * 6)
                comm.copy(back, other)
                comm.synchronize()
                return back.tolist()
        self.assertEqual(self.ranks(worker), [[0, 2, 4, 6, 8, 10]] * 2)

    def test_split_makes_communicators_by_color(self):
        def worker(comm):
            self.assertIsNone(comm.split(None))
            with comm.split(0, key=-comm.rank) as child:
                x = array("i", [comm.rank])
                child.broadcast(x, root=0).wait()
                self.assertEqual([child.group_rank(rank) for rank in range(-1, 3)],
                                 [-1, 1, 0, -1])
                with self.assertRaises(ValueError):
                    child.group_rank(1 << 32)
                return child.rank, child.origin, x[0]
        self.assertEqual(self.ranks(worker), [(1, 0, 1), (0, 1, 1)])

    def test_subset_makes_a_communicator_of_its_members(self):
        identity = cohort.unique_id()

        def worker(comm):
            with self.assertRaises(ValueError):
                comm.subset([comm.rank], b"short")
            with self.assertRaisesRegex(cohort.Invalid, "ranks does not contain"):
                comm.subset([1 - comm.rank], identity)
            comm.barrier().wait()
            with comm.subset([1, 0], identity, "back") as child:
                x = array("i", [comm.rank])
                child.broadcast(x, root=0).wait()
                return child.rank, child.origin, x[0]
        self.assertEqual(self.ranks(worker), [(1, 0, 1), (0, 1, 1)])

    def test_facts_of_comm_and_group(self):
        def worker(comm):
            with comm.deadlines(join=100.0), comm.paused():
                comm.tag("here")
                comm.barrier().wait()
            stats = comm.stats()
            self.assertGreater(stats["collectives"], 0)
            self.assertEqual(len(stats["verdicts"]), 32)
            self.assertIn("here", [report.tag for report in comm.snapshot()])
            with cohort.quiet(), comm.native() as native:
                self.assertTrue(native)
            comm.barrier().after(comm.stream)
            comm.after_stream(0)
            comm.synchronize()
            return comm.rank, comm.size, comm.device, comm.generation, comm.origin
        self.assertEqual(self.ranks(worker), [(0, 2, 0, 1, 0), (1, 2, 1, 1, 1)])
        self.assertEqual(self.group.devices, [0, 1])
        self.assertEqual((self.group.process, len(self.group.processes)), (0, 1))
        self.assertEqual(len(self.group.snapshot()), 2)
        with tempfile.TemporaryDirectory() as folder:
            self.group.dump(folder)
            self.assertEqual(len(os.listdir(folder)), 4)

    def test_worker_whose_call_runs_nothing_raises(self):
        """An async or generator function, also in a partial or as the call of an object."""
        async def asynchronous(comm):
            comm.barrier()

        def generator(comm):
            yield comm.barrier()

        async def asynchronous_generator(comm):
            yield comm.barrier()

        class Called:
            async def __call__(self, comm):
                comm.barrier()
        for worker in (asynchronous, generator, asynchronous_generator,
                       functools.partial(generator), Called()):
            with self.assertRaisesRegex(TypeError, "worker is .*, an async or generator function, "
                                                   "which runs nothing when it is called"):
                self.group.run(worker)

    def test_wrong_argument_raises_and_is_named(self):
        """Each error names the argument and has no effect."""
        def worker(comm):
            x = floats(1, 2)
            for kind, words, call in (
                    (TypeError, "send is a list", lambda: comm.all_reduce([1.0])),
                    (TypeError, "'c' of 1 bytes",
                     lambda: comm.all_reduce(memoryview(bytearray(1)).cast("c"))),
                    (cohort.Invalid, "type is int16, which cannot be reduced, only moved",
                     lambda: comm.all_reduce(array("h", [1]))),
                    (TypeError, "recv has elements of I32, and send of F32",
                     lambda: comm.all_reduce(x, array("i", [1, 2]))),
                    (ValueError, "recv has 2 elements, and send 2: the counts must be 2 to 1",
                     lambda: comm.all_gather(x, floats(1, 2))),
                    (TypeError, "recv is None", lambda: comm.all_gather(x, None)),
                    (TypeError, "recv is None", lambda: comm.reduce_scatter(x, None)),
                    (TypeError, "array 0: send is a NoneType", lambda: comm.all_reduce_many([None])),
                    (BufferError, "send is read-only",
                     lambda: comm.all_reduce(memoryview(x).toreadonly())),
                    (BufferError, "send is not contiguous",
                     lambda: comm.all_reduce(memoryview(floats(1, 2, 3, 4))[::2])),
                    (ValueError, "op is 'mean'", lambda: comm.all_reduce(x, op="mean")),
                    (cohort.Invalid, "root is 5", lambda: comm.broadcast(x, root=5)),
                    (ValueError, "-1 seconds", lambda: comm.synchronize(-1)),
                    (TypeError, "stream is a str", lambda: comm.all_reduce(x, stream="s")),
                    (TypeError, "type is 'float31'", lambda: comm.alloc(1, "float31")),
                    (TypeError, "root is '0'", lambda: comm.broadcast(x, root="0")),
                    (ValueError, "root is 4294967296", lambda: comm.reduce_host(x, root=2**32)),
                    (ValueError, "peer is 4294967297", lambda: comm.send(x, 2**32 + 1)),
                    (TypeError, "color is 0.5", lambda: comm.split(0.5)),
                    (TypeError, "timeout is '1'", lambda: comm.synchronize("1")),
                    (TypeError, "text is 5", lambda: comm.tag(5)),
                    (ValueError, r"text is 'a\x00b', which contains a NUL character",
                     lambda: comm.tag("a\0b")),
                    (ValueError, "code is 4294967296", lambda: comm.fail(2**32)),
                    (ValueError, "shape is -1", lambda: comm.alloc((2, -1))),
                    (TypeError, "shape is 2.5", lambda: comm.alloc(2.5)),
                    (ValueError, "shape is (4611686018427387905,): its size",
                     lambda: comm.alloc(2**62 + 1)),
                    (TypeError, "parameters[0].name is 5",
                     lambda: cohort.Reducer(comm, [cohort.Parameter(5, x)])),
                    (ValueError, "bucket_bytes is -1",
                     lambda: cohort.Reducer(comm, [x], cohort.ReducerOptions(
                         bucket_bytes=-1))),
                    (ValueError, f"stream is {2**100}, which is out of range",
                     lambda: comm.all_reduce(x, stream=2**100)),
                    (ValueError, "stream is -1", lambda: comm.barrier(stream=-1)),
                    (TypeError, "stream is True", lambda: comm.barrier(stream=True)),
                    (TypeError, "root is True", lambda: comm.broadcast(x, root=True)),
                    (TypeError, "op is 1.0", lambda: comm.all_reduce(x, op=1.0)),
                    (TypeError, "type is True", lambda: comm.alloc(1, True)),
                    (TypeError, "shape is b'1'", lambda: comm.alloc(b"1")),
                    (ValueError, "color is -1: give None", lambda: comm.split(-1)),
                    (ValueError, f"number is {2**64}", lambda: cohort.Ticket(comm, 2**64)),
                    (ValueError, f"registration is {2**64}", lambda: comm.deregister(2**64)),
                    (ValueError, "scalar is 300", lambda: comm.premul_sum(300, "int8")),
                    (TypeError, "scalar is True", lambda: comm.premul_sum(True)),
                    (TypeError, "timeout is True", lambda: comm.synchronize(True)),
                    (ValueError, "timeout is nan", lambda: comm.synchronize(float("nan"))),
                    (ValueError, "recv: its number of bytes is",
                     lambda: comm.copy(Spelled((2**40, 2**40)), Spelled((2**40, 2**40)))),
                    (ValueError, "send.shape is -2",
                     lambda: comm.all_reduce(Spelled((-2, -3)))),
                    (TypeError, "send has an incomplete array interface",
                     lambda: comm.all_reduce(Spelled((1,), "data"))),
                    (ValueError, "sharded is -1", lambda: cohort.Reducer(
                        comm, [x], cohort.ReducerOptions(sharded=-1))),
                    (TypeError, "options is {}, not cohort.ReducerOptions",
                     lambda: cohort.Reducer(comm, [x], {}))):
                with self.assertRaises(kind) as caught:
                    call()
                self.assertIn(words, str(caught.exception))
            with cohort.Reducer(comm, [floats(1)]) as reducer:
                for call in reducer.ready, reducer.used, reducer.bucket, reducer.shard:
                    for i in 1, -1, 2**64:
                        with self.assertRaises((IndexError, ValueError)):
                            call(i)
            comm.synchronize(1e300)
            comm.synchronize(10**400)
            comm.all_reduce(x).wait()
            return list(x)
        self.assertEqual(self.ranks(worker), [[2, 4]] * 2)


class Groups(Case):
    """Groups, and other ways to get communicators."""

    def test_group_collectives_from_one_thread(self):
        with opened(3) as group:
            arrays = [floats(rank) for rank in range(3)]
            group.wait(group.all_reduce(arrays))
            group.wait(group.broadcast([None, floats(7), None], [
                floats(0) for _ in range(3)], root=1), support.sure())
            self.assertEqual([x[0] for x in arrays], [3, 3, 3])
            with self.assertRaisesRegex(ValueError, "root is 3, not 0 to 2"):
                group.broadcast(arrays, root=3)
            with self.assertRaisesRegex(ValueError, "send has 1 arrays, not 3"):
                group.all_reduce([floats(1)])

    def test_split_communicators_work_on_program_threads(self):
        sums = []

        def rank(comm):
            comm.bind()
            x = floats(comm.rank)
            comm.all_reduce(x).wait()
            sums.append(x[0])
            comm.unbind()
        with opened([1, 3]) as group:
            threads = [threading.Thread(target=rank, args=(comm,)) for comm in group.split()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(group.devices, [1, 3])
        self.assertEqual(sums, [1.0, 1.0])
        self.assertRaises(cohort.StateError, lambda: group.size)

    def test_ranks_join_by_id(self):
        identity, sums = cohort.unique_id(), []

        def rank(number):
            with cohort.join(identity, 2, number, number,
                             cohort.Options(platform="host")) as comm:
                x = floats(number, 1)
                comm.all_reduce(x).wait()
                sums.append(list(x))
        threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sums, [[1, 2], [1, 2]])

    def test_processes_bootstrap_by_an_allgather(self):
        """Two processes exchange data through pipes."""
        if hasattr(_library.lib, "__asan_init"):
            self.skipTest("a sanitizer's memory cannot be shared")
        if "TEST_QEMU" in os.environ:
            self.skipTest("QEMU has no room for the memory of other processes")
        text = """
import sys, cohort, threading, os
from array import array
number, into, out = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
def allgather(data):
    os.write(out, data)
    other = b""
    while len(other) < len(data):
        other += os.read(into, len(data) - len(other))
    return [data, other] if number == 0 else [other, data]
def worker(comm):
    x = array("f", [comm.rank])
    comm.all_reduce(x).wait()
    return comm.rank, comm.size, x[0]
with cohort.Group.open([number], bootstrap=cohort.Table(number, 2, allgather)) as group:
    print(group.run(worker), group.process, [p.ranks for p in group.processes])
"""
        import subprocess
        import sys
        a, b = os.pipe(), os.pipe()
        environment = dict(os.environ, COHORT_HOST_SHARED="1")
        started = [subprocess.Popen(
            [sys.executable, "-c", text, str(number), str(ends[0]), str(ends[1])],
            pass_fds=ends, env=environment, stdout=subprocess.PIPE, text=True)
            for number, ends in enumerate(((a[0], b[1]), (b[0], a[1])))]
        said = [process.communicate(timeout=support.sure())[0] for process in started]
        for end in a + b:
            os.close(end)
        self.assertEqual(said, ["[(0, 2, 1.0)] 0 [1, 1]\n", "[(1, 2, 1.0)] 1 [1, 1]\n"])

    def test_bad_allgather_result_fails_the_open(self):
        printed = []
        hook, threading.excepthook = threading.excepthook, printed.append
        try:
            for answer in None, [b"short"], ["x" * 64], [5], 7:
                with self.assertRaisesRegex(cohort.SystemFailure, "req_test returned -1"):
                    opened([0], bootstrap=cohort.Table(0, 1, lambda _, answer=answer: answer))
        finally:
            threading.excepthook = hook
        self.assertEqual(len(printed), 5)

    def test_bad_option_raises_and_is_named(self):
        for words, options in (("bootstrap is 'pmi'", {"bootstrap": "pmi"}),
                               ("platform is 'tpu'", {"platform": "tpu"}),
                               ("-3 seconds", {"deadlines": cohort.Deadlines(join=-3)})):
            with self.assertRaisesRegex(ValueError, words):
                cohort.Group.open(2, **options)
        for words, options in (("name is 5", {"name": 5}),
                               ("policy is 'ask'", {"policy": "ask"}),
                               ("deadlines is 5", {"deadlines": 5}),
                               ("deadlines.join is '3'",
                                {"deadlines": cohort.Deadlines(join="3")}),
                               ("nccl_config is 5", {"nccl_config": 5}),
                               ("on_verdict is 5", {"on_verdict": 5})):
            with self.assertRaisesRegex(TypeError, words):
                cohort.Group.open(2, platform="host", **options)
        for words, devices in (("devices is 4294967298", 2**32 + 2),
                               (r"devices\[1\] is 4294967296", [0, 2**32])):
            with self.assertRaisesRegex(ValueError, words):
                cohort.Group(devices)
        for devices in "01", None, 2.0:
            with self.assertRaisesRegex(TypeError, "devices is"):
                cohort.Group(devices)
        with self.assertRaisesRegex(TypeError, "options is {'name': 'x'}"):
            cohort.Group(2, {"name": "x"})
        with self.assertRaisesRegex(TypeError, "size is '1'"):
            cohort.join(cohort.unique_id(), "1", 0, 0)
        with self.assertRaisesRegex(cohort.Invalid, "recorder_slots is 5"):
            cohort.Group.open(2, platform="host", recorder_slots=5)
        with mock.patch.dict(os.environ), \
                self.assertRaisesRegex(cohort.Invalid, 'options->log is "nonne"'):
            os.environ.pop("COHORT_LOG", None)  # the variable would override the option
            cohort.Group.open(2, platform="host", log="nonne")

    def test_nccl_config_is_passed_on_or_refused(self):
        undefined = -2**31
        data = struct.pack("=QIIiiii", 32, 0xcafebeef, 21700, 1, undefined, 2, 4)
        with cohort.Group.open(2, platform="host", nccl_config=data) as group:
            self.assertEqual(len(group.split()), 2)
        with self.assertRaisesRegex(cohort.Invalid, "nccl_config->blocking is 0"):
            cohort.Group.open(2, platform="host",
                              nccl_config=data[:16] + bytes(4) + data[20:])
        with self.assertRaisesRegex(ValueError, "nccl_config has 31 bytes, but its size field says 32"):
            cohort.Group.open(2, platform="host", nccl_config=data[:-1])
        with self.assertRaisesRegex(ValueError, "nccl_config has 0 bytes"):
            cohort.Group.open(2, platform="host", nccl_config=b"")

    def test_probe_finds_the_host_platform(self):
        found = cohort.probe(cohort.Platform.HOST)
        self.assertEqual((found.status, found.reason), (cohort.Status.OK, ""))

    def test_gpu_platform_works_with_the_drop_in_libraries(self):
        """Skipped unless the drop-in libraries are next to the library."""
        folder = next((os.path.join(path, "drop-in") for path in
                       os.environ.get("LD_LIBRARY_PATH", "").split(":")
                       if os.path.isdir(os.path.join(path, "drop-in"))), None)
        if not folder:
            self.skipTest("no drop-in libraries")
        out = self.program(f"""
import os
import struct
os.environ.update(COHORT_PLATFORM="gpu", COHORT_GPU_LIBRARIES={os.path.abspath(folder)!r})
import cohort
from array import array
def worker(comm):
    x = array("f", [comm.rank, 1])
    try:
        comm.all_reduce(x)
    except BufferError as error:
        print(error)
    with comm.alloc(2) as memory:
        assert memory.__cuda_array_interface__["shape"] == (2,)
        comm.copy(memory, x)
        comm.all_reduce(memory).wait()
        comm.copy(x, memory)
        comm.synchronize()
    comm.all_reduce_host(x)
    return list(x)
with cohort.Group(2) as group:
    print(group.platform.name, group.run(worker))
""")
        self.assertIn("send is in host memory; use the call with _host", out)
        self.assertIn("GPU [[2.0, 4.0], [2.0, 4.0]]", out)


class Reducers(Case):
    """The reducer without PyTorch."""

    def test_reducer_averages_gradients_of_each_step(self):
        def worker(comm):
            a, b = floats(comm.rank, 1), floats(2)
            options = cohort.ReducerOptions(find_unused=True)
            with cohort.Reducer(comm, [a, cohort.Parameter("b", b),
                                       cohort.Parameter("own", count=3)],
                                options) as reducer:
                view = reducer.view(2)
                comm.copy(view, floats(1, 1, 1))
                comm.synchronize()
                self.assertEqual(view.__array_interface__["shape"], (3,))
                with reducer.step() as step:
                    for i in (2, 1, 0):
                        self.assertTrue(reducer.ready(i))
                    self.assertFalse(reducer.ready(0))
                    self.assertTrue(reducer.progress())
                self.assertTrue(step.ok)
                self.assertEqual((list(a), list(b)), ([0.5, 1], [2]))
                self.assertEqual(reducer.shard(0), slice(0, 2))
                self.assertGreater(reducer.buckets, 0)
                self.assertGreaterEqual(reducer.bucket(1), 0)
                reducer.accumulate()
                for i in range(3):
                    reducer.ready(i)
                self.assertTrue(reducer.finish())
                reducer.begin()
                reducer.ready(0)
                self.assertTrue(reducer.finish())
                self.assertEqual((reducer.used(0), reducer.used(1)), (True, False))
                # If one rank fails in its step, no rank may update its weights.
                if comm.rank:
                    with self.assertRaises(ZeroDivisionError):
                        with reducer.step():
                            raise ZeroDivisionError
                else:
                    with reducer.step() as step:
                        reducer.ready(0)
                    self.assertFalse(step.ok)
            with self.assertRaises(cohort.StateError):
                reducer.begin()
            return True
        with opened(2) as group:
            self.assertEqual(group.run(worker), [True, True])

    def test_error_names_the_gradient_that_is_not_ready(self):
        def worker(comm):
            with cohort.Reducer(comm, [floats(1), cohort.Parameter("b", floats(2))]) as reducer:
                with reducer.step():
                    reducer.ready(0)
        with opened(2) as group:
            with self.assertRaisesRegex(cohort.WorkerError, "gradients are not ready: 'b'"):
                group.run(worker)

    def test_rank_without_batches_joins_weighted_steps(self):
        def worker(comm):
            g, steps = floats(0), []
            options = cohort.ReducerOptions(weighted=True)
            with cohort.Reducer(comm, [g], options) as reducer:
                for step in range(1 + comm.rank):
                    g[0] = 1 + 2 * comm.rank
                    with reducer.step(weight=1 + 2 * comm.rank):
                        reducer.ready(0)
                    steps.append(g[0])
                while True:
                    joined = reducer.join()
                    if joined is None:
                        return steps
                    steps.append(g[0])
        with opened(2) as group:
            self.assertEqual(group.run(worker), [[2.5, 3.0]] * 2)

    def test_gather_collects_shards_of_a_sharded_reducer(self):
        def worker(comm):
            g, w = floats(1, 2, 3, 4), floats(0, 0, 0, 0)
            with cohort.Reducer(comm, [g], cohort.ReducerOptions(sharded=True)) as reducer:
                with reducer.step():
                    reducer.ready(0)
                mine = reducer.shard(0)
                w[mine] = g[mine]
                reducer.gather([w])
            return list(w)
        with opened(2) as group:
            self.assertEqual(group.run(worker), [[1, 2, 3, 4]] * 2)


class Declarations(Case):
    def setUp(self):
        path = os.path.join(os.path.dirname(__file__), "..", "..", "cohort_abi.json")
        with open(path, encoding="utf-8") as file:
            self.abi = json.load(file)

    def test_cohort_struct_size_knows_every_struct(self):
        size_of = _library.lib.cohort_struct_size
        for struct in self.abi["structs"]:
            name = struct["name"]
            self.assertEqual(size_of(name.encode()), struct.get("size", 0), name)
        self.assertEqual(size_of(b"cohort_none"), 0)
        self.assertEqual(size_of(None), 0)

    def test_import_fails_if_a_struct_size_differs(self):
        out = self.program('''
import ctypes
real = ctypes.sizeof
ctypes.sizeof = lambda kind: real(kind) + 8 * (kind.__name__ == "cohort_tensor")
try:
    import cohort
except ImportError as error:
    print(error)
''')
        self.assertIn("struct cohort_tensor has 40 bytes in cohort ", out)
        self.assertIn(", and 32 in ", out)


if __name__ == "__main__":
    unittest.main()
