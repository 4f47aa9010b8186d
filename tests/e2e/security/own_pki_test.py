"""Tests mutual TLS with certificates from a user's own PKI."""
import os
import signal
import ssl

import pki
import wire
from guarded import Guarded
from harness import E2E, Gate, nodes_by_name
from wire import Stranger, hello


class OwnPki(Guarded):
    def setUp(self):
        super().setUp()
        self.folder = self.stage.path("pki")
        os.mkdir(self.folder)
        self.ours = pki.Authority(self.folder, "ours", "Example CA")
        self.server = self.ours.issue("server")

    def flags(self, certificate, ca=None):
        return ["--tls-ca", (ca or self.ours).cert, "--tls-cert",
                certificate[0], "--tls-key", certificate[1]]

    def join(self, join_string, flags, command, env=None):
        """Joins a worker that has its own certificate."""
        own = self.flags(self.ours.issue("w1"))
        return super().join(join_string, [*flags, *own], command, env)

    def begin_with_pki(self):
        self.begin(["--listen", "127.0.0.1:0", *self.flags(self.server)])
        self.assertEqual(wire.Join(self.text).pin, b"")

    def status(self, *_):
        return super().status("--job", self.job)

    def assert_let_in(self, name="stranger"):
        self.ask_until(lambda: nodes_by_name(self.status(self.text)).get(
            name, {}).get("state") == "spare", f"{name} as a spare")

    def client(self, certificate):
        """Whether the daemon welcomes a client with that certificate.
        """
        with open(self.ours.cert, encoding="ascii") as f:
            trust = wire.context(f.read(), *(certificate or ()))
        caller = Stranger(wire.Join(self.text).port(), trust=trust)
        self.addCleanup(caller.close)
        try:
            return caller.open().say(hello(
                wire.Join(self.text), "by-hand")).welcome() is not None
        except OSError:
            return False

    def test_a_certificate_may_bind_the_node_name(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "bound", "--nodes", "1", "--no-worker", "--listen",
             "127.0.0.1:0", "--tls-bind-names", *self.flags(self.server)],
            ["sh", "-c", f"cat {gate.path}"])
        text = self.join_string(launcher)
        flags = self.flags(self.ours.issue("w1", "DNS:w1"))
        other = E2E.join(self, text, ["--name", "other", *flags], ["true"])
        self.assert_code(other, 77)
        self.assertRegex(other.text(), r"\(w1\), got other")
        gate.open()
        worker = E2E.join(self, text, ["--name", "w1", *flags], ["true"])
        self.assert_code(worker, 0)
        self.assert_code(launcher, 0)

    def test_mutual(self):
        self.begin_with_pki()
        before = self.world()
        foreign = pki.Authority(self.folder, "foreign", "Example CA")
        # These clients have the token, but no valid certificate of this CA.
        self.assertFalse(self.client(None))
        self.assertFalse(self.client(foreign.issue("client")))
        self.assertFalse(self.client(self.ours.issue("late", days=-1)))
        bare = self.stranger([self.text])
        self.assertEqual(bare.wait(), 2, bare.text())
        self.assertIn("--tls-ca", bare.text())
        # An agent with a foreign certificate is not admitted either.
        fake = self.stranger([self.text], self.flags(foreign.issue("client")))
        # An agent does not trust a daemon of another CA.
        self.assert_refused(self.stranger(
            [self.text], self.flags(foreign.issue("c"), foreign), "other"),
            "nothing was sent to it", "other")
        self.assertEqual(self.world(), before)
        self.assertTrue(self.client(self.ours.issue("client")))
        self.let_in([self.text],
                              self.flags(self.ours.issue("spare")), "spare")
        if fake.code is None:
            fake.signal(signal.SIGTERM)
        self.assertNotEqual(fake.wait(), 0)
        self.assertNotIn("stranger", nodes_by_name(self.status(self.text)))
        self.goes_on()

    def test_by_name(self):
        self.begin_with_pki()
        server = self.ours.issue("elsewhere", "DNS:daemon.example")
        state = self.stage.path("other")
        self.rollcalld("--state", state, *self.flags(server)).await_line(
            "join with: ")
        join = wire.Join(self.kept_join(state))
        flags = ["--job", "named", "--nodes", "1",
                 *self.flags(self.ours.issue("c"))]
        join.endpoints = [f"127.0.0.1:{join.port()}"]
        # The certificate is from the right CA, but has another name.
        self.assert_refused(self.stranger([join.text()], flags),
                            "nothing was sent to it")
        named = self.stranger(
            [join.text()], [*flags, "--tls-server-name", "daemon.example"],
            "named")
        self.assert_code(named, 0)
        self.goes_on()

    def test_replaced_while_it_runs(self):
        self.begin_with_pki()
        port = wire.Join(self.text).port()
        with open(self.ours.cert, encoding="ascii") as f:
            trust = wire.context(f.read(), *self.ours.issue("asker"))
        first = wire.chain(port, trust=trust)[0]
        for new, old in zip(self.ours.issue("renewed"), self.server):
            os.replace(new, old)
        self.ask_until(lambda: wire.chain(port, trust=trust)[0] != first,
                       "the new certificate")
        with open(self.server[0], encoding="ascii") as f:
            self.assertEqual(
                wire.chain(port, trust=trust)[0], ssl.PEM_cert_to_DER_cert(
                    f.read().split("-----END")[0]
                    + "-----END CERTIFICATE-----\n"))
        self.let_in([self.text],
                              self.flags(self.ours.issue("spare")))
        self.goes_on()
