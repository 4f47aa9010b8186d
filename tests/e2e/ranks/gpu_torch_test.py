"""Tests PyTorch ranks on a GPU over NCCL. Skipped if there is no GPU.

The ranks share one GPU, as in gpu_test. ROLLCALL_TEST_TORCH_PYTHON is a Python
with a torch with CUDA.
"""
import unittest

import rank_elastic_test
from gpus import apart, gpus
from harness import E2E
from rank_python_test import ENVIRONMENT
from with_torch import PYTHON

# In its first world, rank 1 does not take part in the tenth all-reduce. The
# others wait for it on the GPU.
HANGS = """
import os, sys, threading
import torch, torch.distributed as dist
attached = sys.argv[1] == "attached"
if attached:
    import rollcall
    from rollcall.torch import init_process_group
    rank = init_process_group("nccl")
    generation = rank.world.generation
else:
    dist.init_process_group("nccl")
    generation = int(os.environ["ROLLCALL_GENERATION"])
    progress = open(os.environ["ROLLCALL_PROGRESS"], "w")
ones = torch.ones(1000, device="cuda")
for step in range(1, 21):
    if generation == 1 and step == 10 and dist.get_rank() == 1:
        threading.Event().wait()
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    if attached:
        rank.progress(step)
    else:
        progress.seek(0)
        progress.write(f"{step}\\n")
        progress.flush()
    print("step", step, flush=True)
os._exit(0)
"""


@unittest.skipUnless(gpus(), "the driver shows no GPU")
class Hangs(E2E):
    def hang(self, how):
        """Runs a job of three nodes that hangs once; returns its agents."""
        command = apart([PYTHON, "-c", HANGS, how])
        launcher = self.launch(
            ["--hang-timeout", "5s", "--nodes", "3", "--name", "w0",
             "--max-restarts", "1"], command, ENVIRONMENT)
        join = self.join_string(launcher)
        agents = [launcher] + [
            self.join(join, ["--name", name], command, ENVIRONMENT)
            for name in ("w1", "w2")]
        for agent in agents:
            agent.await_line(r"step 9$", deadline_s=120)
        for agent in agents:
            self.assert_code(agent, 0, 120)
        return agents

    def test_nccl_says_which_plain_command_is_behind(self):
        agents = self.hang("plain")
        said = agents[1].await_line(
            r"rank 1 on (w\d) made no progress: it has begun fewer collectives of "
            r"NCCL than others, after step 9 \(.*; NCCL: 9 collectives begun in "
            r"communicator 0x\w+ of 3 ranks, others 10\)", "err")
        for agent in agents:
            waits = agent.find(r"NCCL: 10 collectives begun .*, waits for rank 1 "
                               r"\(process \d+ on [\d.]+\) with 9", "err")
            self.assertEqual(waits is None, f"[{said[1]}/1]" in agent.text())

    def test_a_rank_that_hangs_before_a_collective_is_named(self):
        agents = self.hang("attached")
        agents[1].await_line(
            r"rank 1 on w\d made no progress: it has begun collective 8, while "
            r"others have begun 9, after step 9 ", "err")


@unittest.skipUnless(gpus(), "the driver shows no GPU")
class Elastic(rank_elastic_test.Elastic):
    # NCCL and CUDA themselves use some 100 MiB more after the first ten groups,
    # and no more after that.
    growth_kib_max = {"agent": 4096, "rank": 262144}

    def setUp(self):
        E2E.setUp(self)
        self.python = PYTHON
        self.env = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
        self.ends_now = self.stage.path("ends")

    def apart(self, command):
        return apart(command)

    def test_a_killed_rank_costs_no_step_and_no_bit(self):
        super().test_a_killed_rank_costs_no_step_and_no_bit()

    def test_nodes_come_and_go(self):
        super().test_nodes_come_and_go()

    def test_two_eight_three_eight_one(self):
        super().test_two_eight_three_eight_one()

    def test_random_kills_of_ranks_agents_nodes_and_the_daemon(self):
        super().test_random_kills_of_ranks_agents_nodes_and_the_daemon()


if __name__ == "__main__":
    unittest.main()
