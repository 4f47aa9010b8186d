"""Tests what unauthenticated peers may send to the port: their stream ends, and
the run goes on."""
import os
import signal
import ssl
import struct

import wire
from harness import E2E, Gate
from wire import Stranger, hello

# The codes with which a stream ends that broke the grammar.
REFUSED = {wire.INVALID_ARGUMENT, wire.RESOURCE_EXHAUSTED}


class Garbage(E2E):
    """Each test disturbs a run of two nodes, which must not be affected."""

    def setUp(self):
        super().setUp()
        self.gate = Gate(self.stage)
        command = ["sh", "-c",
                   f"echo up-$RANK-g$ROLLCALL_GENERATION; cat {self.gate.path};"
                   " echo down-$RANK"]
        self.launcher = self.launch(["--nodes", "2"], command)
        text = self.join_string(self.launcher)
        self.worker = self.join(text, ["--name", "w1"], command)
        self.worker.await_line("up-1-g1")
        self.launcher.await_line("up-0-g1")
        self.text = text
        self.join_to = wire.Join(text)
        self.strangers = []

    def stranger(self):
        """Opens a client that trusts the daemon and has shaken hands."""
        return self.nobody(wire.pinned(self.join_to.pin,
                                       self.join_to.port())).shake()

    def nobody(self, trust=None):
        stranger = Stranger(self.join_to.port(), trust=trust)
        self.addCleanup(stranger.close)
        self.strangers.append(stranger)
        return stranger

    def goes_on(self):
        """Checks that the run was not affected: it has one generation, and its
        ranks exit 0."""
        state = self.status(self.text)
        self.assertEqual(state["generation"], 1)
        self.assertEqual(state["state"], "running")
        self.assertEqual(len(state["nodes"]), 2, state["nodes"])
        self.gate.open()
        self.assert_code(self.launcher, 0)
        self.assert_code(self.worker, 0)
        self.assertIsNotNone(self.launcher.find("down-0"))
        self.assertIsNotNone(self.worker.find("down-1"))
        self.never_noticed()

    def never_noticed(self):
        """Checks that there was no other generation and no other daemon."""
        for process in (self.launcher, self.worker):
            self.assertIsNone(process.find(r"\bup-\d-g2"))
        self.assertIsNone(self.launcher.find("started again"),
                          self.launcher.text())

    def test_noise(self):
        for data in (os.urandom(65536), b"\0" * 4096,
                     b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"10.0.0.66 lab1 evil\nlab2 10.0.0.66\n", b""):
            for stranger in (self.nobody(), self.stranger()):
                stranger.raw(data)
                if data:  # A silent client may stay for a while.
                    self.assertIsNone(stranger.rest())
        self.goes_on()

    def test_broken_tls(self):
        hello = self.client_hello()
        for data in (
                hello[:20] + os.urandom(len(hello) - 20),
                hello[:5] + b"\0" * 600,
                b"\x16\x03\x01\xff\xff" + b"\x01" * 70000,
                hello + os.urandom(5000),
                hello[:100]):
            stranger = self.nobody()
            stranger.raw(data)
            if data != hello[:100]:  # Half a handshake may still be completed.
                self.assertIsNone(stranger.rest())
        # One client has only older TLS versions, one another protocol.
        older, other = wire.context(), wire.context()
        older.set_ciphers("ALL:@SECLEVEL=0")
        older.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        older.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
        other.set_alpn_protocols(["http/1.1"])
        for trust in (older, other):
            self.assertFalse(self.is_answered(trust))
        self.assertTrue(self.is_answered(wire.context()))
        self.goes_on()

    def is_answered(self, trust):
        """Whether a client with this TLS context gets HTTP/2 data."""
        try:
            return self.nobody(trust).shake().open().socket.recv(1) != b""
        except OSError:
            return False

    def client_hello(self):
        """Returns the first bytes that a proper client sends."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = wire.context().wrap_bio(incoming, outgoing)
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def test_broken_http2(self):
        for data in (
                wire.PREFACE[:10],
                wire.PREFACE + os.urandom(4096),
                wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0)
                + b"\xff\xff\xff" + os.urandom(512),
                wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0)
                + wire.frame(wire.HEADERS, 4, 1, b"\xff" * 64)):
            stranger = self.stranger()
            stranger.raw(data)
            # Half a preface may still be completed.
            if data != wire.PREFACE[:10]:
                self.assertIsNone(stranger.rest())
        self.goes_on()

    def test_half_a_message(self):
        whole = hello(self.join_to, "half")
        for left_open in (True, False):
            stranger = self.stranger().open()
            stranger.raw(wire.frame(
                wire.DATA, 0, 1, wire.grpc_message(whole)[:len(whole) // 2]))
            if not left_open:
                stranger.close()
        self.goes_on()

    def test_no_hello_ends_in_time(self):
        # The daemon ends an open stream on which no Hello comes (hello_timeout,
        # 10 s). The code lets an agent that was only slow dial again.
        self.assertEqual(self.stranger().open().end(), wire.UNAVAILABLE)
        self.goes_on()

    def test_oversized(self):
        for size in (9 << 20, 0x7fffffff, 0xffffffff):
            stranger = self.stranger().open()
            stranger.raw(wire.frame(wire.DATA, 0, 1, b"\0" + struct.pack(
                ">I", size) + b"x" * 8000))
            # The stream ends at once, or after hello_timeout without a Hello.
            self.assertIn(stranger.end(), {
                wire.RESOURCE_EXHAUSTED, wire.UNAVAILABLE, "reset", "closed"})
        # This message is below gRPC's limit, but above the limit of facts.
        fat = self.stranger().open().learn_window()
        fat.say(wire.introduction(self.join_to, "fat"))
        self.assertIn(fat.say(hello(self.join_to, "fat", facts=wire.field(
            1, "x" * (65 << 10)))).end(), REFUSED)
        self.goes_on()

    def test_not_protobuf(self):
        for body in (b"\xff" * 100, os.urandom(300), b"\x0a\xff\xff\xff\x7f"):
            self.assertNotEqual(self.stranger().open().say(body).end(), wire.OK)
        self.goes_on()

    def test_out_of_order(self):
        empty, first = b"", wire.HEARTBEAT
        for message in (empty, first, wire.prepared(1)):
            self.assertEqual(self.stranger().open().say(message).end(),
                             wire.INVALID_ARGUMENT)
        # A second Hello on one stream is refused.
        twice = hello(self.join_to, "twice")
        stranger = self.stranger().open().say(twice)
        self.assertIsNotNone(stranger.welcome())
        self.assertEqual(stranger.say(twice).end(), wire.INVALID_ARGUMENT)
        stranger.close()
        self.await_status(self.text, lambda s: s["state"] == "running"
                          and len([n for n in s["nodes"]
                                   if n["state"] == "running"]) == 2,
                          "two nodes that run")
        self.gate.open()
        self.assert_code(self.launcher, 0)
        self.assert_code(self.worker, 0)
        self.never_noticed()

    def test_forged_hellos(self):
        join = self.join_to
        evil = "evil\n10.0.0.66 bank.example"
        forged = [
            (dict(node=evil), wire.INVALID_ARGUMENT),
            (dict(node=""), wire.INVALID_ARGUMENT),
            (dict(node="n" * 254), wire.INVALID_ARGUMENT),
            (dict(node="-n"), wire.INVALID_ARGUMENT),
            (dict(incarnation=0), wire.INVALID_ARGUMENT),
            (dict(ranks=0), wire.INVALID_ARGUMENT),
            (dict(ranks=65), wire.INVALID_ARGUMENT),
            (dict(job="No Job"), wire.INVALID_ARGUMENT),
            (dict(job="../../etc"), wire.INVALID_ARGUMENT),
            (dict(facts=wire.field(2, wire.field(1, "eth0") + wire.field(
                2, wire.field(1, evil)))), wire.INVALID_ARGUMENT),
            (dict(token=wire.field(1, join.token_id)
                  + wire.field(2, b"\0" * 16)), wire.UNAUTHENTICATED),
            (dict(token=wire.field(1, join.token_id)), wire.INVALID_ARGUMENT),
            (dict(token=None), wire.UNAUTHENTICATED),
            (dict(token=wire.field(1, "zzzzzz") + wire.field(
                2, join.secret)), wire.UNAUTHENTICATED),
            # A client with the token cannot replace a live node.
            (dict(node="w1"), wire.ALREADY_EXISTS),
            (dict(run="0" * 32), wire.ABORTED),
        ]
        for changes, code in forged:
            with self.subTest(changes=changes):
                name = changes.pop("node", "forged")
                got = self.stranger().open().say(
                    hello(join, name, **changes)).end()
                allowed = {code}
                if code == wire.INVALID_ARGUMENT and changes.get("job"):
                    allowed.add(wire.NOT_FOUND)
                self.assertIn(got, allowed)
        with open(self._hosts, encoding="utf-8") as f:
            text = f.read()
        for word in ("evil", "bank", "10.0.0.66", "forged"):
            self.assertNotIn(word, text)
        self.goes_on()

    def test_an_unknown_method(self):
        for path in ("/rollcall.v1.Membership/Nothing", "/", "/" + "x" * 100):
            self.assertNotEqual(self.stranger().open(path).end(), wire.OK)
        self.goes_on()

    def test_many_connections(self):
        for _ in range(200):
            self.nobody(wire.pinned(self.join_to.pin, self.join_to.port()))
        opened = 0
        for stranger in self.strangers[:100]:
            try:
                stranger.open()
                opened += 1
            except OSError:
                pass  # It waited for too long: its address has many already.
        self.assertGreaterEqual(opened, 32)
        self.goes_on()


class Logs(E2E):
    """Messages that cannot be parsed are not logged: anyone can send them."""

    def pour(self, join):
        for _ in range(30):
            # protobuf would log a line for each of these.
            stranger = Stranger(join.port(), trust=wire.pinned(
                join.pin, join.port()))
            self.addCleanup(stranger.close)
            stranger.open().say(hello(join, "x", job=b"\xff\xfe"))
            self.assertEqual(stranger.end(), wire.INVALID_ARGUMENT)

    def assert_quiet(self, lines):
        self.assertLess(len(lines), 20, lines[:40])
        for line in lines:
            self.assertNotRegex(line, "protobuf|UTF-8")

    def test_of_a_launchers_daemon(self):
        gate = Gate(self.stage)
        launcher = self.launch(["--job", "quiet", "--nodes", "1:2"],
                               ["sh", "-c", f"echo up; cat {gate.path}"])
        join = wire.Join(self.join_string(launcher))
        launcher.await_line(r"\] up")
        self.pour(join)
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_quiet(launcher.err())
        log = self.stage.path("state", "rollcall", "quiet", "daemon.log")
        with open(log, encoding="utf-8") as f:
            self.assert_quiet(f.read().splitlines())

    def test_of_a_standing_daemon(self):
        state = self.stage.path("standing")
        daemon = self.rollcalld("--state", state)
        daemon.await_line(r"join with: ")
        self.pour(wire.Join(self.kept_join(state)))
        daemon.signal(signal.SIGTERM)
        self.assert_code(daemon, 0)
        self.assert_quiet(daemon.err())
