"""Tests worlds that may still train while they are cut off, and the nodes that
wait for them."""
import json
import os
import signal
import struct

import wire
from guarded import Guarded, Proxy
from harness import Gate, nodes_by_name


class Fence(Guarded):
    job = "fenced"

    def begin_behind(self):
        """w1 and w2 run generation 1 behind a proxy that can cut them off; w3
        and w4 are spares."""
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
        """The streams of w1 and w2 are reset, and the proxy closes new
        connections."""
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
        # The next world forms once w1 or w2 has stopped its rank.
        state = self.await_status(
            self.text, lambda s: s["state"] == "running", "the next world")
        self.assertEqual(state["generation"], 2)
        self.assertNotIn("fence_s", state)
        self.stage.await_gone(self.pids, "the ranks of generation 1")
        self.ends()

    def test_a_person_may_say_that_a_node_is_gone(self):
        self.begin_behind()
        self.cut()
        # Only a person can know that w2's machine no longer exists.
        asked = self.rollcall("evict", "w2", "--job", self.job, "--json")
        self.assertEqual(asked.code, 0, asked.text())
        self.assertEqual(json.loads(asked.out()[0])["node"], "w2")
        for process in self.spares:
            process.await_line(r"up-\d-g2")
        self.let_through()
        self.stage.await_gone(self.pids, "the ranks of generation 1")
        self.ends()

    def test_a_number_that_status_shows_opens_nothing(self):
        """A client with a worker's token and a member's name reports that the
        member's ranks are gone. It has the incarnation from `status`, but not
        the nonce that the incarnation is computed from."""
        self.begin_behind()
        self.cut()
        number = struct.pack("<Q", nodes_by_name(
            self.status(self.text))["w1"]["incarnation"])
        stranger = self.dial().open().say(wire.hello(
            wire.Join(self.text), "w1", swept_incarnations=number,
            swept_nonces=number[::-1] + bytes(8)))
        self.assertIsNotNone(stranger.welcome())
        state = self.status(self.text)
        self.assertEqual(state["state"], "gathering")
        self.assertIn("fence_s", state)
        self.assert_old_world_alone()
        stranger.close()
        self.let_through()
        # The next world forms only after w2 is back and has stopped its rank.
        self.await_status(self.text, lambda s: s["state"] == "running",
                          "the next world")
        self.stage.await_gone(self.pids, "the ranks of generation 1")
        self.ends()

    def test_an_agent_that_ends_unheard_leaves_word_for_the_next(self):
        """While the agent is cut off, a service manager stops it and starts it
        again."""
        self.begin_behind()
        self.cut()
        self.cut_off[0].signal(signal.SIGTERM)
        self.assert_code(self.cut_off[0], 128 + signal.SIGTERM)
        self.stage.await_gone(self.pids[:1], "the rank of the ended agent")
        self.join(self.text, ["--name", "w1"], self.command)
        state = self.await_status(
            self.text, lambda s: s["state"] == "running", "the next world")
        self.assertEqual(state["generation"], 2)
        self.ends()

    def test_a_person_evicts_the_former_agent_of_a_name_that_is_taken(self):
        """Both members are cut off, and another machine joins with the name of
        one. It cannot know whether that member's ranks still run."""
        self.begin_behind()
        self.cut()
        elsewhere = self.stage.path("elsewhere")
        os.mkdir(elsewhere, 0o700)
        again = self.join(self.text, ["--name", "w1"], self.command,
                          {"XDG_RUNTIME_DIR": elsewhere})
        self.await_status(
            self.text, lambda s: nodes_by_name(s)["w1"]["state"] not in
            ("lost", "suspect"), "the other w1")
        self.assert_old_world_alone()
        asked = self.rollcall("evict", "w1", "--job", self.job, "--json")
        self.assertEqual(asked.code, 0, asked.text())
        self.assertEqual(json.loads(asked.out()[0]), {
            "job": self.job, "node": "w1", "evicted": False,
            "former_evicted": True})
        # The new w1 was not evicted: it is in the next world.
        again.await_line(r"up-\d-g2")
        # The former w1 is not admitted again.
        self.let_through()
        self.stage.await_gone(self.pids, "the ranks of generation 1")
        self.cut_off[0].wait()
        self.assertNotEqual(self.cut_off[0].code, 0)
        self.assertEqual(self.status(self.text)["generation"], 2)
        self.ends()

    def test_an_agent_that_is_started_again_says_what_it_has_swept(self):
        """Both agents are killed, and a service manager starts one of them
        again with its token. Only this agent tells the daemon that the ranks
        are gone."""
        self.begin_behind()
        for process in self.cut_off:
            process.signal(signal.SIGKILL)
        self.await_status(self.text, lambda s: "fence_s" in s,
                          "a world that waits")
        self.join(self.text, ["--name", "w1"], self.command)
        state = self.await_status(
            self.text, lambda s: s["state"] == "running", "the next world")
        self.assertEqual(state["generation"], 2)
        self.stage.await_gone(self.pids[:1], "the rank of the killed agent")
        self.ends()
