"""rollcall.torch.elastic at a notice, and with errors of the training program.

Needs torch 2.14 in the virtual environment that `scripts/packages.sh pytorch`
makes; without it the tests are skipped.
"""
import os
import signal
import unittest

import harness
from rank_elastic_test import ElasticTest

# Trains until the file of its argument exists. A test replaces CAUGHT, SAVES and
# AFTERWARDS by statements.
TRAINS = """
import os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rollcall.torch import elastic
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
state = elastic.State(model, torch.optim.SGD(model.parameters(), lr=0.01))
failed = []

@elastic.run
def train(state):
    print("enters", state.rank, state.size, "after", state.step, flush=True)
    ddp = DistributedDataParallel(state.model)
    while True:
        try:
            ddp(torch.rand(8, 4)).sum().backward()
            ends = torch.tensor([float(os.path.exists(sys.argv[1]))])
            dist.all_reduce(ends)
            state.commit()
        except Exception:
            state.model.zero_grad()
            CAUGHT
        if state.step % 20 == 0:
            print("step", state.step, "of", state.size, flush=True)
        if ends.item() > 0:
            return

def on_notice(notice):
    print("saves", state.step, notice.kind.name, flush=True)
    SAVES

train(state, on_notice=on_notice)
print("ends", flush=True)
AFTERWARDS
"""


class Notices(ElasticTest):
    def script(self, caught="raise", saves="pass", afterwards="pass"):
        text = TRAINS
        for name, value in (("CAUGHT", caught), ("SAVES", saves),
                            ("AFTERWARDS", afterwards)):
            text = text.replace(name, value)
        return [self.python, "-c", text, self.ends_now]

    def test_ranks_that_hear_of_it_one_after_the_other_all_save(self):
        launcher, _, workers = self.begin(
            [*harness.whole("2:4")], ["w1", "w2", "w3"], self.script())
        launcher.await_line(r"step \d+ of 4")
        late = [workers["w2"], workers["w3"]]
        for node in late:
            node.signal(signal.SIGSTOP)
        workers["w1"].signal(signal.SIGTERM)
        launcher.await_line(r"saves \d+ DRAIN")
        for node in late:
            # The first one leaves the group, in which the other one may wait for
            # it and get an error. That depends on Gloo.
            node.signal(signal.SIGCONT)
            node.await_line(r"saves \d+ DRAIN")
        self.assert_code(workers["w1"], 0)
        launcher.await_line(r"enters \d 3 after")
        with open(self.ends_now, "w", encoding="ascii"):
            pass
        for node in (launcher, *late):
            self.assert_code(node, 0)
        steps = {node.find(r"saves (\d+) DRAIN")[1]
                 for node in (launcher, *workers.values())}
        self.assertEqual(len(steps), 1, steps)

    def test_an_error_of_on_notice_ends_the_process(self):
        launcher, _, workers = self.begin(
            [*harness.whole("1:2"), "--max-restarts", "0"], ["w1"],
            self.script(saves="torch.save(torch.zeros(9), '/dev/full')"))
        launcher.await_line(r"step \d+ of 2")
        workers["w1"].signal(signal.SIGTERM)
        self.assertNotEqual(launcher.wait(), 0)
        for node in (launcher, workers["w1"]):
            self.assertIn("in on_notice", node.text())
            self.assertNotIn("During handling", node.text())
            self.assertNotIn("say that the world", node.text())

    def test_a_program_that_catches_exceptions_goes_on(self):
        launcher, _, workers = self.begin(
            [*harness.whole("1:3")], ["w1", "w2"],
            self.script(caught="continue"))
        launcher.await_line(r"step \d+ of 3")
        workers["w2"].signal(signal.SIGKILL)
        for pid in harness.descendants(workers["w2"].pid):
            os.kill(pid, signal.SIGKILL)
        launcher.await_line(r"step \d+ of 2")
        workers["w1"].signal(signal.SIGTERM)
        self.assert_code(workers["w1"], 0)
        launcher.await_line(r"step \d+ of 1")
        with open(self.ends_now, "w", encoding="ascii"):
            pass
        self.assert_code(launcher, 0)
        # No process was started again.
        for node in (launcher, workers["w1"]):
            self.assertEqual(len([line for line in node.out()
                                  if "after 0" in line]), 1, node.text())

    def test_a_process_runs_one_elastic_function(self):
        launcher, _, workers = self.begin(
            ["--nodes", "2", "--max-restarts", "0"], ["w1"],
            self.script(afterwards="train(state)"))
        launcher.await_line(r"step \d+ of 2")
        with open(self.ends_now, "w", encoding="ascii"):
            pass
        self.assertNotEqual(launcher.wait(), 0)
        self.assertIn("a process can run one elastic function",
                      launcher.text() + workers["w1"].text())


if __name__ == "__main__":
    unittest.main()
