"""54 random kills of ranks, agents and whole nodes over one training.

The training of OPT-175B was restarted that often because of failed machines
(see that run's logbook). ROLLCALL_KILLS changes how many kills there are, and
ROLLCALL_TEST_SEED changes the victims.
"""
import json
import os
import random
import re
import signal
import sys
import time

import harness
from churn_test import GROWTH_KIB_MAX, TEXT
from harness import E2E, command_line, descendants

KILLS = int(os.environ.get("ROLLCALL_KILLS", "54"))
SEED = int(os.environ.get("ROLLCALL_TEST_SEED", "7"))
# The harness ends a test after TEST_S.
if KILLS > 54:
    harness.TEST_S = KILLS * 8
TRAIN = os.path.join(harness.BIN, "rollcall-train")
STEP = re.compile(r"\[(w\d)/\d+\] step (\d+) loss (\d+\.\d+) .* "
                  r"world (\d+) generation (\d+)")


class Kills(E2E):
    w0_blamed = False

    def test_of_everything_at_random(self):
        print(f"ROLLCALL_TEST_SEED={SEED} replays this", file=sys.stderr)
        chance = random.Random(SEED)
        self.command = [
            TRAIN, "--data", *TEXT, "--steps", "100000000", "--layers", "1",
            "--heads", "2", "--width", "32", "--context", "32", "--batch",
            "12", "--log-every", "1", "--log-all-ranks", "--lr", "1e-3",
            "--checkpoints",
            self.stage.path("checkpoints"), "--save-every", "200"]
        # The budget covers all kills, since they come faster than progress is
        # recognized, which would refill it.
        launcher = self.launch(["--nodes", "2:4", "--max-restarts",
                                str(KILLS), "--name", "w0"], self.command)
        self.join_line = self.join_string(launcher)
        self.agents = {"w0": launcher}
        for name in ("w1", "w2", "w3"):
            self.attend(name)
        for agent in self.agents.values():
            agent.await_line(r"\] step \d+ ")
        memory, done = [], []
        for i in range(KILLS):
            if i in (KILLS // 3, KILLS - 1):
                memory.append(self.memory())
            self.lives_on(chance.uniform(0, 1.5))
            done.append(self.kill_one(chance))
        print("; ".join(done), file=sys.stderr)
        # An agent that attends after the job's end would wait for the next run.
        while not self.all_attend():
            self.lives_on(0.1)
        # The remaining ranks end when they are told to, all at the same step.
        launcher.signal(signal.SIGUSR1)
        self.assert_code(launcher, 75)
        for agent in self.agents.values():
            agent.wait()
        self.assert_no_orphans()
        self.assert_steps_never_go_back()
        print(f"KiB resident: {memory}", file=sys.stderr)
        for what, kib in memory[1].items():
            self.assertLess(kib, memory[0][what] + GROWTH_KIB_MAX, what)

    def attend(self, name):
        self.agents[name] = self.join(self.join_line, ["--name", name],
                                      self.command)

    def all_attend(self):
        """Returns whether all agents attend. A restarted agent attends once its
        name is free: until its predecessor is lost, that one may come back."""
        asked = self.stage.run([harness.ROLLCALL, "status", self.join_line,
                                "--json"])
        self.assert_code(asked, 0)
        nodes = json.loads("\n".join(asked.out()))["nodes"]
        return {n["node"] for n in nodes if n["state"] not in
                ("suspect", "lost")} == set(self.agents)

    def lives_on(self, for_s):
        until = time.monotonic() + for_s
        self.stage.pump(lambda: time.monotonic() >= until, "a while", for_s)

    def ranks(self, name):
        return sorted(p for p in descendants(self.agents[name].pid)
                      if command_line(p)[:1] == [TRAIN])

    def kill_one(self, chance):
        """Kills a rank, an agent, or all processes of a node; returns which."""
        names = sorted(self.agents)
        what = chance.choice(["rank", "agent", "node"])
        if what == "rank":
            # w0 is not chosen a second time: blamed twice in a row it would
            # lose its seat, and the test waits for w0's steps.
            name = chance.choice([n for n in names if self.ranks(n)
                                  and not (n == "w0" and self.w0_blamed)])
            self.w0_blamed = self.w0_blamed or name == "w0"
            os.kill(self.ranks(name)[0], signal.SIGKILL)
        else:
            # A node without ranks has no seat, since it was lost too often; its
            # loss would not lead to a new world.
            name = chance.choice([n for n in names[1:] if self.ranks(n)])
            agent = self.agents[name]
            doomed = [agent.pid] + (descendants(agent.pid)
                                    if what == "node" else [])
            for pid in doomed:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            agent.wait()
            self.attend(name)
        self.await_next_world()
        return f"{name} {what}"

    def await_next_world(self):
        w0, seen = self.agents["w0"], len(self.agents["w0"].out())
        before = getattr(self, "last", 1)

        def steps():
            for line in w0.out()[seen:]:
                m = STEP.search(line)
                if m and int(m[5]) > before:
                    self.last = int(m[5])
                    return True
            return w0.code is not None
        self.stage.pump(steps, f"a step after generation {before}")
        self.assertIsNone(w0.code, self.stage.transcript())

    def memory(self):
        """The memory of the daemon and of w0's agent, which never restart."""
        w0 = self.agents["w0"].pid
        found = {"agent" if command_line(pid)[1:2] == ["agent"]
                 else "daemon": harness.resident_bytes(pid) >> 10
                 for pid in descendants(w0)
                 if command_line(pid)[1:2] in (["agent"], ["daemon"])}
        self.assertEqual(set(found), {"agent", "daemon"})
        return found

    def assert_steps_never_go_back(self):
        """Checks that no step repeats except the one in progress, which only
        some ranks had completed."""
        lines = sorted(((at, text) for agent in self.stage.processes
                        for at, stream, text in agent.lines
                        if stream == "out"), key=lambda line: line[0])
        highest, worlds = {}, set()
        for _, text in lines:
            if not (m := STEP.search(text)):
                continue
            step, generation = int(m[2]), int(m[5])
            worlds.add(generation)
            for older, its in highest.items():
                if older < generation:
                    self.assertGreaterEqual(step, its, text)
            highest[generation] = max(step, highest.get(generation, 0))
        self.assertGreater(len(worlds), KILLS // 2)
