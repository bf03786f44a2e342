# SPDX-License-Identifier: Apache-2.0
"""The backend "cohort" of torch.distributed, on processes and on threads."""

import os
import subprocess
import sys
import time
import unittest

from support import HERE, Case, torch

try:
    import cohort.torch
    cohort.torch.register()
    WHY_NOT = None
except ImportError as error:
    WHY_NOT = str(error)

PRELUDE = """
import copy, datetime, os, signal, sys, tempfile, time
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
torch.set_num_threads(1)
path = tempfile.mktemp()
n, limit = int(sys.argv[1]), float(sys.argv[2])
children = []

def start(rank, backend="cohort"):
    import cohort.torch
    dist.init_process_group(backend, init_method="file://" + path, rank=rank, world_size=n,
                            timeout=datetime.timedelta(seconds=limit))

def say(*words):
    os.write(1, (" ".join(str(word) for word in words) + "\\n").encode())

def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))

def resnet():
    sys.path.insert(0, sys.argv[3])
    import c10d
    return list(c10d.models())[1][1]

def train(net, rank, steps=3, x=None):
    if x is None:
        x = torch.randn(8, 32, generator=torch.Generator().manual_seed(rank))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 5))
    return losses

def main(rank):
    try:
        program(rank)
    except RuntimeError as error:
        verdict = str(error).split("\\n")[0]
        say(rank, type(error).__name__, getattr(error, "rank", None),
            sorted(getattr(error, "missing", ())), verdict)
"""
START = """
for rank in range(n):
    if os.fork() == 0:
        main(rank)
        # Exit like a program, because os._exit() would skip the exit handlers.
        raise SystemExit
for rank in range(n):
    os.wait()
"""


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Processes(Case):
    """A process per rank."""

    def ranks(self, n, body, limit=60, after=""):
        """Return the lines that the ranks and then this process print, sorted."""
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + body + START + after, str(n), str(limit),
             os.path.join(HERE, "..", "..", "..", "bench")],
            capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, "COHORT_LOG": "none", "PYTHONPATH": os.path.join(HERE, "..")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.errors = done.stderr
        return sorted(done.stdout.splitlines())

    def test_collectives_give_what_gloo_gives(self):
        said = self.ranks(3, """
def calls(rank, group):
    def each(kind):
        return (torch.arange(1, 13).view(3, 4) + rank).to(kind)
    every = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
    for kind in every:
        x = each(kind)
        dist.all_reduce(x, group=group)
        yield x
        dist.all_reduce(x, dist.ReduceOp.MAX, group=group)
        yield x
    x = torch.tensor([True, False, rank == 1])
    dist.all_reduce(x, dist.ReduceOp.MAX, group=group)
    yield x
    for op in dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR:
        x = torch.tensor([rank, 6, 1 << rank])
        dist.all_reduce(x, op, group=group)
        yield x
    x = torch.arange(12.0).view(3, 4).t() + rank
    dist.all_reduce(x, group=group)
    yield x
    x = torch.complex(torch.ones(3) * rank, torch.ones(3))
    dist.all_reduce(x, group=group)
    yield x
    x = each(torch.float32)
    dist.broadcast(x, 2, group=group)
    yield x
    x = each(torch.float32)
    dist.reduce(x, 1, group=group)
    yield x if rank == 1 else 0
    for kind in torch.float32, torch.bool:
        outs = [torch.zeros(3, 4, dtype=kind) for _ in range(n)]
        dist.all_gather(outs, each(kind), group=group)
        yield outs
    x = torch.zeros(9, 4)
    dist.all_gather_into_tensor(x, each(torch.float32), group=group)
    yield x
    x = torch.zeros(1, 4)
    dist.reduce_scatter_tensor(x, each(torch.float32), group=group)
    yield x
    outs = [torch.zeros(3, 4) for _ in range(n)] if rank == 2 else None
    dist.gather(each(torch.float32), outs, 2, group=group)
    yield outs or 0
    x = torch.zeros(3, 4)
    dist.scatter(x, [torch.ones(3, 4) * i for i in range(n)] if rank == 1 else None, 1,
                 group=group)
    yield x
    x = torch.zeros(6)
    dist.all_to_all_single(x, torch.arange(6.0) + 10 * rank, group=group)
    yield x
    x = torch.zeros(3 * (rank + 1))
    dist.all_to_all_single(x, torch.arange(6.0) + 10 * rank, [rank + 1] * n, [1, 2, 3],
                           group=group)
    yield x
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank}, group=group)
    yield objects

def program(rank):
    start(rank)
    groups = [dist.new_group(backend=backend) for backend in ("gloo", "cohort")]
    k = 0
    for k, (a, b) in enumerate(zip(*(calls(rank, group) for group in groups)), 1):
        a, b = (x if isinstance(x, list) else [x] for x in (a, b))
        assert len(a) == len(b), k
        for one, other in zip(a, b):
            assert torch.equal(one, other) if torch.is_tensor(one) else one == other, \\
                (k, one, other)
    # Calls that Gloo lacks.
    for kind in torch.int16, torch.complex64, torch.float8_e5m2:
        outs = [torch.zeros(2, dtype=kind) for _ in range(n)]
        dist.all_gather(outs, torch.tensor([1, rank]).to(kind))
        assert [complex(out[1]).real for out in outs] == [0, 1, 2], outs
    outs = [torch.zeros(2) for _ in range(n)]
    dist.all_to_all(outs, [torch.ones(2) * (10 * rank + i) for i in range(n)])
    assert [out[0].item() for out in outs] == [10 * i + rank for i in range(n)]
    x = torch.tensor([2.0, 4.0]) * (rank + 1)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [4.0, 8.0]
    many = [torch.ones(5) * rank, torch.ones(7) * rank]
    with dist._coalescing_manager(async_ops=True) as manager:
        for one in many:
            dist.all_reduce(one)
    manager.wait()
    assert [one[0].item() for one in many] == [3.0, 3.0]
    dist.barrier()
    say(rank, "ok", k)
    dist.destroy_process_group()
""")
        self.assertEqual(said, ["0 ok 29", "1 ok 29", "2 ok 29"], self.errors)

    def test_messages_with_different_tags_may_overtake_each_other(self):
        said = self.ranks(2, """
def program(rank):
    start(rank)
    a, b = torch.zeros(3), torch.zeros(5)
    if rank == 0:
        dist.isend(torch.ones(3), 1, tag=1)
        dist.send(torch.ones(5) * 2, 1, tag=2)
    else:
        dist.recv(b, 0, tag=2)
        dist.recv(a, 0, tag=1)
        assert a.sum() == 3 and b.sum() == 10
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.ones(4) * rank, 1 - rank),
        dist.P2POp(dist.irecv, c := torch.zeros(4), 1 - rank)])
    for work in works:
        work.wait()
    assert c[0] == 1 - rank
    dist.barrier()
    say(rank, "ok")
    dist.destroy_process_group()
""")
        self.assertEqual(said, ["0 ok", "1 ok"])

    def test_messages_pass_in_a_subgroup_of_a_gloo_world(self):
        said = self.ranks(3, """
def program(rank):
    start(rank, "gloo")
    group = dist.new_group([1, 2], backend="cohort")
    x = torch.ones(3) * rank
    if rank == 1:
        dist.send(x, 2, group=group)
    elif rank == 2:
        dist.recv(x, 1, group=group)
        say(x.tolist())
    dist.destroy_process_group()
""")
        self.assertEqual(said, ["[1.0, 1.0, 1.0]"], self.errors)

    def test_callback_of_a_future_may_wait_for_another_call(self):
        said = self.ranks(2, """
def program(rank):
    start(rank)
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["attached"])
    x = torch.ones(2)
    sums = dist.all_reduce(x, async_op=True).get_future().then(
        lambda future: dist.all_reduce(x, async_op=True).get_future().wait())
    store.set("attached", "")
    sums.wait()
    say(rank, x.tolist())
    dist.destroy_process_group()
""", limit=5)
        self.assertEqual(said, ["0 [4.0, 4.0]", "1 [4.0, 4.0]"], self.errors)

    def test_futures_complete_and_carry_errors(self):
        said = self.ranks(2, """
def program(rank):
    start(rank)
    x = torch.ones(4)
    future = dist.all_reduce(x, async_op=True).get_future()
    assert future.then(lambda f: f.value()[0] * 2).wait().tolist() == [4.0] * 4
    if rank:
        time.sleep(1)
        return
    future = dist.all_reduce(x, async_op=True).get_future()
    try:
        future.wait()
    except RuntimeError as error:
        say(rank, type(error).__name__, "rank 1" in str(error))
""")
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "^0 (RuntimeError|CohortBackendError) True$")

    def test_ddp_and_fsdp_train_as_with_gloo(self):
        for n in 2, 4:
            said = self.ranks(n, """
nets = mlp(), resnet()

def losses(rank, group):
    def both(net, layers, x):
        ddp = nn.parallel.DistributedDataParallel(copy.deepcopy(net), process_group=group)
        found = train(ddp, rank, x=x)
        for layer in *layers(net), net:
            fully_shard(layer, mesh=DeviceMesh.from_group(group, "cpu"))
        net.set_allocate_memory_from_process_group_for_comm(True)
        return found + train(net, rank, x=x)
    net, deep = copy.deepcopy(nets)
    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(rank))
    return (both(net, lambda net: (net[0], net[2]), None)
            + both(deep, lambda net: net[3:11], images))

def compare(one, other):
    # Sums of more than two addends depend on their order.
    torch.testing.assert_close(one, other, rtol=0 if n == 2 else 1e-3,
                               atol=0 if n == 2 else 1e-4)

def program(rank):
    start(rank)
    gloo = losses(rank, dist.new_group(backend="gloo"))
    compare(losses(rank, dist.new_group(backend="cohort")), gloo)
    torch.save(gloo, f"{path}.{rank}")
    dist.destroy_process_group()
""", limit=120, after="""
def on_thread():
    compare(losses(dist.get_rank(), dist.group.WORLD), torch.load(f"{path}.{dist.get_rank()}"))
import cohort.torch
cohort.torch.run(on_thread, n)
say("equal")
""")
            self.assertEqual(said, ["equal"])

    def test_allocated_tensors_are_freed_by_their_last_view(self):
        body = """
cpu = torch.device("cpu")

def allocate(count, kind=torch.float32):
    backend = dist.group.WORLD._get_backend(cpu)
    assert backend.supports_tensor_alloc(cpu)
    # C++ asks with a number, and cannot call allocate_tensor().
    assert not backend.supports_tensor_alloc(-1)
    return backend.allocate_tensor(count, dtype=kind, device=cpu)

def check():
    view = allocate(1 << 20)[7:]
    view.fill_(dist.get_rank() + 1.0)
    others = [allocate(1 << 20) for _ in range(3)]
    assert len({view.data_ptr() - 28, *(one.data_ptr() for one in others)}) == 4
    dist.all_reduce(view)
    assert len({allocate(1 << 20).data_ptr() for _ in range(9)}) < 9
    assert allocate(0).numel() == 0 and allocate(3, torch.bool).dtype == torch.bool
    dist.destroy_process_group()
    assert view.eq(3).all()

def program(rank):
    start(rank)
    check()
    say("freed")
"""
        self.assertEqual(self.ranks(2, body, after="""
import cohort.torch
cohort.torch.run(check, 2)
say("freed on threads")
"""), ["freed", "freed", "freed on threads"], self.errors)

    def test_ranks_may_have_uneven_inputs(self):
        said = self.ranks(3, """
def program(rank):
    from torch.distributed.algorithms.join import Join
    start(rank)
    net = nn.parallel.DistributedDataParallel(mlp())
    steps = 0
    with Join([net]):
        for _ in range(2 + 2 * rank):
            net(torch.ones(8, 32)).square().mean().backward()
            steps += 1
    total = sum(p.double().sum().item() for p in net.parameters())
    say(rank, steps, round(total, 3))
    dist.destroy_process_group()
""")
        self.assertEqual([line.split()[:2] for line in said], [["0", "2"], ["1", "4"], ["2", "6"]])
        self.assertEqual(len({line.split()[2] for line in said}), 1)

    def expect(self, said, error, rank, missing, text):
        """Check the error of every other rank."""
        self.assertEqual(len(said), 2, (said, self.errors))
        for i, line in zip((0, 1), said):
            self.assertRegex(line, fr"^{i} {error} {rank} {missing} .*{text}")

    def backward(self, what, limit=60):
        """Return the lines that ranks print if rank 2 runs code during a backward pass."""
        return self.ranks(3, f"""
def program(rank):
    start(rank)
    net = nn.parallel.DistributedDataParallel(mlp(), bucket_cap_mb=0.001)
    train(net, rank)
    def interfere(gradient):
        {what}
    if rank == 2:
        net.module[0].weight.register_hook(interfere)
    train(net, rank)
""", limit)

    def test_hang_in_a_backward_pass_names_the_rank(self):
        said = self.backward("time.sleep(8); os._exit(0)", limit=2)
        # C++ has passed only the text of the exception.
        self.expect(said, "RuntimeError", None, r"\[\]",
                    r"CohortBackendError.*timeout of 2 s: .*rank 2 has not called all_reduce")

    def test_exception_in_a_backward_pass_is_reported_with_its_text(self):
        said = self.backward("raise ValueError('bad shard 17')")
        self.expect(said, "RuntimeError", None, r"\[\]",
                    r"CohortBackendError.*rank 2 .*ValueError: bad shard 17")

    def test_process_that_is_killed_in_a_backward_pass_is_named(self):
        said = self.backward("os.kill(os.getpid(), signal.SIGKILL)")
        self.expect(said, "RuntimeError", None, r"\[\]",
                    r"CohortBackendError.*which drove rank 2, was killed by signal 9")

    def test_different_call_in_a_backward_pass_is_described(self):
        said = self.backward("dist.broadcast(torch.ones(5), 0)")
        for line in said:
            self.assertRegex(line, r"(RuntimeError|CohortBackendError) .*rank 2 calls broadcast"
                                   r" of 5 float32")
        self.assertEqual(len(said), 3, (said, self.errors))

    def test_uncaught_exception_is_reported_with_its_text(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    for step in range(5):
        if step == 3 and rank == 2:
            raise ValueError("bad shard 17")
        dist.all_reduce(torch.ones(4))
""")
        self.expect(said, "CohortBackendError", 2, r"\[\]", "ValueError: bad shard 17")
        self.assertIn("ValueError: bad shard 17", self.errors)

    def test_killed_process_is_named(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    for step in range(5):
        if step == 3 and rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(4))
""")
        self.expect(said, "CohortBackendError", 2, r"\[.*\]", "was killed by signal 9")

    def test_different_calls_are_described(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    dist.all_reduce(torch.ones(7 if rank == 2 else 10))
""")
        for line in said:
            self.assertRegex(line, r"CohortBackendError 2 .*rank 2 calls all_reduce of 7 float32")

    def test_chain_of_messages_names_the_rank_at_its_end(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    x = torch.ones(4)
    for step in range(4):
        if rank == 2 and step == 3:
            time.sleep(8)
        if rank < 2:
            dist.recv(x, rank + 1)
        if rank > 0:
            dist.send(x, rank - 1)
""", limit=3)
        for line in said:
            self.assertRegex(line, "^[012] CohortBackendError 2 .*rank 2 .*has not called send")
        self.assertEqual(len(said), 3, (said, self.errors))

    def test_chain_of_first_messages_names_what_the_last_rank_does(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    x = torch.ones(4)
    dist.barrier()
    for step in range(2):
        if rank == 2 and step == 1:
            time.sleep(8)
        if rank < 2:
            dist.recv(x, rank + 1)
        if rank > 0 and step == 0:
            dist.send(x, rank - 1)
""", limit=3)
        for line in said:
            self.assertRegex(line, "^[012] CohortBackendError 2 ")
            self.assertNotIn("has exited", line)
        self.assertRegex(said[1], "rank 2 .*is asleep in clock_nanosleep")

    def test_rank_that_does_not_open_a_process_group_is_named(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    dist.barrier()
    if rank == 2:
        time.sleep(8)
        return
    dist.new_group([0, 1, 2])
""", limit=2)
        self.expect(said, "CohortBackendError", 2, r"\[2\]",
                    "timeout of 2 s: rank 2 has not opened the process group")

    def test_first_message_without_a_partner_is_named(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    dist.barrier()
    x = torch.ones(1)
    try:
        if rank == 1:
            dist.recv(x, 2, tag=7)
    except RuntimeError as error:
        say(error)
    time.sleep(3)
""", limit=2)
        self.assertRegex(said[0], r"timeout of 2 s: rank 2 has not called send\(1, tag=7\)")

    def test_first_message_to_a_rank_that_left_ends_before_its_timeout(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    if rank == 2:
        dist.destroy_process_group()
    else:
        try:
            if rank == 0:
                dist.recv(torch.ones(4), 2)
        except RuntimeError as error:
            say(error.global_rank, "has closed the group; rank 0 waits in comm" in str(error))
        store = dist.distributed_c10d._get_default_store()
        store.add("done", 1)
        while store.add("done", 0) < 2:
            time.sleep(0.01)
""", 1000)
        self.assertEqual(said, ["2 True"])

    def test_hang_in_one_process_group_is_named_in_another(self):
        said = self.ranks(4, """
def program(rank):
    start(rank)
    short = datetime.timedelta(seconds=3)
    rows = [dist.new_group([0, 1], timeout=short), dist.new_group([2, 3], timeout=short)]
    columns = [dist.new_group([0, 2], timeout=short), dist.new_group([1, 3], timeout=short)]
    try:
        for step in range(4):
            if rank == 3 and step == 3:
                time.sleep(8)
            dist.all_reduce(torch.ones(4), group=rows[rank // 2])
            dist.all_reduce(torch.ones(4), group=columns[rank % 2])
    except RuntimeError as error:
        say(rank, error.global_rank, "rank 3" in str(error))
""", limit=60)
        self.assertEqual(said, [f"{rank} 3 True" for rank in range(4)], self.errors)

    def test_rank_that_exits_because_of_an_error_is_not_blamed(self):
        said = self.ranks(4, """
def program(rank):
    start(rank)
    group = dist.new_group([1, 2, 3], timeout=datetime.timedelta(seconds=2))
    if rank == 3:
        time.sleep(8)
        return
    try:
        dist.barrier(group if rank else None)
    except RuntimeError as error:
        say(rank, error.global_rank, "rank 3" in str(error))
        raise ValueError("cannot continue") from error
""", limit=60)
        self.assertEqual(said, [f"{rank} 3 True" for rank in range(3)], self.errors)

    def leaves_after_error(self, what, groups):
        """Return what ranks 0 and 1 print if rank 1 leaves after an error that blames rank 2."""
        return self.ranks(3, f"""
def program(rank):
    start(rank)
    short = datetime.timedelta(seconds=1)
    {groups}
    dist.barrier()
    if rank == 2:
        time.sleep(4)
        return
    try:
        dist.barrier(pair if rank else others)
        dist.barrier(others)
    except RuntimeError as error:
        say(rank, error.global_rank)
    if rank == 1:
        {what}
""")

    def test_rank_that_leaves_because_of_an_error_is_not_blamed(self):
        pair = "pair = dist.new_group([1, 2], timeout=short)"
        others = "others = dist.new_group([0, 1])"
        for what in "raise SystemExit", "dist.destroy_process_group(); time.sleep(2)":
            for groups in f"{pair}; {others}", f"{others}; {pair}":
                self.assertEqual(self.leaves_after_error(what, groups), ["0 2", "1 2"],
                                 (what, groups, self.errors))

    def test_rank_that_leaves_long_after_an_error_is_blamed(self):
        said = self.leaves_after_error(
            "dist.barrier(others); dist.destroy_process_group(); time.sleep(2)",
            "pair = dist.new_group([1, 2], timeout=short); others = dist.new_group([0, 1])")
        self.assertEqual(said, ["0 1", "1 2"], self.errors)

    def test_process_group_shrinks_without_a_dead_rank(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    try:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(4))
    except RuntimeError as error:
        smaller = dist.shrink_group([error.rank])
        x = torch.full((4,), rank + 1.0)
        dist.all_reduce(x)
        say(rank, dist.get_rank(), dist.get_world_size(), x[0].item(), smaller.size())
    dist.destroy_process_group()
