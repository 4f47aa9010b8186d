"""A link that becomes slow while a world trains."""
import json
import os
import time

import harness
from harness import E2E, Lab, ROLLCALL

TRAIN = os.path.join(harness.BIN, "rollcall-train")
TEXT = "/usr/share/common-licenses/GPL-3"
# So slow that a step is mostly the all-reduce of these gradients.
KILOBITS = 50_000
MODEL = ["--layers", "2", "--heads", "2", "--width", "256", "--context", "16",
         "--batch", "3"]
# Steps have no median before the world has run for so long.
KNOWN_S = 75
NAMED_S = 120


class Slow(E2E):
    def watch(self, condition, what, deadline_s):
        return self.await_watched(
            [ROLLCALL, "status", "--job", "slow"], condition, what, deadline_s,
            start=lambda argv: self.lab.start(1, argv))

    def test_the_node_of_a_link_slowed_to_a_tenth_is_named(self):
        self.lab = Lab(self.stage, 3)
        for host in (1, 2, 3):
            self.lab.fault("slow", host, KILOBITS)
        train = ["--", TRAIN, "--data", TEXT, "--steps", "100000", *MODEL]
        launcher = self.lab.start(1, [
            ROLLCALL, "launch", "--job", "slow", "--nodes", "3", "--listen",
            "0.0.0.0:0", "--no-hosts", "--max-restarts", "0", *train])
        join = self.join_string(launcher)
        for host in (2, 3):
            self.lab.start(host, [ROLLCALL, "join", join, "--no-hosts", *train])
        self.watch(lambda state: state.get("step"), "a first step", 60)
        known_at = time.monotonic() + KNOWN_S
        self.watch(lambda state: time.monotonic() > known_at,
                   "a step after a while", 2 * KNOWN_S)

        self.lab.fault("slow", 3, KILOBITS // 10)
        state = self.watch(lambda state: state.get("slow"), "slow steps",
                           NAMED_S)
        self.assertRegex(state["slow"]["changed"],
                         r'^lab3: "round trips of [\d.]+ ms or more, median of '
                         r'the other nodes [\d.]+ ms"$')
        events = self.lab.run(1, [ROLLCALL, "status", "--job", "slow",
                                  "--events", "--json"])
        self.assert_code(events, 0)
        (event,) = [e for e in map(json.loads, events.out())
                    if e.get("event") == "slow"]
        self.assertEqual(event["changed"], state["slow"]["changed"])
        self.assert_code(self.lab.run(1, [ROLLCALL, "stop", "--job", "slow",
                                          "--now"]), 0)
        self.assertIsNotNone(launcher.wait(60))
