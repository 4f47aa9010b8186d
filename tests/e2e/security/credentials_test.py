"""Tests what a node's credential permits, and what a worker's token permits."""
import json
import os
import signal

import wire
from guarded import REFUSED, UNAVAILABLE, Guarded
from harness import Gate, nodes_by_name, whole
from wire import hello


class Shown(Guarded):
    """Sends Hellos with a token, or with the credential from a Welcome."""

    def attend(self, node, incarnation, text=None):
        """Attends as a spare by token; returns (stream, credential, run)."""
        stream = self.dial(text).open().say(hello(
            wire.Join(text or self.text), node, incarnation=incarnation))
        welcome = stream.welcome()
        self.assertIsNotNone(welcome)
        return stream, welcome[6], welcome[1].decode()

    def show(self, credential, node, incarnation, run, text=None, **more):
        stream = self.dial(text).open().say(hello(
            wire.Join(text or self.text), node, incarnation=incarnation,
            run=run, token=None, node_credential=credential, **more))
        welcome = stream.welcome()
        return wire.OK if welcome else stream.end()


class Credentials(Shown):
    """A credential is valid only for one incarnation of one node."""

    def test_of_another_node_or_life(self):
        self.begin()
        stream, credential, run = self.attend("spare", 7)
        before = nodes_by_name(self.status(self.text))
        stream.close()
        # Control: the node's own credential is accepted.
        self.assertEqual(self.show(credential, "spare", 7, run), wire.OK)
        for words, (node, incarnation, in_run) in {
                "another node": ("other", 7, run),
                "a living node": ("w1", 7, run),
                "that one's life": ("w1", before["w1"]["incarnation"], run),
                "another incarnation": ("spare", 8, run),
                "another run": ("spare", 7, "0" * len(run))}.items():
            with self.subTest(words):
                had = self.refused("credential")
                self.assertEqual(
                    self.show(credential, node, incarnation, in_run),
                    wire.UNAUTHENTICATED)
                self.assertEqual(self.refused("credential"), had + 1)
        changed = bytes([credential[0] ^ 1]) + credential[1:]
        self.assertEqual(self.show(changed, "spare", 7, run),
                         wire.UNAUTHENTICATED)
        lines = self.denied("credential")
        # Only five refusals in a row from one address are logged.
        self.assertEqual(len(lines), 5, lines)
        self.assertEqual(self.refused("credential"), 6)
        self.assertEqual(self.show(credential, "spare", 7, run), wire.OK)
        self.goes_on()

    def test_of_a_replaced_incarnation(self):
        self.begin()
        stream, old, run = self.attend("spare", 7)
        # While that agent's stream is open, its name is refused to others.
        self.assertEqual(self.dial().open().say(hello(
            wire.Join(self.text), "spare", incarnation=8)).end(),
            wire.ALREADY_EXISTS)
        stream.close()
        def gone():
            node = nodes_by_name(self.status(self.text)).get("spare")
            return node is None or node["state"] == "lost"
        self.ask_until(gone, "a node that is lost")
        _, new, _ = self.attend("spare", 8)
        self.assertEqual(self.show(old, "spare", 7, run), wire.ABORTED)
        self.assert_counted_once("replaced", "node=spare")
        # The old credential is also refused with 7 as previous_incarnation.
        self.assertNotEqual(self.show(old, "spare", 9, run,
                                      previous_incarnation=7), wire.OK)
        self.assertEqual(self.show(new, "spare", 8, run), wire.OK)
        self.goes_on()

    def test_of_another_run(self):
        self.begin()
        _, credential, run = self.attend("spare", 7)
        self.ends()
        # The job has the same name, folder and keys, but it is another run.
        self.begin()
        self.assertNotEqual(self.status(self.text)["run"], run)
        self.assertEqual(self.show(credential, "spare", 7, run), wire.ABORTED)
        self.assert_counted_once("other_run", "node=spare")
        self.assertEqual(self.show(credential, "spare", 7,
                                   self.status(self.text)["run"]),
                         wire.UNAUTHENTICATED)
        self.goes_on()


