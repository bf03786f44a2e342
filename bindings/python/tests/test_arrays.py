# SPDX-License-Identifier: Apache-2.0
"""Test arrays of NumPy and PyTorch, and fake arrays with DLPack or the CUDA interface."""

import copy
import ctypes
import os
import sys
import threading
import unittest
from types import SimpleNamespace
from unittest import mock

import support
from support import Case, floats, numpy, opened, sure, torch

import cohort
from cohort import _arrays
from cohort._abi import Status
from cohort._library import lib


class Capsule:
    """A fake DLPack array; each test chooses its contents."""

    def __init__(self, place=1, device=0, code=2, bits=32, strides=None, flags=None):
        self.data = (ctypes.c_float * 6)(*range(6))
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        self.strides = strides and (ctypes.c_int64 * 2)(*strides)
        self.flags = flags
        self.place = (place, device)
        self.stream = "unset"
        self.made = _arrays._DLVersioned(1, 0, None, None, flags or 0, _arrays._DLTensor(
            ctypes.addressof(self.data), place, device, 2, code, bits, 1, self.shape,
            self.strides, 0))

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, stream=None, **more):
        self.stream = stream
        if more and self.flags is None:
            raise TypeError("max_version")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if self.flags is None:
            return new(ctypes.addressof(self.made.tensor), b"dltensor", None)
        return new(ctypes.addressof(self.made), b"dltensor_versioned", None)


class Interface:
    """A fake array that has only __cuda_array_interface__."""

    def __init__(self, **facts):
        self.data = (ctypes.c_float * 2)(1, 2)
        self.__cuda_array_interface__ = {
            "shape": (2,), "typestr": "<f4", "version": 3,
            "data": (ctypes.addressof(self.data), False), **facts}


class Protocols(Case):
    """The array protocols, with valid and invalid arrays."""

    def test_dlpack_array_is_described_by_its_capsule(self):
        for flags in None, 0:
            array = Capsule(flags=flags)
            found = _arrays.look(array, "x", True, 7)
            self.assertEqual((found.address, found.count, found.type),
                             (ctypes.addressof(array.data), 6, cohort.Type.F32))
            self.assertIsNone(array.stream)
        for code, bits, kind in ((4, 16, cohort.Type.BF16), (1, 8, cohort.Type.U8),
                                 (12, 8, cohort.Type.F8E5M2)):
            self.assertEqual(_arrays.look(Capsule(code=code, bits=bits), "x", True).type, kind)
        self.assertEqual(_arrays.look(Capsule(strides=(3, 1)), "x", True).count, 6)
        gpu = Capsule(place=2, device=3)
        self.assertEqual(_arrays.look(gpu, "x", True, 77).device, 3)
        self.assertEqual(gpu.stream, 77)
        _arrays.look(gpu, "x", True, 0)
        self.assertEqual(gpu.stream, 1)  # DLPack's number for the legacy default stream

    def test_bad_dlpack_array_raises(self):
        nowhere = Capsule()
        nowhere.place = None
        for kind, words, array in (
                (TypeError, "x has elements of type", Capsule(code=5, bits=32)),
                (TypeError, "x has elements of type", Capsule(bits=4)),
                (BufferError, "x is not contiguous", Capsule(strides=(1, 2))),
                (BufferError, "x is read-only", Capsule(flags=1)),
                (TypeError, r"x: __dlpack_device__\(\) returned None", nowhere),
                (BufferError, "DLPack type 10; only host", Capsule(place=10))):
            with self.assertRaisesRegex(kind, words):
                _arrays.look(array, "x", True)
        bare = SimpleNamespace(__array_interface__=5)
        self.assertRaisesRegex(TypeError, "x has an incomplete", _arrays.look, bare, "x", True)
        self.assertEqual(_arrays.look(Capsule(flags=1), "x", False).count, 6)
        with opened(1) as group:
            [comm] = group.split()
            with self.assertRaisesRegex(BufferError, "send is on a GPU, but the group is on"):
                comm.all_reduce(Capsule(place=2))
            with self.assertRaisesRegex(BufferError, "data is on a GPU; use the call without"):
                comm.all_reduce_host(Capsule(place=2))

    def test_cuda_array_interface_is_accepted_or_refused(self):
        self.assertEqual(_arrays.look(Interface(), "x", True).count, 2)
        self.assertEqual(_arrays.look(Interface(stream=1), "x", True).stream, 0)
        self.assertEqual(_arrays.look(Interface(strides=(4,)), "x", True).count, 2)
        for kind, words, facts in (
                (TypeError, "type <c4", {"typestr": "<c4"}),
                (TypeError, "type >f4", {"typestr": ">f4"}),
                (TypeError, "x has an incomplete", {"data": None}),
                (TypeError, "x has an incomplete", {"shape": 2}),
                (TypeError, "x has an incomplete", {"strides": 4}),
                (TypeError, "x has elements of type None", {"typestr": None}),
                (TypeError, "x has elements of type", {"typestr": ""}),
                (TypeError, "x: its stream is 'a'", {"stream": "a"}),
                (BufferError, "not contiguous", {"strides": (8,)}),
                (BufferError, "read-only", {"data": (8, True)})):
            with self.assertRaisesRegex(kind, words):
                _arrays.look(Interface(**facts), "x", True)

    def test_stream_of_accepts_numbers_and_foreign_streams(self):
        class Torch:
            cuda_stream = 5

        class CuPy:
            ptr = 6

        class Other:
            def __cuda_stream__(self):
                return 0, 7
        self.assertEqual([_arrays.stream_of(stream, 4) for stream in
                          (None, 0, Torch(), CuPy(), Other())], [4, 0, 5, 6, 7])


