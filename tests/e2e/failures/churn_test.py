"""Nodes join, leave, die and come back, at random, while rollcall-train runs.

ROLLCALL_CHURN_S sets the duration (60 s), ROLLCALL_TEST_SEED the order of
events.
"""
import glob
import os
import random
import re
import sys
import time

import harness
from harness import nodes_by_name
from training import Training

SEED = int(os.environ.get("ROLLCALL_TEST_SEED", "4"))
CHURN_S = float(os.environ.get("ROLLCALL_CHURN_S", "60"))
# The harness ends a test after TEST_S, so it is raised for longer runs.
if CHURN_S > 60:
    harness.TEST_S = int(CHURN_S * 1.5) + 60
STEP = re.compile(r"\[lab(\d)/\d+\] step (\d+) loss (\d+\.\d+) .* "
                  r"world (\d+) generation (\d+)")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
TRAIN = [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
         "--steps", "100000000", "--layers", "1", "--heads", "2", "--width",
         "32", "--context", "32", "--batch", "12", "--log-every", "10",
         "--log-all-ranks",
         "--lr", "3e-4"]
# By how much a process may grow after the first third of the run, because
# bounded lists of past events still fill up.
GROWTH_KIB_MAX = 4096
DEATHS_MAX = 5


class Churn(Training):
    job = "churn"

    def test_nodes_come_and_go(self):
        print(f"ROLLCALL_TEST_SEED={SEED} replays this", file=sys.stderr)
        self.chance = chance = random.Random(SEED)
        self.begin([1, 2, 3, 4], ["--nodes", "2:4"], command=TRAIN)
        here, away = {2, 3, 4}, set()
        begun = time.monotonic()
        early, done = None, []
        deaths = dict.fromkeys((2, 3, 4), 0)
        while time.monotonic() < begun + CHURN_S:
            self.lives_on(chance.uniform(0, 2))
            # A node that dies too often would wait too long for a seat.
            mortal = {h for h in here if deaths[h] < DEATHS_MAX}
            acts = ["returns"] * len(away) + (
                ["leaves"] if len(here) > 1 else []) + (
                ["dies"] if len(here) > 1 and mortal else [])
            act = chance.choice(acts)
            host = chance.choice(sorted(
                {"returns": away, "leaves": here, "dies": mortal}[act]))
            deaths[host] += act == "dies"
            done.append(f"lab{host} {act}")
            getattr(self, act)(host)
            (here if act == "returns" else away).add(host)
            (away if act == "returns" else here).discard(host)
            self.await_world(here | {1}, done[-1])
            if early is None and time.monotonic() > begun + CHURN_S / 3:
                early = self.memory()
        late = self.memory()
        print("; ".join(done), file=sys.stderr)
        stop = self.lab.run(1, [harness.ROLLCALL, "stop", "--job", self.job])
        self.assertEqual(stop.code, 0, stop.text())
        for host in here | {1}:
            self.agents[host].wait()
        self.assert_steps_only_grow()
        self.assert_loss_falls()
        print(f"KiB resident: {early}, then {late}", file=sys.stderr)
        for what, kib in late.items():
            self.assertLess(kib, early[what] + GROWTH_KIB_MAX, what)

    # --- Events of a node
    # ------------------------------------------------------

    def returns(self, host):
        self.attend(host)

    def leaves(self, host):
        agent = self.agents[host]
        drain = self.lab.run(1, [harness.ROLLCALL, "drain", f"lab{host}",
                                 "--job", self.job])
        self.assertEqual(drain.code, 0, drain.text())
        self.assert_code(agent, 0)

    def dies(self, host):
        self.lab.do(self.chance.choice(["kill", "power"]), host)
        self.agents[host].wait()
        self.lab.do("boot", host)

    def await_world(self, hosts, what):
        names = {f"lab{host}" for host in hosts}
        self.await_state(
            lambda s: s["state"] == "running" and names == {
                name for name, node in nodes_by_name(s).items()
                if node["state"] == "running"},
            f"a world of {sorted(names)} once {what}")

    # --- Results
    # ---------------------------------------------------------------

    def memory(self):
        """The memory of the daemon and of lab1's agent, which never restart."""
        found = {}
        for pid in self.lab.processes(1):
            words = harness.command_line(pid)[:2]
            if words[1:] in (["daemon"], ["agent"]):
                found[words[1]] = harness.resident_bytes(pid) >> 10
        self.assertEqual(set(found), {"daemon", "agent"})
        return found

    def told(self):
        """Returns (step, loss, generation) of all ranks in the order of
        printing, and those of lab1's rank, which runs throughout the test."""
        # Only by time, so that lines that were read together keep their order.
        lines = sorted(((at, text) for process in self.stage.processes
                        for at, stream, text in process.lines
                        if stream == "out"), key=lambda line: line[0])
        matches = [m for _, text in lines for m in [STEP.search(text)] if m]
        everybody = [(int(m[2]), float(m[3]), int(m[5])) for m in matches]
        return everybody, [told for told, m in zip(everybody, matches)
                           if m[1] == "1"]

    def assert_steps_only_grow(self):
        everybody, first = self.told()
        self.assertGreater(len(first), 20)
        for (step, _, generation), (then, _, later) in zip(first, first[1:]):
            self.assertGreater(then, step)
            self.assertGreaterEqual(later, generation)
        # Whichever rank prints it, a later generation continues the steps.
        highest = {}
        for step, _, generation in everybody:
            for older, its in highest.items():
                if older < generation:
                    self.assertGreaterEqual(step, its)
            highest[generation] = max(step, highest.get(generation, 0))
        self.assertGreater(len(highest), 3)

    def assert_loss_falls(self):
        """Checks that the mean loss falls from quarter to quarter."""
        _, first = self.told()
        size = len(first) // 4
        means = [sum(loss for _, loss, _ in first[i * size:(i + 1) * size])
                 / size for i in range(4)]
        print("mean losses:", *(f"{m:.3f}" for m in means), file=sys.stderr)
        self.assertLess(means[1], means[0])
        self.assertLess(means[3], means[1])
