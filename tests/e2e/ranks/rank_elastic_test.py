"""rollcall.torch.elastic: PyTorch ranks that outlive changes of the world.

They need torch 2.14 and run in the virtual environment that `scripts/packages.sh
pytorch` makes; without it they are skipped. elastic_parts_test.py tests the parts
without ranks.
"""
import os
import random
import re
import signal
import unittest

import harness
from harness import E2E
from paths import PYTORCH_VENV
from rank_python_test import ENVIRONMENT

# Uses the class for NCCL's groups over Gloo. Over Gloo it frees a rank that
# waits for another rank only if the other's connections end, that is in a world
# of two.
REPLACED = """
from rollcall.torch import _groups, elastic
class OverGloo(_groups.Replaced):
    _BACKEND = "gloo"
elastic.groups_over = lambda backend: OverGloo
"""

# Trains until the sampler is exhausted, or as STOP says. Rank 0 prints each step;
# all ranks print the loss over all data and their final state.
TRAINS = """
import os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rollcall.torch import elastic
END, STOP = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(1)
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = torch.rand(1024, 4, generator=torch.Generator().manual_seed(0)).to(device)
target = data.sum(1, keepdim=True).sin()
model = torch.nn.Sequential(
    torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(),
    torch.nn.Dropout(0.0), torch.nn.Linear(16, 1)).to(device)
optimizers = [torch.optim.AdamW(model[:2].parameters(), lr=1e-3),
              torch.optim.SGD(model[2:].parameters(), lr=1e-3, momentum=0.9)]
schedulers = [torch.optim.lr_scheduler.LambdaLR(one, lambda step: 0.999 ** step)
              for one in optimizers]
scaler = torch.amp.GradScaler(device.type)
state = elastic.State(model, optimizers, elastic.Sampler(1024, 32, epochs=END),
                      schedulers, scaler, taken=[])

@elastic.run
def train(state):
    rank, size = dist.get_rank(), dist.get_world_size()
    print("enters", rank, size, "after", state.step, "pid", os.getpid(),
          flush=True)
    ddp = DistributedDataParallel(state.model)
    subgroup = dist.new_group() if device.type == "cuda" else None
    for indices in state.sampler:
        loss = ((ddp(data[indices]) - target[indices]) ** 2).mean()
        scaler.scale(loss * state.sampler.weight).backward()
        for one in optimizers:
            scaler.unscale_(one)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        at = state.sampler.state()
        state.taken = state.taken + [(at["epoch"], at["taken"])]
        if STOP == "fails" and state.step == 20 and rank == 1:
            raise ValueError("a mistake")
        state.commit(loss.item())
        if state.step % 20 == 0:
            print("step", state.step, "of", size, flush=True)
        if STOP == "until":
            ends = torch.tensor([float(os.path.exists(sys.argv[3]))]).to(device)
            dist.all_reduce(ends, group=subgroup)
            if ends.item() > 0:
                return state.step
        if STOP == str(state.step):
            return state.step
    return state.step

steps = train(state, on_notice=lambda notice: print(
    "saves", state.step, notice.kind.name, flush=True))
# An epoch has 32 batches of 32 samples.
assert state.taken == [(step // 32, step % 32 * 32) for step in range(steps)]
with torch.no_grad():
    loss = ((model.eval()(data) - target) ** 2).mean().item()
# Each rank has its own running means of batch norm.
print("loss", steps, repr(loss), flush=True)
weights = [p.double().sum().item() for p in model.parameters()]
weights += [one.param_groups[0]["lr"] for one in optimizers]
print("ends", steps, *map(repr, weights), scaler.state_dict(), flush=True)
"""


# What a program may do with what a lost peer raises.
CATCHES = """
import os, sys
import torch, torch.distributed as dist
from rollcall.torch import elastic
HOW, END = sys.argv[1:]
weight = torch.nn.Parameter(torch.zeros(1))
state = elastic.State(None, torch.optim.SGD([weight], lr=1.0),
                      elastic.Sampler(1024, 8, epochs=1000))

@elastic.run
def train(state):
    print("enters of", state.size, "after", state.step, "pid", os.getpid(),
          flush=True)
    for _ in state.sampler:
        try:
            weight.grad = torch.ones(1)
            dist.all_reduce(weight.grad)
            state.commit()
        except Exception as error:
            if HOW == "skips":
                continue
            raise KeyError("of the program") from error
        if state.step % 20 == 0:
            print("step", state.step, "of", state.size, flush=True)
        if os.path.exists(END) and state.size == 1:
            return

train(state)
"""