class GpuPlatform(Case):
    """Device arrays on the gpu platform, with the drop-in libraries."""

    def setUp(self):
        folder = os.environ.get("LD_LIBRARY_PATH", "").split(":", maxsplit=1)[0] + "/drop-in"
        if not os.path.exists(folder):
            self.skipTest("there are no drop-in libraries")
        patch = mock.patch.dict(os.environ, {"COHORT_GPU_LIBRARIES": folder})
        patch.start()
        self.addCleanup(patch.stop)

    def test_call_makes_its_stream_wait_for_dlpack_arrays(self):
        with cohort.Group.open(1, platform="gpu") as group:
            [comm] = group.split()
            x, y = Capsule(place=2), Capsule(place=2)
            comm.all_reduce(x, y).wait()
            self.assertEqual((x.stream, y.stream), (comm.stream, comm.stream))
            self.assertEqual(list(y.data), list(range(6)))
            comm.all_reduce(x, stream=0).wait()
            self.assertEqual(x.stream, 1)
            comm.deregister(comm.register(y))
            self.assertEqual(y.stream, -1)
            for stream, told in (None, comm.stream), (0, 1):
                with comm.batch(stream=stream) as batch:
                    comm.all_reduce(x)
                batch.ticket.wait()
                self.assertEqual(x.stream, told)

    def test_own_stream_waits_for_a_tensor_in_c(self):
        class Tensor(Capsule):
            pass

        def current_stream(device):
            self.assertEqual(device, 0)
            return SimpleNamespace(cuda_stream=0)
        fake = SimpleNamespace(Tensor=Tensor, cuda=SimpleNamespace(current_stream=current_stream))
        with cohort.Group.open(1, platform="gpu") as group, \
                mock.patch.dict(sys.modules, {"torch": fake}):
            [comm] = group.split()
            x = Tensor(place=2)
            with mock.patch.object(lib, "cohort_after_stream", return_value=0) as after:
                comm.all_reduce(x).wait()
                after.assert_called_once_with(comm._handle, 0)
                self.assertEqual(x.stream, -1)
                # If the call names another stream, PyTorch makes that stream wait.
                comm.all_reduce(x, stream=0).wait()
                after.assert_called_once()
                self.assertEqual(x.stream, 1)


