#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package with PyTorch and CuPy on GPUs, a rank on each of them.

A wait that is missing shows, as each stream first computes for some milliseconds.
Needs a PyTorch that sees a GPU.  TEST_RANKS_PER_GPU: the devices share GPUs, and so have one
legacy default stream between them.
"""

import os
import unittest

import torch

import cohort
from cohort.pytorch import Gradients

try:
    import cupy
except ImportError:
    cupy = None

SHARED = "TEST_RANKS_PER_GPU" in os.environ
# PyTorch asks NVML, which does not know of devices that share a GPU.
RANKS = torch.cuda.device_count() * int(os.environ.get("TEST_RANKS_PER_GPU", 1))
LONG = 20_000_000  # cycles: some 10 ms
COUNT = 1 << 20


def late(value, count=COUNT):
    """Elements that PyTorch's current stream computes in a while."""
    torch.cuda._sleep(LONG)
    return torch.full((count,), float(value), device="cuda")


def total():
    """The sum of all ranks' 1 + rank."""
    return RANKS * (RANKS + 1) / 2


class OnGpus(unittest.TestCase):
    """Every test runs its worker() on all ranks."""

    def run_all(self, worker, **options):
        with cohort.Group.open(RANKS, platform="gpu", **options) as group:
            return group.run(worker)

    def test_the_device_is_the_ranks(self):
        self.assertEqual(self.run_all(lambda comm: torch.cuda.current_device() == comm.device),
                         [True] * RANKS)

    def test_a_call_waits_for_the_arrays_stream(self):
        def worker(comm):
            for stream in [torch.cuda.Stream()] + [torch.cuda.current_stream()] * (not SHARED):
                with torch.cuda.stream(stream):
                    x = late(1 + comm.rank)
                    y = torch.zeros_like(x)
                    comm.all_reduce(x, y).wait()
                    self.assertTrue(bool((y == total()).all()))
                    comm.all_reduce(late(1 + comm.rank), y, stream=stream)
                    self.assertTrue(bool((y == total()).all()))
        self.run_all(worker)

    def test_a_batch_waits_for_its_arrays(self):
        def worker(comm):
            x = late(1 + comm.rank)
            with comm.batch() as batch:
                comm.all_reduce(x)
                comm.all_reduce(late(1 + comm.rank), y := torch.zeros_like(x))
            batch.ticket.wait()
            self.assertTrue(bool((x == total()).all()) and bool((y == total()).all()))
        self.run_all(worker)

    def test_a_stream_waits_for_a_call(self):
        def worker(comm):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x = late(1 + comm.rank)
                comm.all_reduce(x).after(stream)
                doubled = x * 2
            stream.synchronize()
            self.assertTrue(bool((doubled == 2 * total()).all()))
        self.run_all(worker)

    def test_types(self):
        kinds = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16,
                 torch.float32, torch.float64, torch.bfloat16]

        def worker(comm):
            for kind in kinds:
                x = torch.full((1000,), 1 + comm.rank, dtype=kind, device="cuda")
                comm.all_reduce(x, op="max").wait()
                self.assertEqual(x.tolist(), [RANKS] * 1000, kind)
        self.run_all(worker)

    def test_what_is_refused(self):
        def worker(comm):
            x = torch.zeros(4, 2, device="cuda")
            for wrong, text in ((torch.zeros(4), "send is in host memory"),
                                (x.t(), "send is not contiguous"),
                                (torch.nn.Parameter(x), "send: .*detach")):
                with self.assertRaisesRegex(BufferError, text):
                    comm.all_reduce(wrong)
            with self.assertRaisesRegex(TypeError, "complex64"):
                comm.all_reduce(torch.zeros(2, dtype=torch.complex64, device="cuda"))
            comm.barrier().wait()
        self.run_all(worker)

    def test_an_array_that_is_dropped_early(self):
        def worker(comm):
            x = late(1)
            where = x.data_ptr()
            ticket = comm.all_reduce(x)
            del x
            others = [torch.empty(COUNT, device="cuda") for _ in range(4)]
            self.assertNotIn(where, [other.data_ptr() for other in others])
            ticket.wait()
            del ticket
            comm.barrier().wait()
            self.assertEqual(torch.empty(COUNT, device="cuda").data_ptr(), where)
        self.run_all(worker)

    def test_memory_of_the_library(self):
        def worker(comm):
            for registered in (False, True):
                with comm.alloc((4, 8), registered=registered) as memory:
                    x = torch.as_tensor(memory, device="cuda")
                    self.assertEqual((x.shape, x.data_ptr()), ((4, 8), memory._address))
                    x.fill_(1 + comm.rank)
                    torch.cuda.current_stream().synchronize()
                    comm.all_reduce(memory).wait()
                    self.assertEqual(x.tolist(), [[total()] * 8] * 4)
                    del x
        self.run_all(worker)

    def test_host_memory(self):
        def worker(comm):
            x = torch.full((1000,), 1.0 + comm.rank)
            comm.all_reduce_host(x)
            pinned = torch.full((1000,), 1.0 + comm.rank).pin_memory()
            comm.all_reduce(pinned).wait()
            y = torch.zeros(1000, device="cuda")
            comm.copy(y, x)
            comm.synchronize()
            self.assertEqual(x.tolist() + pinned.tolist() + y.tolist(), [total()] * 3000)
        self.run_all(worker)

    def test_a_graph(self):
        def worker(comm):
            x = torch.zeros(1000, device="cuda")
            y = torch.zeros(1000, device="cuda")
            comm.all_reduce(x).wait()
            stream = torch.cuda.Stream()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                comm.all_reduce(x, y, stream=stream)
                y += 1
            for k in range(3):
                with torch.cuda.stream(stream):
                    x.fill_(k)
                    graph.replay()
                    self.assertEqual(y.tolist(), [k * RANKS + 1] * 1000)
            del graph
        self.run_all(worker, allow_capture=True)

    def test_many_calls_ahead(self):
        def worker(comm):
            call = comm.prepare_all_reduce(torch.ones(256, device="cuda"), op="max")
            for _ in range(2000):
                call()
            call.run()
            comm.synchronize()
        self.run_all(worker)

    @unittest.skipUnless(cupy and cupy.cuda.runtime.getDeviceCount() == RANKS,
                         "CuPy is not installed, or sees other devices")
    def test_arrays_of_cupy(self):
        def worker(comm):
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                x = cupy.full(1000, 1.0 + comm.rank, dtype="f4")
                comm.all_reduce(x).after(stream)
                self.assertEqual((x * 2).tolist(), [2 * total()] * 1000)
            with comm.alloc(8) as memory:
                y = cupy.asarray(memory)
                y[:] = comm.rank
                cupy.cuda.get_current_stream().synchronize()
                comm.broadcast(memory, root=RANKS - 1).wait()
                self.assertEqual(y.tolist(), [RANKS - 1.0] * 8)
                del y
        self.run_all(worker)

    def test_gradients_are_launched_by_autograds_thread(self):
        def worker(comm):
            torch.manual_seed(1)
            net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
            with Gradients(comm, net) as gradients:
                gradients.broadcast()
                for _ in range(3):
                    before = comm.stats()["collectives"]
                    net.zero_grad(set_to_none=False)
                    with gradients.step():
                        torch.cuda._sleep(LONG)
                        (net(torch.ones(2, 256, device="cuda")).sum() * (1 + comm.rank)
                         ).backward()
                        self.assertGreater(comm.stats()["collectives"], before)
                    mean = [parameter.grad.clone() for parameter in net.parameters()]
                net.zero_grad()
            (net(torch.ones(2, 256, device="cuda")).sum() * (total() / RANKS)).backward()
            for got, parameter in zip(mean, net.parameters()):
                torch.testing.assert_close(got, parameter.grad)
        self.run_all(worker)

    def test_gradients_that_are_computed_on_another_stream(self):
        def worker(comm):
            net = torch.nn.Linear(512, 512).cuda()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with Gradients(comm, net) as gradients, torch.no_grad():
                net.weight.fill_(1)
                for k in 1, 2:
                    with gradients.step():
                        with torch.enable_grad(), torch.cuda.stream(side):
                            torch.cuda._sleep(LONG)
                            net.zero_grad(set_to_none=False)
                            (net(torch.ones(1, 512, device="cuda")).sum() * k * (1 + comm.rank)
                             ).backward()
                    self.assertTrue(bool((net.bias.grad == k * total() / RANKS).all()))
        self.run_all(worker)

    def test_gradients_in_the_reducers_memory(self):
        def worker(comm):
            with cohort.Reducer(comm, [cohort.Parameter("a", count=1000)]) as reducer:
                gradient = torch.as_tensor(reducer.view(0), device="cuda")
                gradient.fill_(1.0 + comm.rank)
                with reducer.step(torch.cuda.current_stream()) as step:
                    reducer.ready(0)
                self.assertTrue(step.ok)
                self.assertEqual(gradient.tolist(), [total() / RANKS] * 1000)
                del gradient
        self.run_all(worker)

    @unittest.skipIf(RANKS < 2, "there is one GPU")
    def test_a_rank_that_hangs(self):
        def worker(comm):
            x = torch.ones(1000, device="cuda")
            comm.all_reduce(x).wait()
            if comm.rank:
                comm.all_reduce(x).wait()
        deadlines = cohort.Deadlines(join=0.5)
        with cohort.Group.open(RANKS, platform="gpu", deadlines=deadlines) as group:
            with self.assertRaises(cohort.Stalled) as caught:
                group.run(worker)
            self.assertEqual(caught.exception.cause.missing, {0})
            group.respawn([0])
            self.assertEqual(group.run(lambda comm: comm.size), [RANKS - 1] * (RANKS - 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
