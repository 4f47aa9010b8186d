"""Worlds that may train on out of hearing, and those who wait for them."""
import json
import os
import signal

import wire
from guarded import Guarded, Proxy
from harness import Gate, nodes_by_name


class Fence(Guarded):
    job = "fenced"

    def begin_behind(self):
        """w1 and w2 run generation 1, behind somebody who can cut them off;
        w3 and w4 are spares."""
        self.gate = Gate(self.stage)
        self.command = ["sh", "-c", "echo up-$RANK-g$ROLLCALL_GENERATION "
                        f"pid=$$; cat {self.gate.path}"]
        self.launcher = self.launch(
            ["--job", self.job, "--nodes", "2", "--no-worker"], self.command)
        self.text = self.join_string(self.launcher)
        behind = wire.Join(self.text)
        self.daemon_at = behind.endpoints[0]
        self.target = self.stage.path("target")
        self.let_through()
        self.between = Proxy(self.stage, "@" + self.target, "between")
        behind.endpoints = [self.between.endpoint()]
        self.cut_off = [self.join(behind.text(), ["--name", name],
                                  self.command) for name in ("w1", "w2")]
        self.pids = [int(process.await_line(r"up-\d-g1 pid=(\d+)")[1])
                     for process in self.cut_off]
        self.spares = [self.join(self.text, ["--name", name], self.command)
                       for name in ("w3", "w4")]
        self.await_status(
            self.text, lambda s: sum(n["state"] == "spare" for n in s["nodes"])
            == 2, "two spares")

    def let_through(self):
        with open(self.target + ".new", "w", encoding="ascii") as f:
            f.write(self.daemon_at)
        os.rename(self.target + ".new", self.target)

    def cut(self):
        """Their streams are reset, and whatever they dial hangs up."""
        os.unlink(self.target)
        self.between.process.signal(signal.SIGUSR1)
        state = self.await_status(self.text, lambda s: "fence_s" in s,
                                  "a world that waits")
        nodes = nodes_by_name(state)
        self.assertEqual({nodes[n]["state"] for n in ("w1", "w2")}, {"lost"})
        self.assertEqual(state["state"], "gathering")
        self.assertGreater(state["fence_s"], 60)
        self.assertRegex(state["fence_reason"], r"w1.*rollcall evict w1")
        shown = self.rollcall("status", "--job", self.job)
        self.assertRegex(shown.text(), "waits: generation 1 may still train")
        for process in (self.launcher, *self.spares):
            process.await_line("generation 1 may still train on w1, w2", "err")
        self.assert_old_world_alone()

    def assert_old_world_alone(self):
        for pid in self.pids:
            os.kill(pid, 0)
        for process in self.spares:
            self.assertIsNone(process.find(r"\bup-\d-g2"))

    def ends(self):
        self.gate.open()
        self.assert_code(self.launcher, 0)

    def test_the_next_world_waits_for_the_one_that_is_cut_off(self):
        self.begin_behind()
        self.cut()
        self.let_through()
        # The next world forms once w1 or w2 has stopped its ranks.
        state = self.await_status(
            self.text, lambda s: s["state"] == "running", "the next world")
        self.assertEqual(state["generation"], 2)
        self.assertNotIn("fence_s", state)
        self.stage.await_gone(self.pids, "the ranks of generation 1")
        self.ends()

    def test_a_person_may_say_that_a_node_is_gone(self):
        self.begin_behind()
        self.cut()
        # As where its machine has burnt down: nobody else can know.
        asked = self.rollcall("evict", "w2", "--job", self.job, "--json")
        self.assertEqual(asked.code, 0, asked.text())
        self.assertTrue(json.loads(asked.out()[0])["node"], "w2")
        for process in self.spares:
            process.await_line(r"up-\d-g2")
        self.let_through()
        self.stage.await_gone(self.pids, "the ranks of generation 1")
        self.ends()

    def test_an_agent_that_is_started_again_says_what_it_has_swept(self):
        """Both agents are killed, and a service manager starts one of them
        again, with its token. The daemon learns from it alone that the ranks
        are gone."""
        self.begin_behind()
        for process in self.cut_off:
            process.signal(signal.SIGKILL)
        self.await_status(self.text, lambda s: "fence_s" in s,
                          "a world that waits")
        again = self.join(self.text, ["--name", "w1"], self.command)
        state = self.await_status(
            self.text, lambda s: s["state"] == "running", "the next world")
        self.assertEqual(state["generation"], 2)
        self.stage.await_gone(self.pids[:1], "the rank of the killed agent")
        self.ends()
        self.assertIsNotNone(again)