class Epochs(Shown):
    """A credential ends when its node is evicted or has left permanently."""

    def revoke(self, *words):
        asked = self.rollcall("token", "revoke", *words, "--job", self.job)
        self.assertEqual(asked.code, 0, asked.text())
        return asked

    def gone(self, name):
        def look():
            node = nodes_by_name(self.status(self.text)).get(name)
            return node is None or node["node_rank"] == -1 and node[
                "state"] in ("lost", "draining")
        self.ask_until(look, f"the end of {name}, as the daemon sees it")

    def assert_dead(self, credential, node, incarnation, run):
        for life, more in ((incarnation, {}), (
                incarnation + 100, {"previous_incarnation": incarnation})):
            with self.subTest(life=life):
                self.assertEqual(
                    self.show(credential, node, life, run, **more),
                    wire.PERMISSION_DENIED)

    def test_drained_and_its_token_revoked(self):
        self.begin()
        token = self.token()
        stream, credential, run = self.attend("spare", 7, token["join"])
        self.revoke(token["id"])
        drained = self.rollcall("drain", "spare", "--job", self.job)
        self.assertEqual(drained.code, 0, drained.text())
        stream.close()
        self.gone("spare")
        self.assert_dead(credential, "spare", 7, run)
        self.restart_daemon()
        self.assert_dead(credential, "spare", 7, run)
        self.ends()

    def ends(self):
        self.gate.open()
        self.assert_code(self.launcher, 0)
        self.assert_code(self.worker, 0)

    def test_evicted(self):
        self.begin()
        stream, credential, run = self.attend("spare", 7)
        asked = self.rollcall("evict", "spare", "--job", self.job, "--json",
                              "--reason", "test")
        self.assertEqual(asked.code, 0, asked.text())
        self.assertEqual(json.loads(asked.out()[0]), {
            "job": self.job, "node": "spare", "evicted": True})
        # The credential ends at once, whether the node's stream is open or not.
        self.assertEqual(stream.end(), wire.PERMISSION_DENIED)
        self.assert_dead(credential, "spare", 7, run)
        self.restart_daemon()
        self.assert_dead(credential, "spare", 7, run)
        # With a token the node attends again, and its new credential is valid.
        _, again, _ = self.attend("spare", 8)
        self.assertEqual(self.show(again, "spare", 8, run), wire.OK)
        asked = self.rollcall("evict", "nobody", "--job", self.job)
        self.assertEqual(asked.code, UNAVAILABLE)
        self.assertRegex("\n".join(asked.err()), "never admitted")
        asked = self.rollcall("evict", "spare", self.text)
        self.assertEqual(asked.code, REFUSED)
        self.goes_on()

    def test_a_member_is_evicted(self):
        self.gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up-$RANK-g$ROLLCALL_GENERATION; "
                   f"cat {self.gate.path}"]
        self.launcher = self.launch(["--job", self.job, *whole("1:2"),
                                     "--grow", "never"], command)
        self.text = self.join_string(self.launcher)
        self.worker = self.join(self.text, ["--name", "w1"], command)
        self.worker.await_line("up-1-g1")
        asked = self.rollcall("evict", "w1", "--job", self.job)
        self.assertEqual(asked.code, 0, asked.text())
        self.assert_code(self.worker, REFUSED)
        self.assertIsNotNone(self.worker.find("evicted", "err"))
        self.launcher.await_line("up-0-g2")
        self.gate.open()
        self.assert_code(self.launcher, 0)

    def test_cascade(self):
        self.begin()
        token, other = self.token(), self.token()
        one, first, run = self.attend("one", 1, token["join"])
        two, second, _ = self.attend("two", 2, token["join"])
        three, third, _ = self.attend("three", 3, other["join"])
        asked = self.revoke(token["id"], "--cascade", "--json")
        self.assertEqual(json.loads(asked.out()[0]), {
            "id": token["id"], "evicted": ["one", "two"]})
        self.assertEqual(one.end(), wire.PERMISSION_DENIED)
        self.assertEqual(two.end(), wire.PERMISSION_DENIED)
        self.restart_daemon()
        self.assert_dead(first, "one", 1, run)
        self.assert_dead(second, "two", 2, run)
        self.assertEqual(self.show(third, "three", 3, run), wire.OK)
        three.close()
        # The restarted daemon still knows which node attended with which token.
        asked = self.revoke(other["id"], "--cascade", "--json")
        self.assertEqual(json.loads(asked.out()[0])["evicted"], ["three"])
        self.goes_on()


