"""How an agent knows its daemon: pin, shared secret, own PKI, or loopback."""
import json
import os
import signal
import socket
import ssl
import unittest

import harness
import pki
import wire
from guarded import REFUSED, Guarded, Proxy
from harness import E2E, Gate, nodes_by_name
from wire import Stranger, hello


class Middle(Guarded):
    """A man in the middle reads everything that he is told."""

    def disguises(self):
        """Certificates of his: (what, (PEM file, key file))."""
        folder = self.stage.path("his")
        os.mkdir(folder)
        own = pki.Authority(folder, "own")
        yield "a CA that is called the same", own.issue("rollcall daemon")
        yield "nobody's but his own", (own.cert, own.key)
        # Behind his own, he shows all that the daemon shows everybody.
        cert, key = own.issue("rollcall daemon")
        with open(cert, encoding="ascii") as f:
            first = f.read().split("-----END CERTIFICATE-----")[0]
        with open(cert, "w", encoding="ascii") as f:
            f.write(first + "-----END CERTIFICATE-----\n")
            for shown in wire.chain(wire.Join(self.text).port()):
                f.write(ssl.DER_cert_to_PEM_cert(shown))
        yield "the daemon's CA behind his own", (cert, key)

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
                between = self.proxy(port, f"his{number}", certificate)
                text = self.through(between)
                self.assert_refused(self.stranger([text]), "nothing was sent to it")
                for words in (["status", text], ["stop", text],
                              ["token", "create", text]):
                    asked = self.rollcall(*words)
                    self.assertEqual(asked.code, REFUSED, asked.text())
                between.process.await_lines("^connected", 4)
                between.process.await_lines("^parted", 4)
                self.assertEqual(between.went_up(), b"")
                # A client that believes him is let in, and he has its secret.
                fool = Stranger(between.port).open().say(
                    hello(wire.Join(self.text), f"fool{number}"))
                self.addCleanup(fool.close)
                self.assertIsNotNone(fool.welcome(), fool.ended)
                self.assertIn(wire.Join(self.text).secret, between.went_up())
                fool.close()
        self.assertEqual(self.denied("[a-z_]+"), [])
        after = self.world()
        for each in (before, after):
            each["nodes"] = [n for n in each["nodes"]
                             if not n["node"].startswith("fool")]
            each.pop("missing")
        self.assertEqual(after, before)
        self.goes_on()

    def test_who_passes_bytes_on_untouched(self):
        # The control: it goes through, and he can read none of it.
        self.begin()
        between = self.proxy(wire.Join(self.text).port(), "bytes")
        spare = self.stranger([self.through(between)])
        self.assert_let_in()
        join = wire.Join(self.text)
        seen = between.recorded()
        self.assertGreater(len(seen), 1000)
        for form in (join.secret, join.secret.hex().encode(),
                     join.token_id.encode(), self.job.encode()):
            self.assertNotIn(form, seen)
        self.goes_on()
        self.assert_code(spare, 0)

    def test_another_one_at_the_next_address(self):
        # A stranger at one address of the daemon's is passed over.
        self.begin()
        folder = self.stage.path("his")
        os.mkdir(folder)
        between = self.proxy(wire.Join(self.text).port(), "first",
                             pki.Authority(folder, "own").issue("x"))
        join = wire.Join(self.text)
        join.endpoints.insert(0, between.endpoint())
        spare = self.stranger([join.text()])
        self.assert_let_in()
        self.assertEqual(between.went_up(), b"")
        self.goes_on()
        self.assert_code(spare, 0)


