"""Tests rollcall-train on a GPU with NCCL. Skipped if there is no GPU.

The ranks share one GPU. Each has its own NCCL_HOSTID, so NCCL treats them as
ranks of different machines and connects them by sockets.
"""
import os
import re
import signal
import unittest

import harness
from elastic_test import SMALL, TEXT, TRAIN
from gpus import apart, gpus
from harness import E2E, command_line, descendants


@unittest.skipUnless(gpus(), "the driver shows no GPU")
class Gpu(E2E):
    def train(self, *flags, steps=1_000_000):
        return [TRAIN, "--data", *TEXT, "--steps", str(steps), *SMALL, *flags]

    def ranks(self, agent):
        return {p for p in descendants(agent.pid)
                if command_line(p)[:1] == [TRAIN]}

    def test_survivors_live_on_and_a_newcomer_joins(self):
        command = apart(self.train("--device", "cuda"))
        launcher = self.launch(["--nodes", "2:3", "--max-restarts", "0",
                                "--name", "w0"], command)
        join = self.join_string(launcher)
        agents = [self.join(join, ["--name", name], command)
                  for name in ("w1", "w2")]
        left = [launcher, agents[0]]
        for agent in (*left, agents[1]):
            agent.await_line(r"\] step 20 .* world 3 generation 1$")
        launcher.await_line(r"parameters on GPU 0, ")
        before = [self.ranks(agent) for agent in left]
        agents[1].signal(signal.SIGKILL)
        for agent in left:
            agent.await_lines(r"\] step \d+ .* world 2 generation 2$", 5)
        newcomer = self.join(join, ["--name", "w3"], command)
        for agent in (*left, newcomer):
            agent.await_lines(r"\] step \d+ .* world 3 generation 3$", 5)
        self.assertEqual([self.ranks(agent) for agent in left], before)
        # No step is repeated; one may be missing if another rank completed it.
        steps = [int(m.group(1)) for line in launcher.out()
                 for m in [re.search(r"\] step (\d+) loss", line)] if m]
        for earlier, later in zip(steps, steps[1:]):
            self.assertIn(later, (earlier + 1, earlier + 2))
        launcher.signal(signal.SIGINT)
        launcher.signal(signal.SIGINT)
        for agent in (*left, newcomer):
            agent.wait()

    def test_more_ranks_than_gpus_train_on_cpus(self):
        launcher = self.launch(
            ["--nodes", "1", "--nproc-per-node", str(gpus() + 1)],
            self.train(steps=5))
        launcher.await_line(r"--device auto chose the CPU: there is no GPU left "
                            rf"for rank {gpus()} on ")
        launcher.await_line(r"parameters on the CPU, ")
        self.assert_code(launcher, 0)

    def test_more_ranks_than_gpus_are_an_error_if_gpus_are_demanded(self):
        launcher = self.launch(
            ["--nodes", "1", "--nproc-per-node", str(gpus() + 1),
             "--max-restarts", "0"],
            self.train("--device", "cuda", steps=5))
        self.assert_code(launcher, 1)
        self.assertRegex(launcher.text(),
                         rf"rank {gpus()} on .* other ranks of this world use "
                         r"(the only GPU|all \d+ GPUs) that it sees")

    def test_a_newcomer_joins_those_who_train_on_cpus(self):
        # When these ranks began, no GPU was left for them; one is free now.
        both = self.train()
        launcher = self.launch(
            ["--nodes", "2:3", "--name", "w0", "--nproc-per-node",
             str(gpus() + 1)], both)
        join = self.join_string(launcher)
        first = self.join(join, ["--name", "w1"], both)
        first.await_line(r"\] step 5 .* generation 1$")
        newcomer = self.join(join, ["--name", "w2"], both)
        newcomer.await_line(rf"\] step \d+ .* world {gpus() + 3} generation 2$")
        launcher.signal(signal.SIGINT)
        launcher.signal(signal.SIGINT)
        for agent in (launcher, first, newcomer):
            agent.wait()

    def test_one_rank_alone_is_checked(self):
        alone = self.stage.start([TRAIN, "--check", "--max-bytes", "4K"])
        self.assert_code(alone, 0)

    def test_the_network_of_gpus_is_checked(self):
        launcher = self.launch(
            ["--nodes", "2", "--local-workers", "1"],
            apart([TRAIN, "--check", "--device", "cuda", "--max-bytes",
                        "64K", "--pings", "20", "--require-net", "socket"]))
        launcher.await_line(r"# rollcall-train --check: 2 ranks on 2 nodes, "
                            r"transport Socket$")
        self.assert_code(launcher, 0)


if __name__ == "__main__":
    unittest.main()