# Takes the first batches for ever. argv: the width of the model, the length of
# the data.
FITS = """
import sys
import torch, torch.distributed as dist
from rollcall.torch import elastic
width, length = map(int, sys.argv[1:])
model = torch.nn.Linear(width, 1)
state = elastic.State(model, torch.optim.SGD(model.parameters(), lr=0.1),
                      elastic.Sampler(length, 8, epochs=1 << 20))

@elastic.run
def train(state):
    for _ in state.sampler:
        model(torch.ones(1, width)).sum().backward()
        for one in model.parameters():
            dist.all_reduce(one.grad)
        state.commit()
        if state.step % 1000 == 0:
            print("step", state.step, "of", state.size, flush=True)

train(state)
"""


class ElasticTest(E2E):
    """A test with elastic ranks of the current torch."""

    def setUp(self):
        super().setUp()
        self.python = os.path.join(PYTORCH_VENV, "bin", "python3")
        if not os.access(self.python, os.X_OK):
            raise unittest.SkipTest(
                f"NOT TESTED: there is no {self.python} here; "
                "scripts/packages.sh pytorch makes it, in "
                "ROLLCALL_PYTORCH_VENV if set")
        self.env = {**ENVIRONMENT, "CUDA_VISIBLE_DEVICES": "",
                    "OMP_NUM_THREADS": "1"}
        self.ends_now = self.stage.path("ends")

    def begin(self, flags, names, command):
        launcher = self.launch(["--job", "el", "--name", "w0", *flags], command,
                               self.env)
        join = self.join_string(launcher)
        return launcher, join, {
            name: self.join(join, ["--name", name], command, self.env)
            for name in names}


