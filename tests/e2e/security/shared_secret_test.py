"""Tests agents and daemons that authenticate each other by a shared secret."""
import os
import unittest

import harness
import pki
import wire
from guarded import REFUSED, Guarded, Proxy
from harness import Gate


class Secret(Guarded):
    """The secret exists before anything is started, as in all run specs."""

    def setUp(self):
        super().setUp()
        self.secret = self.new_secret()
        self.file = self.stage.secret_file("secret", self.secret)

    def begin_with_secret(self):
        self.begin(["--listen", "127.0.0.1:0", "--secret-file", self.file])
        self.endpoint = f"127.0.0.1:{wire.Join(self.text).port()}"

    def by_secret(self, endpoint, *how):
        return ["--endpoint", endpoint, "--job", self.job, *how]

    def test_the_worker_first(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up-$RANK; cat {gate.path}"]
        # The worker dials a proxy that gets the daemon's port later. So no port
        # has to stay free until the daemon binds it.
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
        wrong = self.stage.secret_file("wrong", self.new_secret())
        self.assert_refused(self.stranger(
            self.by_secret(self.endpoint, "--secret-file", wrong)),
            "not the expected daemon")
        asked = self.rollcall("status", *self.by_secret(
            self.endpoint, "--secret-file", wrong))
        self.assertEqual(asked.code, REFUSED, asked.text())
        self.assertEqual(self.denied("[a-z_]+"), [])
        self.assertEqual(self.world(), before)
        self.let_in(
            self.by_secret(self.endpoint, "--secret-file", self.file))
        self.goes_on()

    def test_what_is_no_secret(self):
        for text in ("", "short", "0" * 31, "no secret at all, in words"):
            path = self.stage.secret_file("bad", text)
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
        # The key file is read before etcd is contacted.
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
                         self.stage.secret_file("other", self.secret)]),
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
        # Kubernetes mounts a secret like this: as links to files of mode 0644,
        # which the container cannot change.
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
        # Where the mode could be changed, the file is refused.
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
        # The secret also permits what an admin's token permits.
        stopped = self.rollcall("stop", *self.by_secret(
            self.endpoint, "--secret-file", self.file))
        self.assertEqual(stopped.code, 0, stopped.text())
        for process in (self.launcher, self.worker, piped, told):
            process.wait()

    def test_a_launcher_whose_secret_comes_by_environment(self):
        self.begin(["--listen", "127.0.0.1:0"],
                   {"ROLLCALL_SECRET": self.secret})
        self.let_in(self.by_secret(
            f"127.0.0.1:{wire.Join(self.text).port()}",
            "--secret-file", self.file))
        self.goes_on()

    def test_a_man_in_the_middle_who_does_not_know_it(self):
        self.begin_with_secret()
        folder = self.stage.path("attacker")
        os.mkdir(folder)
        port = wire.Join(self.text).port()
        between = self.proxy(port, "attacker",
                             pki.Authority(folder, "own").issue("x"))
        words = self.by_secret(between.endpoint(), "--secret-file", self.file)
        self.assert_refused(self.stranger(words), "nothing was sent to it")
        for verb in ("status", "stop"):
            asked = self.rollcall(verb, *words)
            self.assertEqual(asked.code, REFUSED, asked.text())
        between.process.await_lines("^parted", 3)
        self.assertEqual(between.went_up(), b"")
        # Control: a proxy that only passes on bytes is no problem.
        through = self.proxy(port, "bytes")
        self.let_in(self.by_secret(
            through.endpoint(), "--secret-file", self.file))
        self.goes_on()

    def test_a_daemon_that_lost_its_disk_is_the_same(self):
        # This is no launcher, which would start the daemon on its old folder.
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
        daemon.kill()
        second = self.standing("second", f"127.0.0.1:{port}")
        second.await_line("listening on port")
        # It has a new certificate from the CA that the agents trust.
        again = wire.chain(int(port))
        self.assertNotEqual(again[0], shown[0])
        self.assertEqual(wire.pin_of(again[-1]), wire.pin_of(shown[-1]))
        # The agents trust the daemon and tell it of their run. It adopts the
        # run, since both agents report the same one.
        second.await_line("event=adopt")
        for agent in agents:
            agent.await_line("attending again")
        gate.open()
        for agent in agents:
            self.assert_code(agent, 0)
            self.assertIsNone(agent.find("not the expected daemon"))
            self.assertIsNone(agent.find("up-g2"))
        # The next run attends with the same arguments.
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