@unittest.skipUnless(numpy, "no NumPy")
class NumPy(Case):
    """NumPy arrays."""

    def test_numpy_types_and_shapes_are_accepted(self):
        names = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16",
                 "float32", "float64")

        def worker(comm):
            for name in names:
                x = numpy.arange(12, dtype=name).reshape(3, 4)
                comm.all_reduce(x, op="max").wait()
                self.assertEqual(x.tolist(), numpy.arange(12).reshape(3, 4).tolist())
            empty = numpy.zeros((0, 3), numpy.float32)
            comm.all_reduce(empty).wait()
            one = numpy.array(comm.rank, numpy.int64)  # zero-dimensional
            comm.all_reduce(one).wait()
            sent = numpy.broadcast_to(numpy.float32(comm.rank), (1,))
            got = numpy.zeros(1, numpy.float32)
            comm.all_reduce(sent, got).wait()
            return int(one), float(got[0])
        with opened(2) as group:
            self.assertEqual(group.run(worker), [(1, 1.0)] * 2)

    def test_unusable_numpy_array_raises(self):
        with opened(1) as group:
            [comm] = group.split()
            x = numpy.zeros((4, 4), numpy.float32)
            for kind, words, array in (
                    (TypeError, "elements of type", x.astype(numpy.clongdouble)),
                    (cohort.Invalid, "type is bool, which cannot be reduced", x.astype(bool)),
                    (TypeError, "elements of type", x.astype(">f4")),
                    (BufferError, "not contiguous", x.T[1:]),
                    (BufferError, "not contiguous", x[:, :2]),
                    (TypeError, "elements of type <M8", numpy.zeros(2, "M8[ns]")),
                    (TypeError, "elements of type", numpy.array([None]))):
                with self.assertRaisesRegex(kind, words):
                    comm.all_reduce(array)
            huge = numpy.broadcast_to(numpy.float32(1), (10**6, 10**6))
            self.assertRaisesRegex(TypeError, "timeout is", comm.synchronize, huge)

    def test_numpy_arrays_without_arithmetic_are_moved(self):
        def worker(comm):
            for kind in "bool", "int16", "uint16", "complex64", "complex128":
                x = (numpy.arange(3) * comm.rank).astype(kind)
                every = numpy.zeros((2, 3), kind)
                comm.all_gather(x, every).wait()
                self.assertEqual(every[1].tolist(), numpy.arange(3).astype(kind).tolist())
                comm.broadcast_host(x, root=1)
                self.assertEqual(x.tolist(), every[1].tolist())
                self.assertEqual(numpy.asarray(comm.alloc(3, kind)).dtype, x.dtype)
        with opened(2) as group:
            group.run(worker)

    def test_numpy_shares_memory_of_alloc(self):
        with opened(1) as group:
            [comm] = group.split()
            memory = comm.alloc((2, 2), "float64")
            view = numpy.asarray(memory)
            view[:] = 3
            comm.all_reduce(memory).wait()
            self.assertEqual(view.tolist(), [[3, 3], [3, 3]])
            bits = numpy.asarray(comm.alloc(3, "bfloat16"))
            self.assertEqual((bits.dtype, bits.shape), (numpy.uint16, (3,)))
            del view, bits, memory
            with cohort.Reducer(comm, [cohort.Parameter(count=2)]) as reducer:
                self.assertEqual(numpy.asarray(reducer.view(0)).tolist(), [0, 0])
            own = cohort.Parameter(count=2, type="bfloat16")
            with cohort.Reducer(comm, [own]) as reducer:
                comm.all_reduce(reducer.view(0)).wait()


