"""rollcall-train when its world changes: ranks keep running, no step is
lost."""
import glob
import json
import os
import re
import shutil
import signal
import sys

import harness
from harness import E2E, command_line, descendants

STEP = re.compile(r"\[([^/\]]+)/(\d+)\] step (\d+) loss (\d+\.\d+) .* "
                  r"world (\d+) generation (\d+)")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
TRAIN = os.path.join(harness.BIN, "rollcall-train")
# The model is small so that steps are quick.
SMALL = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "32",
         "--batch", "12", "--log-every", "1", "--log-all-ranks"]
# Uses the CPU also on a machine with a GPU; gpu_test.py tests GPUs.
MODEL = [*SMALL, "--device", "cpu"]


# A rank that says to its peers what a rollcall-train of another version would.
OTHER_VERSION = r"""
import sys
sys.path.insert(0, sys.argv[1])
import rollcall
rank = rollcall.attach(elastic=True)
rank.exchange("device", "1\tauto\n\n\n")
sys.exit("rollcall-train: the others are of another version")
"""


class Elastic(E2E):
    def gather(self, flags, names, nproc=1, steps=1_000_000):
        """Starts a launcher and workers with these names that train; they are
        in self.agents."""
        self.command = [TRAIN, "--data", *TEXT, "--steps", str(steps), *MODEL]
        self.nproc = ["--nproc-per-node", str(nproc)]
        launcher = self.launch([*flags, *self.nproc, "--name", "w0"],
                               self.command)
        self.join_line = self.join_string(launcher)
        self.agents = {"w0": launcher}
        for name in names:
            self.add(name)
        for agent in self.agents.values():
            agent.await_lines(r"\] step 20 .* generation 1$", nproc)
        return launcher

    def add(self, name):
        self.agents[name] = self.join(
            self.join_line, ["--name", name, *self.nproc], self.command)
        return self.agents[name]

    def ranks(self, agent):
        """Returns the pids of the agent's ranks."""
        return {p for p in descendants(agent.pid)
                if command_line(p)[:1] == [TRAIN]}

    def steps(self, agent):
        """Returns (step, world size, generation) of each line of the agent's
        ranks, in order."""
        return [tuple(int(x) for x in m.group(3, 5, 6))
                for line in agent.out() for m in [STEP.search(line)] if m]

    def losses(self, agent, generation):
        return [float(m.group(4)) for line in agent.out()
                for m in [STEP.search(line)]
                if m and int(m.group(6)) == generation]

    def await_world(self, agent, size, generation, count=5, nproc=1):
        agent.await_lines(
            rf"\] step \d+ .* world {size} generation {generation}$",
            count * nproc)

    def assert_steps_only_grow(self, agent, lag=0):
        """One rank's steps grow by 2 at most; `lag`: how many may be
        repeated."""
        steps = [step for step, _, _ in self.steps(agent)]
        for before, after in zip(steps, steps[1:]):
            self.assertGreaterEqual(after, before + 1 - lag)
            self.assertLessEqual(after, before + 2)

    def assert_lived_on(self, agents, before):
        now = [self.ranks(agent) for agent in agents]
        if now != before:
            self.stage.fail(f"ranks {before} are {now} now")

    def end(self, launcher):
        """Ends the job."""
        launcher.signal(signal.SIGINT)
        launcher.signal(signal.SIGINT)
        for agent in self.agents.values():
            agent.wait()

    def test_kill_9_of_an_agent_of_three(self):
        launcher = self.gather([*harness.whole("2:3"), "--max-restarts", "0"],
                               ["w1", "w2"])
        left = [launcher, self.agents["w1"]]
        before = [self.ranks(agent) for agent in left]
        self.assertEqual([len(pids) for pids in before], [1, 1])
        self.agents["w2"].signal(signal.SIGKILL)
        for agent in left:
            self.await_world(agent, 2, 2)
        self.assert_lived_on(left, before)
        for agent in left:
            self.assert_steps_only_grow(agent)
            # The loss shows that the rank kept its state.
            self.assertLess(self.losses(agent, 2)[0],
                            self.losses(agent, 1)[0] - 0.5)
        self.end(launcher)

    def test_a_failed_rank_alone_is_started_anew(self):
        launcher = self.gather(["--nodes", "2", "--max-restarts", "1"],
                               ["w1"], nproc=2)
        worker = self.agents["w1"]
        kept, its = self.ranks(launcher), self.ranks(worker)
        self.assertEqual((len(kept), len(its)), (2, 2))
        victim = max(its)
        os.kill(victim, signal.SIGKILL)
        for agent in (launcher, worker):
            self.await_world(agent, 4, 2, nproc=2)
        self.assertEqual(self.ranks(launcher), kept)
        now = self.ranks(worker)
        self.assertEqual(len(now), 2)
        self.assertEqual(now & its, its - {victim}, "its sibling lives on")
        # The new rank starts at the step of the others.
        last = max(s for s, _, g in self.steps(launcher) if g == 1)
        first = min(s for agent in (launcher, worker)
                    for s, _, g in self.steps(agent) if g == 2)
        self.assertIn(first, (last, last + 1, last + 2))
        self.end(launcher)

    def test_a_silent_rank_is_killed_alone(self):
        # One rank is stopped, as by a debugger. The world ends because another
        # rank is killed.
        launcher = self.gather(["--nodes", "2", "--max-restarts", "1"],
                               ["w1"], nproc=2)
        worker = self.agents["w1"]
        kept, (silent, victim) = self.ranks(launcher), self.ranks(worker)
        os.kill(silent, signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        for agent in (launcher, worker):
            self.await_world(agent, 4, 2, nproc=2)
        self.assertEqual(self.ranks(launcher), kept)
        self.assertFalse(self.ranks(worker) & {silent, victim})
        self.end(launcher)

    def test_a_newcomer_is_taken_in_at_a_boundary(self):
        launcher = self.gather(["--nodes", "2:3", "--max-restarts", "0"],
                               ["w1"])
        old = [launcher, self.agents["w1"]]
        before = [self.ranks(agent) for agent in old]
        newcomer = self.add("w2")
        for agent in (*old, newcomer):
            self.await_world(agent, 3, 2)
        self.assert_lived_on(old, before)
        for agent in old:
            # At a boundary no rank is ahead of the others, so no step is
            # repeated or skipped.
            steps = [s for s, _, _ in self.steps(agent)]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertGreater(self.steps(newcomer)[0][0], 20)
        self.end(launcher)

    def test_a_newcomer_with_other_data_fails_alone(self):
        launcher = self.gather(["--nodes", "2:3", "--max-restarts", "3"],
                               ["w1"])
        old = [launcher, self.agents["w1"]]
        before = [self.ranks(agent) for agent in old]
        other = self.stage.path("other.txt")
        with open(other, "w", encoding="ascii") as file:
            file.write("something else " * 9999)
        self.command[self.command.index("--data") + 1] = other
        newcomer = self.add("w2")
        newcomer.await_line("the files of --data differ")
        # The node fails until it has failed often enough to get no seat.
        for agent in old:
            agent.await_line(r"\] step \d+ .* world 2 generation ([2-9]|\d\d)$")
            self.assertEqual({n for _, n, _ in self.steps(agent)}, {2})
        self.assert_lived_on(old, before)
        self.end(launcher)

    def test_a_newcomer_of_another_version_fails_alone(self):
        launcher = self.gather(["--nodes", "2:3", "--max-restarts", "5"],
                               ["w1"])
        old = [launcher, self.agents["w1"]]
        before = [self.ranks(agent) for agent in old]
        self.command = [sys.executable, "-c", OTHER_VERSION,
                        os.path.join(harness.PROJECT, "client", "python")]
        newcomer = self.add("w2")
        newcomer.await_line("of another version")
        for agent in old:
            agent.await_line(r"rank 2 on w2: expected the devices of a "
                             r"rollcall-train of this version")
            agent.await_line(r"\] step \d+ .* world 2 generation ([2-9]|\d\d)$")
        self.assert_lived_on(old, before)
        self.end(launcher)

    def test_flags_that_differ_at_the_start_end_the_job_at_once(self):
        command = [TRAIN, "--data", *TEXT, *MODEL]
        launcher = self.launch(["--nodes", "2", "--name", "w0"], command)
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           [*command, "--lr", "0.5"])
        for agent in (launcher, worker):
            self.assert_code(agent, 1)
            self.assertTrue(agent.find(
                r"the ranks do not agree, rank [01] on w[01] and rank [01] on "
                r"w[01]: --lr 0\.\d+ and "
                r"0\.\d+; give every node the same"), agent.text())
            # No restart is spent on it.
            self.assertFalse(agent.find("generation 2"), agent.text())

    def test_a_newcomer_may_be_told_its_device(self):
        launcher = self.gather(["--nodes", "2:3", "--max-restarts", "0"],
                               ["w1"])
        self.command = ["auto" if word == "cpu" else word
                        for word in self.command]
        for agent in (launcher, self.agents["w1"], self.add("w2")):
            self.await_world(agent, 3, 2)
        self.end(launcher)

    def leaves(self, ask):
        """`ask` makes w2 leave; the other nodes train on and lose no step."""
        launcher = self.gather([*harness.whole("2:3"), "--max-restarts", "0"],
                               ["w1", "w2"])
        left = [launcher, self.agents["w1"]]
        before = [self.ranks(agent) for agent in left]
        leaver = self.agents["w2"]
        ask(leaver)
        self.assert_code(leaver, 0)
        for agent in left:
            self.await_world(agent, 2, 2)
            steps = [s for s, _, _ in self.steps(agent)]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assert_lived_on(left, before)
        self.end(launcher)

    def test_an_agent_that_is_asked_leaves_at_a_boundary(self):
        self.leaves(lambda agent: agent.signal(signal.SIGTERM))

    def test_a_rank_that_is_asked_takes_its_node_along(self):
        self.leaves(lambda agent: [os.kill(pid, signal.SIGUSR1)
                                   for pid in self.ranks(agent)])

    def test_a_signal_to_the_launcher_stops_all_after_one_step(self):
        launcher = self.gather(["--nodes", "3"], ["w1", "w2"], nproc=2)
        launcher.signal(signal.SIGUSR1)
        for agent in self.agents.values():
            self.assert_code(agent, 75)
        last = {}
        for agent in self.agents.values():
            for line in agent.out():
                if m := STEP.search(line):
                    last[m.group(2)] = int(m.group(3))
        self.assertEqual(len(last), 6)
        self.assertEqual(len(set(last.values())), 1, last)

    def test_linked_ranks_have_both_of_their_graces(self):
        # There is one grace period to reach a boundary and one to end. This
        # rank uses up both.
        self.command = ["sh", "-c", "trap '' TERM; \"$@\"; exec sleep 1000",
                        "sh", TRAIN, "--data", *TEXT, "--steps", "1000000",
                        *MODEL]
        launcher = self.launch(["--name", "w0"], self.command)
        launcher.await_line(r"\] step 20 ")
        [rank] = self.ranks(launcher)
        os.kill(rank, signal.SIGSTOP)
        launcher.signal(signal.SIGTERM)
        self.assert_code(launcher, 75, 60)
        # The agent was not killed, so it removed its folder.
        self.assertEqual(os.listdir(self.stage.path("run")), [])

    def test_all_end_with_one_loss(self):
        # The world shrinks from three ranks to two and trains to the end. Each
        # batch is used once, with exactly the weights that the previous batch
        # left.
        steps = 400
        command = [TRAIN, "--data", *TEXT, "--steps", str(steps), *MODEL,
                   "--log-json"]
        launcher = self.launch([*harness.whole("2:3"), "--max-restarts", "0",
                                "--name", "w0"], command)
        join = self.join_string(launcher)
        worker, lost = (self.join(join, ["--name", name], command)
                        for name in ("w1", "w2"))
        for agent in (launcher, worker, lost):
            agent.await_line(r'"step":20,.*"generation":1,')
        lost.signal(signal.SIGKILL)
        for agent in (launcher, worker):
            self.assert_code(agent, 0)
        changed = self.exact_losses(launcher, 2)
        self.assertEqual(self.exact_losses(worker, 2), changed)
        first = min(changed)
        self.assertEqual(list(changed), list(range(first, steps + 1)))

        # The same by a checkpoint: three ranks do the first steps, two go on.
        self.assertEqual(self.losses_by_checkpoint(command, 3, 2, first),
                         changed)

        # A single rank adds in another order, so its losses are only close.
        alone = self.stage.run(command)
        self.assertEqual(alone.code, 0)
        straight = self.exact_losses(alone, 0)
        for step, loss in changed.items():
            self.assertAlmostEqual(loss / straight[step], 1, delta=5e-3)

    def losses_by_checkpoint(self, command, before, after, first):
        """Returns the losses of `after` ranks from step `first` on, after
        `before` ranks have done the earlier steps and saved a checkpoint."""
        kept = self.stage.path("kept")
        command = [*command, "--checkpoints", kept, "--save-every",
                   str(first - 1), "--keep-last", "1000"]
        flags = ["--name", "w0", "--max-restarts", "0", "--local-workers"]
        self.assert_code(self.launch([*flags, str(before - 1)], command), 0)
        for path in glob.glob(os.path.join(kept, "step-*")):
            if not path.endswith(f"step-{first - 1:08d}"):
                shutil.rmtree(path)
        left = self.launch([*flags, str(after - 1)], command)
        self.assert_code(left, 0)
        return self.exact_losses(left, 1, r"w0/0")

    def test_a_full_world_that_shrinks_trains_on_in_micro_batches(self):
        # Each rank has two samples in a world of four, four in a world of two.
        steps = 60

        def train(steps, batch, *flags):
            return [TRAIN, "--data", *TEXT, "--device", "cpu", "--layers", "1",
                    "--heads", "2", "--width", "32", "--context", "512",
                    "--log-json", "--log-all-ranks", "--steps", str(steps),
                    "--batch", str(batch), *flags]

        needs = re.compile(r"this rank needs ([\d.]+) GB for .* ([\d.]+) GB for "
                           r"activations of (\d+) of its (\d+) samples? at once")
        one_step = self.stage.run(train(1, 2))
        self.assertEqual(one_step.code, 0)
        told = [m for line in one_step.err() for m in [needs.search(line)] if m]
        self.assertEqual([m.group(3, 4) for m in told], [("2", "2")])
        state, activations = (float(x) * 1e9 for x in told[0].group(1, 2))
        limit = ["--memory-max", str(int(state + 1.2 * activations))]
        full = train(steps, 8, *limit)

        # Four samples at once do not fit into the limit.
        refused = self.stage.run(train(1, 4, *limit, "--micro-batch", "4"))
        self.assertNotEqual(refused.code, 0)
        refused.await_line("RESOURCE_EXHAUSTED")

        launcher = self.launch([*harness.whole("1:2"), "--max-restarts", "0",
                                "--nproc-per-node", "2", "--name", "w0"], full)
        lost = self.join(self.join_string(launcher),
                         ["--name", "w1", "--nproc-per-node", "2"], full)
        for agent in (launcher, lost):
            agent.await_line(r'"step":10,.*"generation":1,')
        before = self.ranks(launcher)
        lost.signal(signal.SIGKILL)
        launcher.await_line(r'"step":\d+,.*"generation":2,')
        self.assert_lived_on([launcher], [before])
        self.assert_code(launcher, 0)
        told = [m.group(3, 4) for line in launcher.out() + launcher.err()
                for m in [needs.search(line)] if m]
        self.assertEqual(sorted(told), [("2", "2")] * 2 + [("2", "4")] * 2)
        changed = self.exact_losses(launcher, 2)
        first = min(changed)
        self.assertEqual(list(changed), list(range(first, steps + 1)))
        # Without a limit, the four samples at once give the same bits.
        self.assertEqual(
            self.losses_by_checkpoint(train(steps, 8), 4, 2, first), changed)

    def exact_losses(self, agent, generation, rank=r""):
        """Returns the losses of one generation by step, with all digits."""
        found = {}
        for line in agent.out():
            if '{"step":' in line and re.search(rank, line):
                told = json.loads(line[line.index("{"):])
                if told["generation"] == generation:
                    found[told["step"]] = told["loss"]
        return found
