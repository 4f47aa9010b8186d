"""rollcall.torch: PyTorch's process groups over the store of a generation."""
import unittest

from rank_python_test import ENVIRONMENT
from with_torch import PYTHON, WithTorch

# The operations that PyTorch and Gloo do on a store; all ranks run this script.
TRAINS = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rollcall.torch import init_process_group
with init_process_group("gloo") as rank:
    me, size = rank.world.rank, rank.world.size
    total = torch.tensor([float(me + 1)])
    dist.all_reduce(total)
    assert total.item() == size * (size + 1) / 2
    odd = dist.new_group([r for r in range(size) if r % 2] or [0])
    if me % 2:
        total = torch.tensor([1.0])
        dist.all_reduce(total, group=odd)
        assert total.item() == size // 2
    things = [{"from": 0} if me == 0 else None]
    dist.broadcast_object_list(things)
    assert things == [{"from": 0}]
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    model(torch.full((2, 3), float(me))).sum().backward()
    grad = model.module.weight.grad
    # Averaged over the ranks: two rows of their own numbers each.
    assert torch.allclose(grad, torch.full((1, 3), float(size - 1))), grad
    dist.barrier()
    print("trained", me, size, flush=True)
    # No rank takes the others' connections away while they use them.
    dist.barrier()
    dist.destroy_process_group()
"""

# Calls each method of a store that C++ or Python uses, here through C++.
STORES = """
import threading
from datetime import timedelta
import torch.distributed as dist
from rollcall._store import LocalStore
from rollcall.torch import KeyValueStore, Store
store = Store(timeout=timedelta(seconds=30))
prefix = dist.PrefixStore("p", store)
prefix.set("k", "v")
assert prefix.get("k") == b"v" and store.get("p/k") == b"v"
assert prefix.add("n", 2) == 2 and prefix.add("n", -3) == -1
assert prefix.compare_set("c", "", "first") == b"first"
assert prefix.compare_set("c", "other", "second") == b"first"
assert prefix.num_keys() == 3
assert prefix.delete_key("c") and not prefix.delete_key("c")
prefix.wait(["k", "n"], timedelta(seconds=1))
for call in ("append", "check", "multi_get", "multi_set", "has_extended_api"):
    which = prefix if hasattr(prefix, call) else store
    start = "" if which is prefix else "p/"
    if call == "append":
        which.append(start + "k", "w"), which.append(start + "l", "x")
    elif call == "check":
        assert which.check([start + "k"]) and not which.check([start + "no"])
    elif call == "multi_get":
        assert which.multi_get([start + "k", start + "l"]) == [b"vw", b"x"]
    elif call == "multi_set":
        which.multi_set([start + "a", start + "b"], ["1", "2"])
        assert prefix.get("b") == b"2"
    else:
        assert which.has_extended_api()
assert store.clone().get("p/a") == b"1"
# A clone is of the same class, and uses the same store.
class Other(Store):
    pass
other = Other()
other.use(KeyValueStore(LocalStore()))
other.set("only", "there")
clone = other.clone()
assert type(clone) is Other and clone.check(["only"])
try:
    prefix.wait(["never"], timedelta(milliseconds=50))
    raise SystemExit("waited for nothing")
except RuntimeError as error:  # By which PyTorch knows a time-out.
    assert "p/never" in str(error), error