@unittest.skipUnless(torch, "no PyTorch")
class PyTorch(Case):
    """PyTorch tensors on the CPU."""

    def test_tensors_are_reduced_or_refused(self):
        def worker(comm):
            with torch.no_grad():
                x = torch.full((3,), 1.5 + comm.rank, dtype=torch.bfloat16)
                comm.all_reduce(x).wait()
                y = torch.arange(6).reshape(2, 3)
                comm.all_reduce_host(y)
                with self.assertRaisesRegex(BufferError, "not contiguous"):
                    comm.all_reduce(y.t())
                z = torch.full((2,), 1j * comm.rank, dtype=torch.complex64)
                comm.broadcast(z, root=1).wait()
                self.assertEqual(z.tolist(), [1j, 1j])
                with self.assertRaisesRegex(TypeError, "elements of type torch.complex32"):
                    comm.all_reduce(torch.zeros(2, dtype=torch.complex32))
            with self.assertRaisesRegex(BufferError, "send: .*detach"):
                comm.all_reduce(torch.zeros(2, requires_grad=True))
            return x.tolist(), y.tolist()
        with opened(2) as group:
            self.assertEqual(group.run(worker), [([4, 4, 4], [[0, 2, 4], [6, 8, 10]])] * 2)

    def test_dropped_tensor_stays_alive_until_its_ticket_is_done(self):
        with opened(2) as group:
            first, second = group.split()
            x = torch.ones(1000)
            where = x.data_ptr()
            ticket = first.all_reduce(x)
            del x
            self.assertNotIn(where, [torch.zeros(1000).data_ptr() for _ in range(9)])
            second.all_reduce(floats(*[1] * 1000)).wait()
            ticket.wait()

    def hooks(self, old):
        """Train with the hooks of this version of PyTorch or, with old, of versions before 2.1."""
        from cohort import _gradients
        torch.set_num_threads(1)

        torch.manual_seed(1)
        alone = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(),
                                    torch.nn.Linear(4, 2))
        copies = [copy.deepcopy(alone) for _ in range(2)]
        inputs = torch.randn(8, 5, generator=torch.Generator().manual_seed(2))

        def loss(net, rows):
            return net(rows).square().sum()
        # Expected values: one rank computes each rank's part and adds in rank order.
        parts = []
        for rank in range(2):
            alone.zero_grad()
            loss(alone, inputs[4 * rank:4 * rank + 4]).backward()
            parts.append([parameter.grad.clone() for parameter in alone.parameters()])
        wanted = [(a + b) / 2 for a, b in zip(*parts)]

        def worker(comm):
            net = copies[comm.rank]
            if comm.rank:
                with torch.no_grad():
                    for parameter in net.parameters():
                        parameter.zero_()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
            with _gradients.Gradients(comm, net) as gradients:
                gradients.broadcast()
                for to_none in (True, False):
                    optimizer.zero_grad(set_to_none=to_none)
                    with gradients.step() as step:
                        loss(net, inputs[4 * comm.rank:4 * comm.rank + 4]).backward()
                    self.assertTrue(step.ok)
                    for parameter, want in zip(net.parameters(), wanted):
                        self.assertTrue(torch.equal(parameter.grad, want))
            loss(net, inputs).backward()  # must not reach the reducer: the hooks are removed
            return True
        hook = _gradients._hook
        try:
            if old:
                _gradients._hook = lambda parameter, ready: hook(_Old(parameter), ready)
            with opened(2) as group:
                self.assertEqual(group.run(worker), [True, True])
        finally:
            _gradients._hook = hook

    def test_broadcast_copies_all_parameters(self):
        from cohort import _gradients

        def worker(comm):
            net = torch.nn.Linear(2, 1)
            net.weight.requires_grad_(False).fill_(comm.rank)
            with _gradients.Gradients(comm, net) as gradients:
                gradients.broadcast(root=1)
            return net.weight.tolist()
        with opened(2) as group:
            self.assertEqual(group.run(worker), [[[1.0, 1.0]]] * 2)

    def test_accumulated_gradients_add_up(self):
        from cohort import _gradients

        def worker(comm):
            net = torch.nn.Linear(2, 1)
            x = torch.ones(1, 2) * (1 + comm.rank)
            with _gradients.Gradients(comm, net) as gradients:
                gradients.reducer.accumulate()
                net(x).sum().backward()
                gradients.reducer.finish()
                with gradients.step():
                    net(x).sum().backward()
                self.assertEqual(net.weight.grad.tolist(), [[3.0, 3.0]])
                with self.assertRaisesRegex(cohort.StateError, "no step is open"):
                    net(x).sum().backward()
                with self.assertRaisesRegex(cohort.StateError, "got a second gradient"):
                    with gradients.step():
                        net(x).sum().backward()
                        net(x).sum().backward()
        with opened(2) as group:
            group.run(worker)

    def test_backward_pass_may_run_on_its_own_thread(self):
        """Run as on a GPU, where the rank's thread waits for autograd's thread."""
        from cohort import _gradients

        def worker(comm, helped):
            net = torch.nn.Linear(2, 1)
            options = cohort.ReducerOptions(helpers_launch=helped)
            with _gradients.Gradients(comm, net, options) as gradients:
                for _ in range(3):
                    comm.barrier().wait()
                    before = comm.stats()["collectives"]
                    net.zero_grad(set_to_none=False)
                    with gradients.step():
                        thread = threading.Thread(
                            target=lambda: (net(torch.ones(1, 2)) * (1 + comm.rank)).backward())
                        thread.start()
                        thread.join()
                        launched = comm.stats()["collectives"] - before
                    self.assertEqual(launched > 0, bool(helped))
                    self.assertEqual(net.weight.grad.tolist(), [[1.5, 1.5]])
                # The rank's thread must still own the communicator.
                self.assertEqual(lib.cohort_comm_bind(comm._live), Status.ALREADY)
        with opened(2) as group:
            for helped in True, False, None:
                group.run(worker, helped)

    def test_hang_of_the_backward_pass_thread_blames_its_rank(self):
        from cohort import _gradients
        released, left, told = threading.Event(), threading.Event(), []

        def worker(comm):
            try:
                train(comm)
            finally:
                if comm.rank:
                    left.set()

        def train(comm):
            net = torch.nn.Linear(2, 1)

            def backward():
                if comm.rank:
                    released.wait()
                try:
                    net(torch.ones(1, 2)).backward()
                except (cohort.Stalled, cohort.Stale) as error:
                    told.append((comm.rank, type(error), error.rank))
            with _gradients.Gradients(comm, net,
                                   cohort.ReducerOptions(helpers_launch=True)) as gradients:
                with gradients.step():
                    thread = threading.Thread(target=backward)
                    thread.start()
                    thread.join()
        with opened(2, launch=cohort.Launch.TOGETHER,
                    deadlines=cohort.Deadlines(join=0.5, abort=0.5)) as group:
            with self.assertRaises(cohort.Stalled) as caught:
                group.run(worker)
            self.assertEqual(caught.exception.rank, 1)
            self.assertEqual(told, [(0, cohort.Stalled, 1)])
            self.assertRegex(str(caught.exception),
                             "it needs parameter 'bias' .* to be marked ready")
            group.respawn([1])
            self.assertEqual(group.run(lambda comm: comm.size), [1])
            released.set()
            self.assertTrue(left.wait(sure()))

    def test_step_waits_for_the_stream_that_computes_a_gradient(self):
        """The step's stream must wait for the stream on which autograd computes a gradient."""
        from cohort import _gradients

        class Stream:
            def __init__(self, handle):
                self.cuda_stream = handle
                self.waited = []

            def wait_stream(self, other):
                self.waited.append(other)
        with opened(1) as group:
            [comm] = group.split()
            net = torch.nn.Linear(2, 1)
            own, side = Stream(comm.stream), Stream(0)
            with _gradients.Gradients(comm, net) as gradients, \
                    mock.patch.object(torch.cuda, "current_stream") as current, \
                    mock.patch.object(torch.cuda, "ExternalStream", return_value=own) as made:
                gradients._gpu = "a GPU"
                for stream, computes, waited in ((None, own, []), (None, side, [side, side]),
                                                 (comm.stream, side, [side, side])):
                    own.waited.clear()
                    current.return_value = own
                    with gradients.step(stream):
                        current.return_value = computes
                        net(torch.ones(1, 2)).backward()
                    self.assertEqual(own.waited, waited)
                current.assert_any_call("a GPU")
                made.assert_called_once_with(comm.stream, "a GPU")

    def test_gradients_equal_those_of_one_rank(self):
        self.hooks(old=False)

    def test_gradients_equal_those_of_one_rank_with_hooks_before_2_1(self):
        self.hooks(old=True)


class _Old:
    """A parameter without the hook method that PyTorch 2.1 added."""

    def __init__(self, parameter):
        self.expand_as = lambda other: parameter.expand_as(parameter)


if __name__ == "__main__":
    unittest.main()