class OneWorkersToken(Shown):
    """A worker's token admits new nodes, but cannot end a job with success."""

    def gather(self, *flags):
        self.launcher = self.launch(
            ["--job", self.job, "--nodes", "3", *flags],
            ["touch", self.stage.path("ran")])
        self.text = self.join_string(self.launcher)
        self.join_words = wire.Join(self.text)
        self.await_status(self.text, lambda s: len(s["nodes"]) == 1,
                          "the launcher's own node")

    def claim(self, run, proof=b"", **more):
        """Opens the streams of three nodes that claim to be in a world whose
        ranks have exited 0."""
        nodes = ["x1", "x2", "x3"]
        made, world_commit = wire.world(self.join_words, run, nodes)
        resume_state = (wire.field(2, 1) + wire.field(3, made)
                        + wire.field(4, world_commit)
                + wire.field(5, wire.exit_of(1)) + wire.field(6, proof))
        streams = [self.dial().open().say(hello(
            self.join_words, node, run=run, generation_seen=1,
            resume_state=resume_state,
            **more)) for node in nodes]
        for stream in streams:
            stream.say(wire.rank_exited(1))
        return streams

    def assert_no_claim(self, streams, *codes):
        for stream in streams:
            self.assertIn(stream.end(), codes)
        state = self.status(self.text)
        self.assertEqual((state["state"], state["generation"]),
                         ("gathering", 0))
        self.assertEqual(len(state["nodes"]), 1)
        self.launcher.signal(signal.SIGINT)
        self.assert_code(self.launcher, 130)
        self.assertFalse(os.path.exists(self.stage.path("ran")))

    def test_three_hellos_are_no_world(self):
        self.gather()
        self.assert_no_claim(self.claim("made-up"), wire.ABORTED)

    def test_nor_where_a_secret_lets_daemons_adopt(self):
        secret = self.stage.secret_file("secret", self.new_secret())
        self.gather("--listen", "127.0.0.1:0", "--secret-file", secret)
        self.assert_no_claim(self.claim("made-up", b"p" * 32), wire.ABORTED)

    def test_it_takes_no_name_whose_stream_breaks(self):
        self.begin()
        stream, credential, run = self.attend("spare", 7)
        callers = [self.dial().open() for _ in range(20)]
        stream.close()
        # Until the daemon notices that, the name belongs to a live agent.
        for caller in callers:
            code = caller.say(hello(wire.Join(self.text), "spare",
                                    incarnation=8)).end()
            if code != wire.ALREADY_EXISTS:
                break
        self.assertEqual(code, wire.UNAVAILABLE)
        # The node's own agent is admitted again.
        self.assertEqual(self.show(credential, "spare", 7, run), wire.OK)
        self.goes_on()

    def test_it_is_no_member_of_a_world_that_a_restarted_daemon_awaits(self):
        self.begin()
        state = self.status(self.text)
        # The worker is stopped, so that it does not attend again too early.
        self.worker.signal(signal.SIGSTOP)
        os.kill(self.daemon_pid(), signal.SIGKILL)
        self.launcher.await_line("started again")
        def answers():
            return self.rollcall("status", self.text).code == 0
        self.ask_until(answers, "a daemon that answers")
        resume_state = wire.field(2, 1) + wire.field(5, wire.exit_of(1))
        member = nodes_by_name(state)["w1"]["incarnation"]
        def claims(incarnation):
            return self.dial().open().say(hello(
                wire.Join(self.text), "w1", run=state["run"],
                generation_seen=1, incarnation=incarnation,
                resume_state=resume_state))
        # That incarnation has a credential and must send it.
        self.assertEqual(claims(member).end(), wire.UNAUTHENTICATED)
        # Another incarnation must wait until the member is lost.
        self.assertEqual(claims(member + 1).end(), wire.UNAVAILABLE)
        self.worker.signal(signal.SIGCONT)
        self.worker.await_line("attending again")
        self.gate.open()
        self.assert_code(self.launcher, 0)
        self.assert_code(self.worker, 0)