class Secret(Guarded):
    """One that all specs hold before anything runs."""

    def setUp(self):
        super().setUp()
        self.secret = self.new_secret()
        self.file = self.secret_file("secret", self.secret)

    def begin_with_secret(self):
        self.begin(["--listen", "127.0.0.1:0", "--secret-file", self.file])
        self.endpoint = f"127.0.0.1:{wire.Join(self.text).port()}"

    def by_secret(self, endpoint, *how):
        return ["--endpoint", endpoint, "--job", self.job, *how]

    def test_the_worker_first(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up-$RANK; cat {gate.path}"]
        # The worker's endpoint is a proxy's, which learns later where the
        # daemon is: no port has to be free a second time.
        where = self.stage.path("where")
        between = Proxy(self.stage, "@" + where, "early")
        worker = self.stage.start(
            [harness.ROLLCALL, "join", "--endpoint", between.endpoint(),
             "--job", self.job, "--secret-file", self.file, "--name", "w1",
             "--hosts-file", self._hosts, "--", *command])
        between.process.await_line("^parted")
        launcher = self.launch(
            ["--job", self.job, "--nodes", "2", "--listen", "127.0.0.1:0",
             "--secret-file", self.file], command)
        port = wire.Join(self.join_string(launcher)).port()
        with open(where + ".new", "w", encoding="ascii") as f:
            f.write(f"127.0.0.1:{port}")
        os.replace(where + ".new", where)
        worker.await_line("up-1")
        launcher.await_line("up-0")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)

    def test_a_wrong_secret(self):
        self.begin_with_secret()
        before = self.world()
        wrong = self.secret_file("wrong", self.new_secret())
        self.assert_refused(self.stranger(
            self.by_secret(self.endpoint, "--secret-file", wrong)),
            "not the expected daemon")
        asked = self.rollcall("status", *self.by_secret(
            self.endpoint, "--secret-file", wrong))
        self.assertEqual(asked.code, REFUSED, asked.text())
        self.assertEqual(self.denied("[a-z_]+"), [])
        self.assertEqual(self.world(), before)
        spare = self.stranger(
            self.by_secret(self.endpoint, "--secret-file", self.file))
        self.assert_let_in()
        self.goes_on()
        self.assert_code(spare, 0)

    def test_what_is_no_secret(self):
        for text in ("", "short", "0" * 31, "no secret at all, in words"):
            path = self.secret_file("bad", text)
            for words in (["launch", "--secret-file", path, "--", "true"],
                          ["join", *self.by_secret("127.0.0.1:9"),
                           "--secret-file", path, "--", "true"]):
                ended = self.rollcall(*words)
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn("rollcall token secret", ended.text())
                self.assertNotIn(text or "\0", ended.text())

    def test_a_secret_file_that_others_can_read(self):
        authority = pki.Authority(self.stage.path(), "modes")
        cert, key = authority.issue("modes")
        bare = [os.path.join(harness.BIN, "rollcalld"), "--listen",
                "127.0.0.1:0", "--state"]
        rollcalld = [*bare, self.stage.path("modes")]
        # Read before etcd is asked.
        etcd = [*bare, "etcd://127.0.0.1:1", "--insecure"]
        tls = ["--tls-cert", cert, "--tls-ca", authority.cert, "--tls-key", key]
        launch = [harness.ROLLCALL, "launch", "--listen", "127.0.0.1:0"]
        rows = [
            (self.file, [*launch, "--secret-file", self.file, "--", "true"]),
            (self.file, [harness.ROLLCALL, "join", *self.by_secret(
                "127.0.0.1:9"), "--secret-file", self.file, "--", "true"]),
            (self.file, [*rollcalld, "--secret-file", self.file]),
            (self.file, [*etcd, "--etcd-key-file", self.file]),
            (self.file, [*etcd, "--etcd-user", "u", "--etcd-password-file",
                         self.file, "--etcd-key-file",
                         self.secret_file("other", self.secret)]),
            (key, [*launch, *tls, "--", "true"]),
            (key, [*rollcalld, *tls]),
        ]
        for path, words in rows:
            os.chmod(path, 0o644)
            ended = self.stage.run(words)
            self.assertNotEqual(ended.code, 0, words)
            self.assertIn(f"{path}: expected mode 0600, got 0644",
                          ended.text())
            self.assertIn(f"chmod 600 {path}", ended.text())
            os.chmod(path, 0o600)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount")
    def test_a_secret_file_on_a_read_only_mount(self):
        # As Kubernetes makes of a secret: files through links, 0644, which the
        # container cannot change.
        folder = self.stage.path("mounted")
        os.makedirs(f"{folder}/..2024")
        os.symlink("..2024", f"{folder}/..data")
        os.symlink("..data/secret", f"{folder}/secret")
        with open(f"{folder}/secret", "w", encoding="ascii") as f:
            f.write(self.secret)
        os.chmod(f"{folder}/secret", 0o644)
        launch = (f"{harness.ROLLCALL} launch --listen 127.0.0.1:0 --no-hosts "
                  f"--job mounted --secret-file {folder}/secret -- echo ran")
        ended = self.stage.run(
            ["unshare", "--mount", "sh", "-ec",
             f"mount --bind {folder} {folder}; "
             f"mount -o remount,bind,ro {folder}; exec {launch}"])
        self.assertEqual(ended.code, 0, ended.text())
        self.assertTrue(ended.find(r"WARNING: .*/secret: expected mode 0600"))
        # Where it can be changed it is refused.
        ended = self.stage.run(["sh", "-c", f"exec {launch}"])
        self.assertEqual(ended.code, 2, ended.text())

    def test_from_stdin_and_environment(self):
        self.begin_with_secret()
        join = (f"{harness.ROLLCALL} join --endpoint {self.endpoint} --job "
                f"{self.job} --no-hosts")
        piped = self.stage.start(["sh", "-c", f"exec {join} --name piped "
                                  f"--secret-file - -- true < {self.file}"])
        self.assert_let_in("piped")
        told = self.stage.start(
            ["sh", "-c", f"exec {join} --name told -- true"],
            {"ROLLCALL_SECRET": self.secret})
        self.assert_let_in("told")
        # The token that every holder knows opens all of it.
        stopped = self.rollcall("stop", *self.by_secret(
            self.endpoint, "--secret-file", self.file))
        self.assertEqual(stopped.code, 0, stopped.text())
        for process in (self.launcher, self.worker, piped, told):
            process.wait()

    def test_a_launcher_whose_secret_comes_by_environment(self):
        self.begin(["--listen", "127.0.0.1:0"],
                   {"ROLLCALL_SECRET": self.secret})
        spare = self.stranger(self.by_secret(
            f"127.0.0.1:{wire.Join(self.text).port()}",
            "--secret-file", self.file))
        self.assert_let_in()
        self.goes_on()
        self.assert_code(spare, 0)

    def test_a_man_in_the_middle_who_does_not_know_it(self):
        self.begin_with_secret()
        folder = self.stage.path("his")
        os.mkdir(folder)
        port = wire.Join(self.text).port()
        between = self.proxy(port, "his",
                             pki.Authority(folder, "own").issue("x"))
        words = self.by_secret(between.endpoint(), "--secret-file", self.file)
        self.assert_refused(self.stranger(words), "nothing was sent to it")
        for verb in ("status", "stop"):
            asked = self.rollcall(verb, *words)
            self.assertEqual(asked.code, REFUSED, asked.text())
        between.process.await_lines("^parted", 3)
        self.assertEqual(between.went_up(), b"")
        # The control: bytes on untouched.
        through = self.proxy(port, "bytes")
        spare = self.stranger(self.by_secret(
            through.endpoint(), "--secret-file", self.file))
        self.assert_let_in()
        self.goes_on()
        self.assert_code(spare, 0)

    def test_a_daemon_that_lost_its_disk_is_the_same(self):
        # A standing one, with nobody to start it again on its old folder.
        daemon = self.standing("first", "127.0.0.1:0")
        port = daemon.await_line(r"listening on port (\d+)")[1]
        shown = wire.chain(int(port))
        words = self.by_secret(f"127.0.0.1:{port}", "--secret-file", self.file)
        gate = Gate(self.stage)
        agents = [self.stage.start(
            [harness.ROLLCALL, "join", *words, "--nodes", "2", "--name", name,
             "--hosts-file", self._hosts, "--", "sh", "-c",
             f"echo up-g$ROLLCALL_GENERATION; cat {gate.path}"])
            for name in ("a", "b")]
        for agent in agents:
            agent.await_line("up-g1")
        daemon.signal(signal.SIGKILL)
        self.stage.pump(lambda: daemon.code is not None, "its end")
        second = self.standing("second", f"127.0.0.1:{port}")
        second.await_line("listening on port")
        # Its certificate is a new one, and its CA the one that they know.
        again = wire.chain(int(port))
        self.assertNotEqual(again[0], shown[0])
        self.assertEqual(wire.pin_of(again[-1]), wire.pin_of(shown[-1]))
        # They believe it, and tell it of their run, of which it knows nothing:
        # as both of them say the same, it goes on with that.
        second.await_line("event=adopt")
        for agent in agents:
            agent.await_line("attending again")
        gate.open()
        for agent in agents:
            self.assert_code(agent, 0)
            self.assertIsNone(agent.find("not the expected daemon"))
            self.assertIsNone(agent.find("up-g2"))
        # The same words open it to the next run.
        runs = [self.stage.start(
            [harness.ROLLCALL, "join", *words, "--nodes", "2", "--name", name,
             "--hosts-file", self._hosts, "--", "echo", "next"])
            for name in ("a", "b")]
        for agent in runs:
            self.assert_code(agent, 0)
            agent.await_line(r"\] next")

    def standing(self, folder, listen):
        return self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen", listen,
             "--state", self.stage.path(folder), "--secret-file", self.file])