# Threads wait through C++, also while another one holds the interpreter's lock.
got = []
threads = [threading.Thread(target=lambda: got.append(prefix.get("late")))
           for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(3):
    sum(range(3_000_000))  # Keeps the lock for all of its time.
store.set("p/late", "came")
sum(range(3_000_000))
for thread in threads:
    thread.join(30)
assert got == [b"came"] * 4
print("stored", flush=True)
"""


# Counts Gloo's calls of get() when it reads the addresses of all ranks.
READS = """
import torch.distributed as dist
import rollcall.torch
class Store(rollcall.torch.Store):
    gets = 0
    def get(self, key):
        self.gets += 1
        return super().get(key)
store = Store()
dist.init_process_group("gloo", store=store, rank=store.rank.world.rank,
                        world_size=store.rank.world.size)
dist.barrier()
print("gets", store.gets, flush=True)
dist.barrier()
dist.destroy_process_group()
store.rank.finish()
"""

# How long a collective of the group may take, beside PyTorch's default.
LIMITS = """
import sys, torch
from datetime import timedelta
import torch.distributed as dist
from rollcall.torch import init_process_group
given = {"timeout": timedelta(seconds=77)} if sys.argv[1:] else {}
init_process_group("gloo", **given)
group = dist.distributed_c10d._get_default_group()
if hasattr(group, "_get_backend"):  # torch 2
    group = group._get_backend(torch.device("cpu"))
limit = group.options._timeout
assert limit == given.get("timeout", dist.distributed_c10d.default_pg_timeout)
print("limited", flush=True)
"""

RECORDS = """
from torch._C import _distributed_c10d
_distributed_c10d._dump_fr_trace_json
"""

# Rank 1 hangs before the all-reduce that rank 0 waits in. The script itself
# counts no collectives.
HANGS = """
import os, torch, torch.distributed as dist
from rollcall.torch import init_process_group
rank = init_process_group("gloo")
for step in range(1, 4):
    dist.all_reduce(torch.ones(1))
    rank.progress(step)
if rank.world.generation == 1:
    if rank.world.rank == 1:
        os.read(os.pipe()[0], 1)
    dist.all_reduce(torch.ones(1))
dist.barrier()
rank.finish()
dist.destroy_process_group()
"""


class Torch(WithTorch):
    def need_newer(self):
        if self.stage.run([PYTHON, "-c", RECORDS]).code != 0:
            self.skipTest(f"NOT TESTED: the torch of {PYTHON} does not record "
                          "collectives over Gloo; set ROLLCALL_TEST_TORCH_PYTHON "
                          "to one with torch 2.9 or newer")

    def test_gloo_reads_all_addresses_at_once(self):
        self.need_newer()
        # A value that the user has set is kept.
        for environment, gets in (
                ({}, 0), ({"GLOO_ENABLE_STORE_V2_API": "0"}, 4)):
            launcher = self.launch(
                ["--local-workers", "1", "--nproc-per-node", "2",
                 "--max-restarts", "0"], [PYTHON, "-c", READS],
                {**ENVIRONMENT, **environment})
            self.assert_code(launcher, 0)
            found = launcher.await_lines(r"gets (\d+)", 4)
            self.assertEqual({int(m[1]) for m in found}, {gets})

    def test_a_rank_that_hangs_before_a_collective_is_named(self):
        self.need_newer()
        launcher = self.launch(
            ["--nodes", "2", "--name", "w0", "--hang-timeout", "5s",
             "--max-restarts", "1"], [PYTHON, "-c", HANGS], ENVIRONMENT)
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           [PYTHON, "-c", HANGS], ENVIRONMENT)
        for agent in (launcher, worker):
            self.assert_code(agent, 0)
        # Collectives are counted from the first step on.
        worker.await_line("rank 1 on w1 made no progress: it has begun "
                          "collective 2, while others have begun 3", "err")

    def test_gloo_and_ddp_over_the_store(self):
        launcher = self.launch(
            ["--local-workers", "1", "--nproc-per-node", "2",
             "--max-restarts", "0"], [PYTHON, "-c", TRAINS], ENVIRONMENT)
        self.assert_code(launcher, 0)
        found = launcher.await_lines(r"trained (\d) 4", 4)
        self.assertEqual(sorted(m[1] for m in found), ["0", "1", "2", "3"])

    def test_each_call_of_a_store(self):
        launcher = self.launch(["--max-restarts", "0"],
                               [PYTHON, "-c", STORES], ENVIRONMENT)
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find("stored"))

    def test_without_an_agent(self):
        for script, said in ((STORES, "stored"), (TRAINS, "trained 0 1")):
            tried = self.stage.run([PYTHON, "-c", script], ENVIRONMENT)
            self.assertEqual(tried.out(), [said], tried.text())

    def test_the_time_limit_is_that_of_pytorch_unless_it_is_given(self):
        for given in ([], ["given"]):
            tried = self.stage.run([PYTHON, "-c", LIMITS, *given], ENVIRONMENT)
            self.assertEqual(tried.out(), ["limited"], tried.text())

    def test_what_comes_from_the_world_is_refused(self):
        tried = self.stage.run(
            [PYTHON, "-c", "import rollcall.torch as t; "
             "t.init_process_group('gloo', rank=1)"], ENVIRONMENT)
        self.assertNotEqual(tried.code, 0)
        self.assertIn("rank comes from the world; leave it out", tried.text())


if __name__ == "__main__":
    unittest.main()
