"""How an agent authenticates its daemon: by a pin, or only on loopback."""
import os
import socket
import ssl

import harness
import pki
import wire
from guarded import REFUSED, Guarded
from harness import nodes_by_name
from wire import Stranger, hello


class Middle(Guarded):
    """A man in the middle that records everything that a client sends."""

    def disguises(self):
        """Yields the attacker's certificates: (what, (PEM file, key file))."""
        folder = self.stage.path("attacker")
        os.mkdir(folder)
        own = pki.Authority(folder, "own")
        yield "a CA that is called the same", own.issue("rollcall daemon")
        yield "a CA's own certificate", (own.cert, own.key)
        # The attacker's certificate comes first, then those of the daemon.
        cert, key = own.issue("rollcall daemon")
        with open(cert, encoding="ascii") as f:
            first = f.read().split("-----END CERTIFICATE-----")[0]
        with open(cert, "w", encoding="ascii") as f:
            f.write(first + "-----END CERTIFICATE-----\n")
            for shown in wire.chain(wire.Join(self.text).port()):
                f.write(ssl.DER_cert_to_PEM_cert(shown))
        yield "the daemon's CA behind another", (cert, key)

    def through(self, between):
        join = wire.Join(self.text)
        join.endpoints = [between.endpoint()]
        return join.text()

    def test_with_his_own_certificate(self):
        self.begin()
        before = self.world()
        port = wire.Join(self.text).port()
        for number, (what, certificate) in enumerate(self.disguises()):
            with self.subTest(what):
                between = self.proxy(port, f"attacker{number}", certificate)
                text = self.through(between)
                self.assert_refused(self.stranger([text]),
                                    "nothing was sent to it")
                for words in (["status", text], ["stop", text],
                              ["token", "create", text]):
                    asked = self.rollcall(*words)
                    self.assertEqual(asked.code, REFUSED, asked.text())
                between.process.await_lines("^connected", 4)
                between.process.await_lines("^parted", 4)
                self.assertEqual(between.went_up(), b"")
                # Control: a client that checks no certificate sends its secret.
                trusting = Stranger(between.port).open().say(
                    hello(wire.Join(self.text), f"trusting{number}"))
                self.addCleanup(trusting.close)
                self.assertIsNotNone(trusting.welcome(), trusting.ended)
                self.assertIn(wire.Join(self.text).secret, between.went_up())
                trusting.close()
        self.assertEqual(self.denied("[a-z_]+"), [])
        after = self.world()
        for each in (before, after):
            each["nodes"] = [n for n in each["nodes"]
                             if not n["node"].startswith("trusting")]
            each.pop("missing")
        self.assertEqual(after, before)
        self.goes_on()

    def test_who_passes_bytes_on_untouched(self):
        # Control: all bytes pass; the attacker can read none of them.
        self.begin()
        between = self.proxy(wire.Join(self.text).port(), "bytes")
        self.let_in([self.through(between)])
        join = wire.Join(self.text)
        seen = between.recorded()
        self.assertGreater(len(seen), 1000)
        for form in (join.secret, join.secret.hex().encode(),
                     join.token_id.encode(), self.job.encode()):
            self.assertNotIn(form, seen)
        self.goes_on()

    def test_another_one_at_the_next_address(self):
        # An agent skips another server at one of the daemon's addresses.
        self.begin()
        folder = self.stage.path("attacker")
        os.mkdir(folder)
        between = self.proxy(wire.Join(self.text).port(), "first",
                             pki.Authority(folder, "own").issue("x"))
        join = wire.Join(self.text)
        join.endpoints.insert(0, between.endpoint())
        self.let_in([join.text()])
        self.assertEqual(between.went_up(), b"")
        self.goes_on()


class Insecure(Guarded):
    def test_on_loopback(self):
        self.begin(["--insecure"])
        self.assertRegex("\n".join(self.launcher.err()), "WARNING.*--insecure")
        join = wire.Join(self.text)
        self.assertTrue(join.insecure)
        self.assertEqual(join.endpoints, [f"127.0.0.1:{join.port()}"])
        # Control: without TLS, the attacker would get the token.
        between = self.proxy(join.port(), "plain")
        secret = join.secret
        join.endpoints = [between.endpoint()]
        self.let_in([join.text()])
        self.assertIn(secret, between.went_up())
        self.goes_on()

    def test_nowhere_else(self):
        for listen in ("0.0.0.0:0", "[::]:0", "10.0.0.1:0", ":0"):
            for words in (["rollcall", "launch", "--insecure", "--listen",
                           listen, "--", "true"],
                          ["rollcalld", "--insecure", "--listen", listen,
                           "--state", self.stage.path("s")]):
                ended = self.stage.run(
                    [os.path.join(harness.BIN, words[0]), *words[1:]])
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn("loopback", ended.text())

    def test_a_join_string_that_was_made_insecure(self):
        # An outside address of this machine; loopback would be dialled.
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with probe:
            try:
                probe.connect(("203.0.113.1", 9))  # Sends nothing.
                outside = probe.getsockname()[0]
            except OSError:
                outside = "203.0.113.1"
        self.begin()
        with socket.create_server(("0.0.0.0", 0)) as listener:
            listener.setblocking(False)
            port = listener.getsockname()[1]
            for host in (outside, "node1.example", "[::ffff:203.0.113.1]"):
                join = wire.Join(self.text)
                join.insecure, join.pin = True, b""
                join.endpoints = [f"{host}:{port}"]
                stranger = self.stranger([join.text()])
                self.assertIn(stranger.wait(), (2, REFUSED), stranger.text())
                self.assertIn("loopback", stranger.text())
                asked = self.rollcall("status", join.text())
                self.assertIn(asked.code, (2, REFUSED), asked.text())
            with self.assertRaises(BlockingIOError):
                listener.accept()
        self.goes_on()

    def test_no_way_back_to_the_clear(self):
        # A daemon with TLS does not answer clients without it, and accepts no
        # token from them.
        self.begin()
        join = wire.Join(self.text)
        plain = Stranger(join.port()).open(plain=True).say(
            hello(join, "plain"))
        self.addCleanup(plain.close)
        self.assertIsNone(plain.welcome())
        self.assertNotIn("plain", nodes_by_name(self.status(self.text)))
        self.goes_on()


class Proxies(Guarded):
    def test_of_the_environment_are_ignored(self):
        with socket.create_server(("127.0.0.1", 0)) as trap:
            trap.setblocking(False)
            url = f"http://127.0.0.1:{trap.getsockname()[1]}"
            env = {name: url for low in (
                "http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
                for name in (low, low.upper())}
            env["no_proxy"] = env["NO_PROXY"] = None
            self.begin(env=env)
            self.let_in([self.text], env=env)
            asked = self.rollcall("status", self.text, env=env)
            self.assertEqual(asked.code, 0, asked.text())
            with self.assertRaises(BlockingIOError):
                trap.accept()
            self.goes_on()