class OwnPki(Guarded):
    """Certificates of the user's own, on both sides."""

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
        """The worker of the job: with a certificate of its own."""
        own = self.flags(self.ours.issue("w1"))
        return super().join(join_string, [*flags, *own], command, env)

    def begin_with_pki(self):
        self.begin(["--listen", "127.0.0.1:0", *self.flags(self.server)])
        self.assertEqual(wire.Join(self.text).pin, b"")

    def status(self, text):
        asked = self.rollcall("status", "--job", self.job, "--json")
        self.assertEqual(asked.code, 0, asked.text())
        return json.loads(asked.out()[0])

    def assert_let_in(self, name="stranger"):
        self.ask_until(lambda: nodes_by_name(self.status(self.text)).get(
            name, {}).get("state") == "spare", f"{name} as a spare")

    def client(self, certificate):
        """A client by hand: whether the daemon lets it say anything."""
        with open(self.ours.cert, encoding="ascii") as f:
            trust = wire.context(f.read(), *(certificate or ()))
        caller = Stranger(wire.Join(self.text).port(), trust=trust)
        self.addCleanup(caller.close)
        try:
            return caller.open().say(hello(wire.Join(self.text), "by-hand",
                                           )).welcome() is not None
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
        # He knows the token, and has no certificate that counts here.
        self.assertFalse(self.client(None))
        self.assertFalse(self.client(foreign.issue("client")))
        self.assertFalse(self.client((self.ours.issue("late", days=-1))))
        bare = self.stranger([self.text])
        self.assertEqual(bare.wait(), 2, bare.text())
        self.assertIn("--tls-ca", bare.text())
        # The daemon would have nothing of it; no more does he get in.
        fake = self.stranger([self.text], self.flags(foreign.issue("client")))
        # Nor does one believe a daemon of another CA's.
        self.assert_refused(self.stranger(
            [self.text], self.flags(foreign.issue("c"), foreign), "other"),
            "nothing was sent to it", "other")
        self.assertEqual(self.world(), before)
        self.assertTrue(self.client(self.ours.issue("client")))
        spare = self.stranger([self.text],
                              self.flags(self.ours.issue("spare")), "spare")
        self.assert_let_in("spare")
        if fake.code is None:
            fake.signal(signal.SIGTERM)
        self.assertNotEqual(fake.wait(), 0)
        self.assertNotIn("stranger", nodes_by_name(self.status(self.text)))
        self.goes_on()
        self.assert_code(spare, 0)

    def test_by_name(self):
        self.begin_with_pki()
        server = self.ours.issue("elsewhere", "DNS:daemon.example")
        other = self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen", "127.0.0.1:0",
             "--state", self.stage.path("other"), *self.flags(server)])
        other.await_line("join with: ")
        with open(self.stage.path("other", "worker.join"),
                  encoding="ascii") as f:
            join = wire.Join(f.read().strip())
        flags = ["--job", "named", "--nodes", "1",
                 *self.flags(self.ours.issue("c"))]
        join.endpoints = [f"127.0.0.1:{join.port()}"]
        # Issued by the right CA, for somebody else.
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
        spare = self.stranger([self.text],
                              self.flags(self.ours.issue("spare")))
        self.assert_let_in()
        self.goes_on()
        self.assert_code(spare, 0)


