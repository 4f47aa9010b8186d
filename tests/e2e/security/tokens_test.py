"""Tests join strings and tokens, until they expire, are used up or are
revoked."""
import json
import signal

import harness
import wire
from guarded import REFUSED, UNAVAILABLE, Guarded
from harness import Gate, Lab, nodes_by_name
from wire import hello


class JoinLine(Guarded):
    def test_pasted_on_another_host(self):
        lab = Lab(self.stage, 2)
        gate = Gate(self.stage)
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "2", "--", "sh", "-c",
            f"echo up-$RANK; cat {gate.path}"])
        line = launcher.await_line(
            rf"^\s+(rollcall join {harness.JOIN_STRING.pattern}) -- CMD")[1]
        worker = lab.start(2, ["sh", "-c", f"{line} -- sh -c 'echo up-$RANK; "
                               f"cat {gate.path}'"])
        launcher.await_line("up-0")
        worker.await_line("up-1")
        # The join string contains the pin and does not permit --insecure.
        join = wire.Join(line.split()[-1])
        self.assertFalse(join.insecure)
        self.assertEqual(len(join.pin), 32)
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)

    def changed(self):
        """Returns rows of (what, join string, text of the refusal). In each,
        one character is changed and the checksum is correct, so that another
        check must refuse it."""
        def other(**changes):
            join = wire.Join(self.text)
            for name, value in changes.items():
                setattr(join, name, value)
            return join.text()
        join = wire.Join(self.text)
        flipped = lambda b: bytes([b[0] ^ 1]) + b[1:]
        first = "a" if join.token_id[0] != "a" else "b"
        return [
            ("pin", other(pin=flipped(join.pin)), "not the expected daemon"),
            ("token's secret", other(secret=flipped(join.secret)), "token"),
            ("token's id", other(token_id=first + join.token_id[1:]), "token"),
            ("job", other(job="h" + join.job[1:]), "huarded"),
        ]

    def test_one_changed_character(self):
        self.begin()
        before = self.world()
        for what, text, why in self.changed():
            with self.subTest(what):
                self.assert_refused(self.stranger([text]), why)
                self.assert_refused(self.stranger(
                    [], env={"ROLLCALL_JOIN": text}), why)
                for verb in ("status", "stop"):
                    asked = self.rollcall(verb, text)
                    # The token is still valid, so `status` gets the answer that
                    # there is no such job.
                    self.assertEqual(asked.code, UNAVAILABLE if what == "job"
                                     and verb == "status" else REFUSED,
                                     asked.text())
                self.assertEqual(self.world(), before)
        # Control: the same join string without a change is accepted.
        self.let_in([self.text])
        self.goes_on()

    def test_one_changed_letter(self):
        self.begin()
        before = self.world()
        body = len("rc1.")
        # Changes characters all over it, the first and last included.
        places = [body, *range(body + 7, len(self.text) - 1, 23),
                  len(self.text) - 1]
        for at in places:
            letter = "A" if self.text[at] != "A" else "B"
            text = self.text[:at] + letter + self.text[at + 1:]
            self.assert_refused(self.stranger([text]), "join string")
        for text in (self.text[:-1], self.text + "A"):
            self.assert_refused(self.stranger([text]), "join string")
        self.assertEqual(self.world(), before)
        # The commands refused these strings before they reached the daemon.
        self.assertEqual(self.denied("[a-z_]+"), [])
        self.goes_on()

    def test_from_stdin_and_environment(self):
        self.begin()
        kept = self.stage.secret_file("join", self.text)
        words = (f"exec {harness.ROLLCALL} join - --name piped --no-hosts "
                 f"-- true < {kept}")
        piped = self.stage.start(["sh", "-c", words])
        self.assert_let_in("piped")
        told = self.stage.start(
            [harness.ROLLCALL, "join", "--name", "told", "--no-hosts", "--",
             "true"], {"ROLLCALL_JOIN": self.text})
        self.assert_let_in("told")
        self.goes_on()
        self.assert_code(piped, 0)
        self.assert_code(told, 0)