""")
        self.assertEqual(said, ["0 0 2 4.0 2", "2 1 2 4.0 2"], self.errors)

    def test_program_may_end_without_destroy_process_group(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    x = torch.ones(1 << 22)
    for _ in range(3):
        dist.all_reduce(x)
    say(rank, "ok")
""")
        self.assertEqual(said, ["0 ok", "1 ok", "2 ok"])

    def test_process_group_opens_again_on_the_same_store(self):
        # Use one store for all process groups, as torchrun does.
        said = self.ranks(3, """
def program(rank):
    import cohort.torch
    store = dist.FileStore(path, n)
    for _ in range(5):
        dist.init_process_group("cohort", store=store, rank=rank, world_size=n,
                                timeout=datetime.timedelta(seconds=limit))
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == n
        group = dist.new_group([0, 2])
        dist.destroy_process_group()
    say(rank, "ok")
""")
        self.assertEqual(said, ["0 ok", "1 ok", "2 ok"])

    def test_message_to_its_own_rank_is_refused(self):
        said = self.ranks(2, """
def program(rank):
    start(rank)
    try:
        dist.isend(torch.ones(1), rank)
    finally:
        dist.barrier()
""")
        for rank, line in enumerate(said):
            self.assertIn(f"rank {rank} cannot send to itself", line)
        self.assertEqual(len(said), 2)

    def test_monitored_barrier_names_the_missing_ranks(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    dist.barrier()
    if rank:
        time.sleep(2)
        return
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5), wait_all_ranks=True)
""")
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "Ranks 1, 2 failed to pass monitoredBarrier in 500 ms")

    def test_rank_that_misses_a_monitored_barrier_is_to_blame(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    dist.barrier()
    if rank == 2:
        time.sleep(2)
        return
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5))
""")
        self.expect(said, "CohortBackendError", 2, r"\[2\]",
                    "Rank 2 failed to pass monitoredBarrier in 500 ms")

    def test_error_names_the_timeout_that_has_expired(self):
        said = self.ranks(3, """
def program(rank):
    start(rank)
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=77))
    if rank == 2:
        time.sleep(5)
        return
    x = torch.ones(1)
    try:
        dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=0.5))
    except RuntimeError as error:
        say(rank, "timeout of 0.5 s" in str(error))
    if rank == 0:
        dist.barrier(group)
    time.sleep(4)
    dist.barrier(group)
""", limit=2)
        # The world's deadline has ended the group as well, so the error must not name the group's.
        self.assertRegex(said[0], r"^0 CohortBackendError -1 \[\] \[pg 1 rank 0\] Stalled: ")
        self.assertEqual([line for line in said if "True" in line], ["0 True", "1 True"])

    def test_unsupported_calls_are_refused_with_a_reason(self):
        said = self.ranks(2, """
def program(rank):
    start(rank)
    for call, told in (
            (lambda: dist.all_reduce(torch.ones(4).to_sparse()), "torch.sparse_coo"),
            (lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32), dist.ReduceOp.AVG),
             "AVG needs a floating-point type, not torch.int32"),
            (lambda: dist.recv(torch.ones(4)), "cannot receive from any rank"),
            (lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1, 1], [2, 2]),
             "output has 4 rows, its splits 2")):
        try:
            call()
            say("not refused:", told)
        except (RuntimeError, ValueError) as error:
            assert told in str(error), (told, error)
    x = torch.ones(4)
    dist.all_reduce(x)
    say(rank, x[0].item())
    dist.destroy_process_group()
    try:
        dist.all_reduce(x)
    except ValueError:
        pass
""")
        self.assertEqual(said, ["0 2.0", "1 2.0"])


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Threads(Case):
    """A thread per rank in this process."""

    @staticmethod
    def mlp():
        generator = torch.Generator().manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(),
                                  torch.nn.Linear(64, 16))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
        return net

    @staticmethod
    def train(net, rank):
        x = torch.randn(8, 32, generator=torch.Generator().manual_seed(rank))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
        return round(loss.item(), 5)

    def test_results_are_in_the_order_of_ranks(self):
        dist = torch.distributed

        def program(factor):
            x = torch.ones(3) * dist.get_rank()
            dist.all_reduce(x)
            group = dist.new_group([0, 2])
            y = torch.ones(1)
            if dist.get_rank() != 1:
                dist.all_reduce(y, group=group)
            objects = [None] * dist.get_world_size()
            dist.all_gather_object(objects, dist.get_rank())
            return dist.get_rank() * factor, x[0].item(), y.item(), objects
        self.assertEqual(cohort.torch.run(program, 3, 10), [
            (0, 3.0, 2.0, [0, 1, 2]), (10, 3.0, 1.0, [0, 1, 2]), (20, 3.0, 2.0, [0, 1, 2])])
        self.assertFalse(dist.is_initialized())

    def test_async_function_raises(self):
        async def program():
            torch.distributed.barrier()
        with self.assertRaisesRegex(TypeError, "fn is .*, an async or generator function"):
            cohort.torch.run(program, 2)

    def test_exception_of_a_rank_is_the_cause(self):
        def program():
            if torch.distributed.get_rank() == 1:
                raise ValueError("bad shard")
            torch.distributed.all_reduce(torch.ones(3))
        with self.assertRaisesRegex(cohort.torch.CohortBackendError,
                                    "rank 1 raised ValueError: bad shard") as caught:
            cohort.torch.run(program, 3)
        self.assertIsInstance(caught.exception.__cause__, ValueError)
        self.assertEqual(caught.exception.rank, 1)
        self.assertEqual(sorted(caught.exception.exceptions), [0, 1, 2])
        self.assertIn("ValueError: bad shard", str(caught.exception.exceptions[0]))

    def test_rank_that_returns_early_is_named(self):
        def program():
            if torch.distributed.get_rank() == 2:
                return
            torch.distributed.all_reduce(torch.ones(3))
        with self.assertRaisesRegex(RuntimeError, "rank 2 has left") as caught:
            cohort.torch.run(program, 3)
        self.assertEqual(caught.exception.rank, 2)

    def test_first_message_to_a_rank_that_returned_ends_at_once(self):
        def program():
            if torch.distributed.get_rank() != 2:
                torch.distributed.recv(torch.ones(4), 2)
        with self.assertRaisesRegex(RuntimeError, "InitTimeout: rank 2 .*has left") as caught:
            cohort.torch.run(program, 3, timeout=1000.0)
        self.assertEqual({error.global_rank for error in caught.exception.exceptions.values()}, {2})

    def test_chain_of_messages_names_the_rank_at_its_end(self):
        def program():
            dist, x = torch.distributed, torch.ones(4)
            rank = dist.get_rank()
            for step in range(4):
                if rank == 2 and step == 3:
                    time.sleep(3)
                if rank < 2:
                    dist.recv(x, rank + 1)
                if rank > 0:
                    dist.send(x, rank - 1)
        with self.assertRaisesRegex(RuntimeError, "rank 2 .*has not called send") as caught:
            cohort.torch.run(program, 3, timeout=1.0)
        self.assertEqual({error.global_rank for error in caught.exception.exceptions.values()}, {2})

    def test_hung_rank_is_named_and_abandoned(self):
        text = """
import threading, time, torch, torch.distributed as dist
import cohort.torch, cohort._torch_run
cohort._torch_run._PATIENCE_S = 1.0
stay = threading.Event()
def program():
    dist.barrier()
    if dist.get_rank() == 1:
        stay.wait()
    dist.all_reduce(torch.ones(3))
try:
    cohort.torch.run(program, 3, timeout=1.0)
except RuntimeError as error:
    print(error.rank, error.abandoned, "has not called all_reduce" in str(error))
stay.set()
"""
        self.assertIn("1 [1] True\n", self.program(text))

    def test_hang_in_a_backward_pass_blames_the_hung_rank(self):
        def program():
            rank = torch.distributed.get_rank()
            net = torch.nn.parallel.DistributedDataParallel(self.mlp())
            self.train(net, rank)
            if rank == 2:
                time.sleep(2)
            self.train(net, rank)
        with self.assertRaisesRegex(cohort.torch.CohortBackendError,
                                    "rank 2 has not called all_reduce") as caught:
            cohort.torch.run(program, 3, timeout=1.0)
        self.assertEqual((caught.exception.rank, caught.exception.missing), (2, {2}))

    def test_run_restores_the_exception_hook(self):
        hook = sys.excepthook
        cohort.torch.run(torch.distributed.barrier, 2)
        self.assertIs(sys.excepthook, hook)

    def test_wrong_number_of_ranks_is_refused(self):
        for ranks in 0, -1, 2.0, True, "2":
            with self.assertRaisesRegex(ValueError, "^ranks is "):
                cohort.torch.run(print, ranks)


@unittest.skipUnless(torch, "no PyTorch")
class Reductions(Case):
    """PyTorch's reductions in calls of this package."""

    def test_reductions_are_translated_by_name(self):
        def worker(comm):
            x = torch.ones(3) * (comm.rank + 1)
            comm.all_reduce(x, op=torch.distributed.ReduceOp.PRODUCT).wait()
            return x[0].item()
        with cohort.Group.open(2, platform="host") as group:
            self.assertEqual(group.run(worker), [2.0, 2.0])

    def test_unknown_reductions_are_refused(self):
        def worker(comm):
            with self.assertRaisesRegex(ValueError, "op is .*, not one of sum"):
                comm.all_reduce(torch.ones(3), op=torch.distributed.ReduceOp.BXOR)
        with cohort.Group.open(2, platform="host") as group:
            group.run(worker)


if __name__ == "__main__":
    unittest.main()