class Insecure(Guarded):
    def test_on_loopback(self):
        self.begin(["--insecure"])
        self.assertRegex("\n".join(self.launcher.err()), "WARNING.*--insecure")
        join = wire.Join(self.text)
        self.assertTrue(join.insecure)
        self.assertEqual(join.endpoints, [f"127.0.0.1:{join.port()}"])
        # In the clear, as it says: what the other tests would see of a token.
        between = self.proxy(join.port(), "plain")
        secret = join.secret
        join.endpoints = [between.endpoint()]
        spare = self.stranger([join.text()])
        self.assert_let_in()
        self.assertIn(secret, between.went_up())
        self.goes_on()
        self.assert_code(spare, 0)

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
        # This machine as others see it; 127.0.0.1 would be dialled.
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with probe:
            try:
                probe.connect(("203.0.113.1", 9))  # Sends nothing.
                outside = probe.getsockname()[0]
            except OSError:
                outside = "203.0.113.1"
        self.begin()
        with socket.create_server(("0.0.0.0", 0)) as door:
            door.setblocking(False)
            port = door.getsockname()[1]
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
                door.accept()
        self.goes_on()

    def test_no_way_back_to_the_clear(self):
        # A daemon with TLS never answers in the clear, nor believes a token
        # that came so.
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
            spare = self.stranger([self.text], env=env)
            self.assert_let_in()
            asked = self.rollcall("status", self.text, env=env)
            self.assertEqual(asked.code, 0, asked.text())
            with self.assertRaises(BlockingIOError):
                trap.accept()
            self.goes_on()
            self.assert_code(spare, 0)


if __name__ == "__main__":
    harness.main()
