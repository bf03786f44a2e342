#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python package with PyTorch and CuPy, with one rank per GPU.

Each stream first computes for some milliseconds, so that a missing wait makes a test fail.
PyTorch must see a GPU.  If TEST_RANKS_PER_GPU is set, several devices share a GPU and so its
legacy default stream.
"""

import os
import unittest

import torch

import cohort
import cohort.torch
from cohort.torch import Gradients

try:
    import cupy
except ImportError:
    cupy = None

SHARED = "TEST_RANKS_PER_GPU" in os.environ
# PyTorch asks NVML, which counts GPUs and not the devices that share them.
RANKS = torch.cuda.device_count() * int(os.environ.get("TEST_RANKS_PER_GPU", 1))
LONG = 20_000_000  # cycles, about 10 ms
COUNT = 1 << 20


def late(value, count=COUNT):
    """Return a tensor that PyTorch's current stream computes only after a delay."""
    torch.cuda._sleep(LONG)
    return torch.full((count,), float(value), device="cuda")


def total():
    """Return the sum of 1 + rank over all ranks."""
    return RANKS * (RANKS + 1) / 2


class OnGpus(unittest.TestCase):
    """Tests that run a worker() on all ranks."""

    def run_all(self, worker, **options):
        with cohort.Group.open(RANKS, platform="gpu", **options) as group:
            return group.run(worker)

    def test_the_current_device_is_the_ranks_device(self):
        self.assertEqual(self.run_all(lambda comm: torch.cuda.current_device() == comm.device),
                         [True] * RANKS)

    def test_a_call_waits_for_the_stream_that_computes_its_array(self):
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

    def test_a_batch_waits_for_the_streams_of_its_arrays(self):
        def worker(comm):
            x = late(1 + comm.rank)
            with comm.batch() as batch:
                comm.all_reduce(x)
                comm.all_reduce(late(1 + comm.rank), y := torch.zeros_like(x))
            batch.ticket.wait()
            self.assertTrue(bool((x == total()).all()) and bool((y == total()).all()))
        self.run_all(worker)

    def test_after_makes_a_stream_wait_for_a_call(self):
        def worker(comm):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x = late(1 + comm.rank)
                comm.all_reduce(x).after(stream)
                doubled = x * 2
            stream.synchronize()
            self.assertTrue(bool((doubled == 2 * total()).all()))
        self.run_all(worker)

    def test_all_reduce_supports_every_torch_type_of_the_library(self):
        kinds = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16,
                 torch.float32, torch.float64, torch.bfloat16]

        def worker(comm):
            for kind in kinds:
                x = torch.full((1000,), 1 + comm.rank, dtype=kind, device="cuda")
                comm.all_reduce(x, op="max").wait()
                self.assertEqual(x.tolist(), [RANKS] * 1000, kind)
        self.run_all(worker)

    def test_unsuitable_tensors_are_refused_with_a_reason(self):
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

    def test_memory_of_a_dropped_array_is_not_reused_during_a_call(self):
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

    def test_torch_tensors_share_memory_of_comm_alloc(self):
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

    def test_host_and_pinned_tensors_are_reduced_and_copied(self):
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

    def test_a_captured_all_reduce_can_be_replayed(self):
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

    def test_2000_prepared_calls_can_be_enqueued_ahead(self):
        def worker(comm):
            call = comm.prepare_all_reduce(torch.ones(256, device="cuda"), op="max")
            for _ in range(2000):
                call()
            call.run()
            comm.synchronize()
        self.run_all(worker)

    @unittest.skipUnless(cupy and cupy.cuda.runtime.getDeviceCount() == RANKS,
                         "CuPy is not installed, or sees other devices")
    def test_cupy_arrays_can_be_reduced(self):
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

    def test_gradients_computed_on_another_stream_are_averaged(self):
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

    def test_gradients_in_the_reducers_memory_are_averaged(self):
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
    def test_a_rank_that_hangs_is_named_and_can_be_dropped(self):
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


class Backend(unittest.TestCase):
    """The backend of torch.distributed, with a thread per rank."""

    def setUp(self):
        try:
            cohort.torch.register()
        except ImportError as error:
            self.skipTest(str(error))

    def run_all(self, program):
        def main():
            torch.cuda.set_device(torch.distributed.get_rank())
            return program()
        return cohort.torch.run(main, RANKS, timeout=60.0)

    def test_backend_waits_for_the_stream_that_computes_a_tensor(self):
        def program():
            x = late(1 + torch.distributed.get_rank())
            torch.distributed.all_reduce(x)
            return bool((x == total()).all())
        self.assertEqual(self.run_all(program), [True] * RANKS)

    def test_work_makes_the_current_stream_wait(self):
        def program():
            x = late(1 + torch.distributed.get_rank())
            work = torch.distributed.all_reduce(x, async_op=True)
            with torch.cuda.stream(torch.cuda.Stream()):
                work.wait()
                doubled = x * 2
            return bool((doubled == 2 * total()).all())
        self.assertEqual(self.run_all(program), [True] * RANKS)

    def test_ddp_gives_all_ranks_the_same_gradients(self):
        def program():
            net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8).cuda())
            net(late(1 + torch.distributed.get_rank(), 64)).sum().backward()
            return net.module.weight.grad.cpu().tolist()
        gradients = self.run_all(program)
        self.assertEqual(gradients[0], [[total() / RANKS] * 64] * 8)
        self.assertTrue(all(one == gradients[0] for one in gradients))


if __name__ == "__main__":
    unittest.main(verbosity=2)