class Tokens(Guarded):
    def test_expired(self):
        self.begin()
        token = self.token("--ttl", "1s")
        self.await_expired(token["id"])
        self.assert_refused(self.stranger([token["join"]]), "expired")
        self.assert_counted_once("token_expired", "doing=attend",
                                "node=stranger", f"token={token['id']}")
        self.goes_on()

    def test_revoked(self):
        self.begin()
        token = self.token()
        before = self.let_in([token["join"]], name="before")
        revoked = self.rollcall("token", "revoke", token["id"], "--job",
                                self.job)
        self.assertEqual(revoked.code, 0, revoked.text())
        self.assert_refused(self.stranger([token["join"]]), "revoked")
        self.assert_counted_once("token_revoked", "doing=attend",
                                f"token={token['id']}")
        # A node that was admitted earlier stays admitted.
        self.assertIsNone(before.code)
        self.goes_on()

    def test_used_up(self):
        self.begin()
        token = self.token("--uses", "1")
        self.let_in([token["join"]], name="first")
        self.assert_refused(self.stranger([token["join"]]), "used")
        self.assert_counted_once("token_used_up", "doing=attend",
                                f"token={token['id']}")
        self.assertEqual(self.token_states()[token["id"]], "used up")
        self.goes_on()

    def test_a_viewer_looks_and_no_more(self):
        self.begin()
        token = self.token("--role", "viewer")
        looked = self.rollcall("status", token["join"], "--json")
        self.assertEqual(looked.code, 0, looked.text())
        self.assertEqual(json.loads(looked.out()[0])["job"], self.job)
        before = self.world()
        self.assert_refused(self.stranger([token["join"]]), "viewer|role")
        self.assert_counted_once("role", "doing=attend",
                                f"token={token['id']}")
        self.assertEqual(self.drain(token["join"], "w1"),
                         wire.PERMISSION_DENIED)
        for words in (["stop", token["join"]],
                      ["token", "create", token["join"]],
                      ["token", "list", token["join"]]):
            asked = self.rollcall(*words)
            self.assertEqual(asked.code, REFUSED, asked.text())
            self.assertEqual(asked.out(), [])
        # Attend, Drain and the three commands are refused; each is logged once.
        self.assertEqual(self.refused("role"), 5)
        doings = [line.split("doing=")[1].split()[0]
                  for line in self.denied("role")]
        self.assertEqual(len(doings), 5, doings)
        self.assertEqual(len(set(doings)), 5, doings)
        self.assertIn("drain", doings)
        self.assertEqual(self.world(), before)
        self.goes_on()

    def drain(self, text, node):
        """Calls Drain; returns the status code."""
        join = wire.Join(text)
        return self.dial(text).open(
            "/rollcall.v1.Admin/Drain", join.bearer()).say(
                wire.field(1, self.job) + wire.field(2, node)).end()

    def test_an_admin_is_more_than_a_viewer(self):
        # An admin's token permits what is refused above to a viewer's.
        self.begin()
        admin = self.token("--role", "admin")
        self.assertNotIn(self.drain(admin["join"], "no-such-node"),
                         (wire.PERMISSION_DENIED, wire.UNAUTHENTICATED))
        spare = self.stranger([admin["join"]])
        self.assert_let_in()
        listed = self.rollcall("token", "list", admin["join"])
        self.assertEqual(listed.code, 0, listed.text())
        stopped = self.rollcall("stop", admin["join"])
        self.assertEqual(stopped.code, 0, stopped.text())
        self.launcher.wait()
        self.worker.wait()
        spare.wait()

    def test_a_worker_stops_nothing(self):
        self.begin()
        before = self.world()
        for words in (["stop", self.text], ["token", "create", self.text]):
            asked = self.rollcall(*words)
            self.assertEqual(asked.code, REFUSED, asked.text())
            self.assertRegex("\n".join(asked.err()), "worker|role")
        self.assertEqual(len(self.denied("role")), 2)
        self.assertEqual(self.refused("role"), 2)
        # A worker may not claim to be the launcher's agent either.
        self.assertEqual(self.dial().open().say(hello(
            wire.Join(self.text), "claims", launcher=1)).end(),
            wire.PERMISSION_DENIED)
        self.assertEqual(self.world(), before)
        self.goes_on()

    def test_rotated(self):
        self.begin()
        old = self.token("--description", "mine")
        rotated = self.rollcall("token", "rotate", old["id"], "--job",
                                self.job, "--json")
        self.assertEqual(rotated.code, 0, rotated.text())
        new = json.loads(rotated.out()[0])
        self.assert_refused(self.stranger([old["join"]]), "revoked")
        self.let_in([new["join"]])
        # The launcher's own token, too: its folder gets the new one.
        own = [i for i, t in self.tokens().items()
               if t["role"] == "admin" and t["state"] == "valid"]
        self.assertEqual(len(own), 1)
        rotated = self.rollcall("token", "rotate", own[0], "--job", self.job)
        self.assertEqual(rotated.code, 0, rotated.text())
        self.assertEqual(self.token_states()[own[0]], "revoked")
        self.goes_on()

    def redials(self, invalidate, *flags):
        """A worker whose token is no longer valid redials and goes on."""
        self.begin_through(flags)
        invalidate(self.given["id"])
        self.assertNotEqual(self.token_states()[self.given["id"]], "valid")
        self.between.process.signal(signal.SIGUSR1)
        self.between.process.await_line("^parted")
        self.between.process.await_lines("^connected", 2)
        # w1 is "running" again once the daemon has got a message from it.
        self.await_status(
            self.text, lambda s: nodes_by_name(s)["w1"]["state"] == "running",
            "w1 back")
        self.assert_refused(self.stranger([self.given["join"]]),
                            "expired|revoked|used")
        self.goes_on()

    def begin_through(self, flags):
        """Like begin, but the worker is behind a proxy with its own token."""
        def worker_string():
            self.given = self.token(*flags)
            join = wire.Join(self.given["join"])
            self.between = self.proxy(join.port(), "between")
            join.endpoints = [self.between.endpoint()]
            return join.text()
        self.worker_string = worker_string
        self.begin()

    def test_redials_after_its_token_was_revoked(self):
        self.redials(lambda i: self.assertEqual(self.rollcall(
            "token", "revoke", i, "--job", self.job).code, 0))

    def test_redials_after_its_token_was_used_up(self):
        self.redials(lambda i: None, "--uses", "1")

    def test_redials_after_its_token_has_expired(self):
        # The time is long enough for the worker to join on a busy machine.
        self.redials(self.await_expired, "--ttl", "20s")

    def test_redials_a_daemon_that_was_restarted(self):
        self.begin()
        worker = wire.Join(self.text).token_id
        self.assertEqual(self.rollcall("token", "revoke", worker, "--job",
                                       self.job).code, 0)
        self.restart_daemon()
        self.assert_refused(self.stranger([self.text]), "revoked")
        self.gate.open()
        self.assert_code(self.launcher, 0)
        self.assert_code(self.worker, 0)
        self.assertIsNone(self.worker.find(r"\bup-\d-g2"))