class Elastic(ElasticTest):
    # Limits for the launcher's agent and for its rank, in which PyTorch makes a
    # process group for each world.
    growth_kib_max = {"agent": 4096, "rank": 32768}

    def command(self, epochs=1000, stop="until", before=""):
        return self.apart([self.python, "-c", before + TRAINS, str(epochs),
                           stop, self.ends_now])

    def apart(self, command):
        """A subclass makes each rank seem to be on its own machine here."""
        return command

    def end(self, *nodes):
        """Lets the training end; checks that all results are the same."""
        with open(self.ends_now, "w", encoding="ascii"):
            pass
        for node in nodes:
            self.assert_code(node, 0)
        # A newcomer may have been in no world yet.
        return self.ended(*[node for node in nodes if node.find("enters")])

    def ended(self, *nodes):
        ends = {node.await_line(r"ends .*")[0].split("] ", 1)[-1]
                for node in nodes}
        self.assertEqual(len(ends), 1, ends)
        return ends.pop()

    def rank_of(self, node):
        return int(node.await_line(r"pid (\d+)")[1])

    def pids(self, node):
        return {m[1] for line in node.out()
                for m in [re.search(r"pid (\d+)", line)] if m}

    def test_a_killed_rank_costs_no_step_and_no_bit(self, before=""):
        ends = []
        for kills in (0, 2):
            launcher, _, workers = self.begin(
                ["--nodes", "2"], ["w1"], self.command(40, "whole", before))
            for number in range(kills):
                launcher.await_line(f"step {60 + 60 * number} of 2")
                victim = (launcher, workers["w1"])[number]
                pids = [pid for pid in harness.descendants(victim.pid)
                        if harness.command_line(pid)[:1] == [self.python]]
                self.assertEqual(len(pids), 1)
                os.kill(pids[0], signal.SIGKILL)
            for node in (launcher, workers["w1"]):
                self.assert_code(node, 0)
                # The process of the other rank kept running.
                self.assertEqual(len(self.pids(node)), 1 + kills // 2)
            ends.append(self.ended(launcher, workers["w1"]))
        self.assertEqual(ends[0], ends[1])

    def test_a_group_that_is_replaced_costs_no_step_and_no_bit(self):
        self.test_a_killed_rank_costs_no_step_and_no_bit(REPLACED)

    def test_nodes_come_and_go(self):
        launcher, join, workers = self.begin(
            ["--nodes", "1:4", "--join-timeout", "60s"], ["w1"],
            self.command())
        launcher.await_line(r"step \d+ of 2")
        for name in ("w2", "w3"):
            workers[name] = self.join(join, ["--name", name], self.command(),
                                      self.env)
        launcher.await_line(r"step \d+ of 4")
        # One node is lost, another one is drained.
        four = launcher.mark()
        workers["w1"].signal(signal.SIGKILL)
        launcher.await_line(r"step \d+ of 3", after=four)
        three = launcher.mark()
        workers["w2"].signal(signal.SIGTERM)
        launcher.await_line(r"saves \d+ DRAIN", after=three)
        self.assert_code(workers["w2"], 0)
        launcher.await_line(r"enters \d 2 after \d+ pid \d+", after=three)
        self.end(launcher, workers["w3"])
        self.assertEqual(len(self.pids(launcher)), 1)
        self.assertEqual(len(self.pids(workers["w3"])), 1)

    def test_a_silent_node_costs_the_others_no_process(self):
        launcher, _, workers = self.begin(
            [*harness.whole("2:3"), "--join-timeout", "60s"], ["w1", "w2"],
            self.command())
        launcher.await_line(r"step \d+ of 3")
        # The node's connections stay open, so nothing tells that it is gone.
        silent = [workers["w2"].pid, *harness.descendants(workers["w2"].pid)]
        three = launcher.mark()
        for pid in silent:
            os.kill(pid, signal.SIGSTOP)
        launcher.await_line(r"step \d+ of 2", after=three)
        for pid in silent:
            os.kill(pid, signal.SIGKILL)
        self.end(launcher, workers["w1"])
        for node in (launcher, workers["w1"]):
            self.assertEqual(len(self.pids(node)), 1)

    def test_two_eight_three_eight_one(self):
        signal.alarm(400)
        launcher, join, workers = self.begin(
            ["--nodes", "1:8", "--join-timeout", "60s"], ["w1"],
            self.command())
        launcher.await_line(r"step \d+ of 2")
        for names, leave, left in ((range(2, 8), 5, 3), (range(8, 13), 7, 1)):
            few = launcher.mark()
            for name in names:
                workers[f"w{name}"] = self.join(
                    join, ["--name", f"w{name}"], self.command(), self.env)
            launcher.await_line(r"enters \d 8 after \d+", deadline_s=120,
                                after=few)
            eight = launcher.mark()
            going = sorted(workers)[:leave]
            for name in going:
                workers[name].signal(signal.SIGTERM)
            for name in going:
                self.assert_code(workers.pop(name), 0)
            launcher.await_line(rf"enters \d {left} after \d+",
                                deadline_s=120, after=eight)
        self.end(launcher)
        self.assertEqual(len(self.pids(launcher)), 1)

    def kill_node(self, agent):
        tree = [agent.pid, *harness.descendants(agent.pid)]
        for pid in tree:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # The process has just ended.
        self.stage.await_gone(tree, "the node")

    def test_a_program_that_catches_the_loss_of_a_peer_lives_on(self):
        for how in "skips", "wraps":
            ends = self.stage.path(f"ends-{how}")
            launcher, _, workers = self.begin(
                [*harness.whole("1:2")], ["w1"],
                [self.python, "-c", CATCHES, how, ends])
            launcher.await_line(r"step \d+ of 2")
            pid = launcher.await_line(r"enters of \d after \d+ pid (\d+)")[1]
            self.kill_node(workers["w1"])
            launcher.await_line(rf"enters of 1 after [1-9]\d* pid {pid}$")
            with open(ends, "w", encoding="ascii"):
                pass
            self.assert_code(launcher, 0)

    def test_a_newcomer_of_another_shape_is_refused(self):
        launcher, join, _ = self.begin(
            ["--nodes", "1:2"], [], [self.python, "-c", FITS, "4", "512"])
        for width, length, said in (
                ("5", "512", "the model of rank 1 differs from that of rank 0 in "
                 "names, sizes or types"),
                ("4", "520", "the sampler of rank 1 differs from that of rank 0: "
                 "length=520 .* there length=512")):
            launcher.await_line(r"step \d+ of 1")
            worker = self.join(join, ["--name", f"w{width}"],
                               [self.python, "-c", FITS, width, length],
                               self.env)
            worker.await_line(f"ValueError: elastic: {said}", "err")
            self.kill_node(worker)
        mark = launcher.mark()
        launcher.await_line(r"step \d+ of 1", after=mark)
        # Its process has lived through all of it.
        self.assertIsNone(launcher.find("ValueError"))

    def test_random_kills_of_ranks_agents_nodes_and_the_daemon(self):
        kills = int(os.environ.get("ROLLCALL_ELASTIC_KILLS", "6"))
        seed = int(os.environ.get("ROLLCALL_ELASTIC_SEED",
                                  str(int.from_bytes(os.urandom(3), "big"))))
        nodes = int(os.environ.get("ROLLCALL_ELASTIC_NODES", "4"))
        print(f"{kills} kills, {nodes} nodes, ROLLCALL_ELASTIC_SEED={seed}",
              flush=True)
        chance = random.Random(seed)
        signal.alarm(120 + 40 * kills)
        # Batch norm would depend on the number of ranks.
        layers = "import torch; torch.nn.BatchNorm1d = torch.nn.LayerNorm\n"
        command = self.command(before=layers)
        launcher, join, workers = self.begin(
            ["--nodes", f"2:{nodes + 2}", "--join-timeout", "60s",
             "--max-restarts", "1000"],
            [f"w{number}" for number in range(1, nodes)], command)
        self.goes_on(launcher)
        failed, early = "", None
        for number in range(kills):
            if early is None and number * 3 >= kills - 1:
                early = self.memory(launcher)
            what = ("rank", "agent", "node", "daemon")[chance.randrange(4)]
            # A node that fails twice in a row would be quarantined.
            name = chance.choice(sorted(set(workers) - {failed}))
            failed = name if what == "rank" else ""
            tree = harness.descendants(workers[name].pid)
            if what == "daemon":
                pids = harness.subcommands(harness.descendants(launcher.pid),
                                           "daemon")
            elif what == "rank":
                pids = [pid for pid in tree
                        if harness.command_line(pid)[:1] == [self.python]]
            else:
                pids = [workers[name].pid] + (tree if what == "node" else [])
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # The process has just ended.
            if what in ("agent", "node"):
                self.stage.await_gone([workers.pop(name).pid, *tree], name)
                name = f"r{number}"
                workers[name] = self.join(join, ["--name", name],
                                          command, self.env)
            self.goes_on(launcher)
        late = self.memory(launcher)
        print(f"KiB resident: {early}, then {late}", flush=True)
        for what, kib in late.items():
            self.assertLess(kib, early[what] + self.growth_kib_max[what], what)
        self.end(launcher, *workers.values())
        self.assert_no_orphans()
        steps, loss = launcher.await_line(r"loss (\d+) (\S+)").groups()
        whole = self.stage.run(self.command(1000, steps, layers), self.env)
        undisturbed = whole.await_line(rf"loss {steps} (\S+)")[1]
        print(f"after {steps} steps: loss {loss}, undisturbed {undisturbed}",
              flush=True)
        # Other numbers of ranks add in another order.
        self.assertLess(abs(float(loss) / float(undisturbed) - 1), 1e-3)

    def memory(self, launcher):
        """The memory of the launcher's agent and its rank, which never
        restart."""
        found = {}
        for pid in harness.descendants(launcher.pid):
            words = harness.command_line(pid)
            if words[1:2] == ["agent"]:
                found["agent"] = harness.resident_bytes(pid) >> 10
            elif words[:1] == [self.python]:
                found["rank"] = harness.resident_bytes(pid) >> 10
        self.assertEqual(set(found), {"agent", "rank"})
        return found

    def goes_on(self, launcher):
        """Waits for more steps than those that were already in progress."""
        already = len([line for line in launcher.out() if "] step " in line])
        launcher.await_lines(r"\] step \d+ of \d", already + 2, 120)

    def test_a_mistake_of_the_program_ends_it(self):
        launcher, _, workers = self.begin(
            ["--nodes", "2", "--max-restarts", "0"], ["w1"],
            self.command(8, "fails"))
        self.assertNotEqual(launcher.wait(), 0)
        workers["w1"].wait()
        self.assertIsNotNone(launcher.find("ValueError: a mistake", "err"))

    def test_alone(self):
        tried = self.stage.run(self.command(1, "whole"), self.env)
        self.assertEqual(tried.code, 0, tried.text())
        self.assertIsNotNone(tried.find("ends 32 "))

    def test_the_example(self):
        script = os.path.join(harness.PROJECT, "specs", "pytorch",
                              "elastic_gpt.py")
        command = [self.python, script, __file__, "200"]
        self.env["OUT"] = self.stage.folder
        launcher, _, workers = self.begin(["--nodes", "2"], ["w1"], command)
        nodes = {launcher, workers["w1"]}
        first = self.stage.pump(
            lambda: {node for node in nodes if node.find("step 100 ")},
            "100 steps", 120)
        victim, = nodes - first  # Rank 0 says how far they are.
        for pid in harness.descendants(victim.pid):
            if harness.command_line(pid)[:1] == [self.python]:
                os.kill(pid, signal.SIGKILL)
        for node in nodes:
            self.assertEqual(node.wait(120), 0, node)
        said = [m[1] for node in nodes for line in node.out()
                for m in [re.search(r"step (\d+) loss .* world 2", line)] if m]
        self.assertEqual(said, ["100", "200"])
        # It begins with what was saved: no step is left.
        tried = self.stage.run(command, self.env)
        self.assertEqual((tried.code, tried.out()), (0, []), tried.text())


if __name__ == "__main__":
    unittest.main()
