"""A training that survives repeated deaths of its daemon and launcher."""
import os
import random
import signal
import sys
import time

import harness
from harness import nodes_by_name
from training import Training

KILLS = 20
SEED = int(os.environ.get("ROLLCALL_TEST_SEED", "4"))


class Restarts(Training):
    def daemon(self):
        found = harness.subcommands(self.lab.processes(1), "daemon")
        self.assertEqual(len(found), 1)
        return found[0]

    def await_right(self):
        """Waits until all four nodes run, in generation 1."""
        state = self.await_state(
            lambda s: s["state"] == "running" and [
                n["state"] for n in s["nodes"]] == ["running"] * 4,
            "four nodes that run")
        self.assertEqual(state["generation"], 1, state["last_reform"])
        self.assertEqual(set(nodes_by_name(state)),
                         {"lab1", "lab2", "lab3", "lab4"})

    def test_the_daemon_dies_20_times(self):
        print(f"ROLLCALL_TEST_SEED={SEED} replays this", file=sys.stderr)
        chance = random.Random(SEED)
        self.begin([1, 2, 3, 4], ["--nodes", "4"])
        for kill in range(1, KILLS + 1):
            self.lives_on(chance.uniform(0, 3.5))
            os.kill(self.daemon(), signal.SIGKILL)
            self.launcher.await_lines("started again", kill)
            self.await_right()
        self.end_undisturbed([1, 2, 3, 4])

    def test_the_launcher_dies_and_is_started_again(self):
        self.begin([1, 2, 3, 4], ["--nodes", "4"])
        first = self.launcher
        for _ in range(3):
            os.kill(self.launcher.inner_pid(), signal.SIGKILL)
            # The launcher's agent holds the pipes open, so only the exit is
            # awaited.
            self.stage.pump(lambda: self.launcher.code is not None, "its end")
            self.lives_on(1)
            self.start_launcher()
            self.await_right()
        self.assertIsNot(self.launcher, first)
        self.end_undisturbed([1, 2, 3, 4])

    def test_the_launchers_host_is_cut_off_for_30_seconds(self):
        self.begin([1, 2, 3, 4], ["--nodes", "4"])
        self.lab.fault("cut", 1)
        healed_at = time.monotonic() + 30
        self.await_state(lambda s: s["state"] == "isolated", "isolated")
        self.lives_on(healed_at - time.monotonic())
        state = self.state()
        self.assertEqual((state["state"], state["generation"]),
                         ("isolated", 1))
        steps = len(self.steps_of(1))
        self.lab.fault("heal")
        self.await_right()
        self.end_undisturbed([1, 2, 3, 4])
        self.assertGreater(len(self.steps_of(1)), steps)
