"""Wrong flags: exit code 2, the error, and the right spelling."""
import os

import harness
from harness import E2E

# (argv, text that the message must contain).
WRONG = [
    (["lunch"], "launch"),
    (["launch", "--node", "3", "--", "true"], "--nodes"),
    (["launch", "--nodes=3:2", "--", "true"], "3:2"),
    (["launch", "--nodes", "0", "--", "true"], "--nodes"),
    (["launch", "--nodes", "abc", "--", "true"], "abc"),
    (["launch", "--nodes", "99999999999999999999", "--", "true"], "--nodes"),
    (["launch", "--nproc-per-nod", "2", "--", "true"], "--nproc-per-node"),
    (["launch", "--nproc-per-node", "65", "--", "true"], "64"),
    (["launch", "--job", "No_Such", "--", "true"], "a-z0-9-"),
    (["launch", "--job", "x" * 64, "--", "true"], "63"),
    (["launch", "--local-workers", "-1", "--", "true"], "--local-workers"),
    (["launch", "--join-timeout", "soon", "--", "true"], "10m"),
    (["launch", "--join-timeout", "169h", "--", "true"], "at most 168h"),
    (["launch", "--listen", "nowhere", "--", "true"], "--listen"),
    (["launch", "--listen", "[::1", "--", "true"], "as in [::1]:"),
    (["launch", "--name", "", "--", "true"], "--name"),
    (["launch", "--job=", "--", "true"], "--job"),
    (["launch", "--state", "", "--", "true"], "--state"),
    (["join", "", "--", "true"], "empty"),
    (["launch"], "--"),
    (["join", "--", "true"], "join string"),
    (["join", "!!!!", "--", "true"], "join string"),
    (["join", "rc9.AAAA", "--", "true"], "rc1."),
    (["join", "rc1.AAAA", "--name", "a b", "--", "true"], "host name"),
    (["join", "--endpoint", "127.0.0.1:9", "--", "true"], "--job"),
    (["join", "--endpoint", "127.0.0.1:9", "--job", "j", "--", "true"],
     "--secret-file"),
    (["launch", "--insecure", "--listen", "0.0.0.0:0", "--", "true"],
     "--insecure"),
    (["launch", "--tls-cert", "/dev/null", "--", "true"], "--tls-key"),
    (["token", "create", "--role", "king"], "worker"),
    (["token", "create", "--ttl", "0s"], "--ttl"),
    (["token"], "create"),
    (["status", "--jsn"], "--json"),
    (["drain"], "NODE"),
    (["drain", "n1", "--deadline", "later"], "--deadline"),
    (["evict"], "NODE"),
    (["launch", "--preempt-signal", "KILL", "--", "true"], "SIGUSR1"),
    (["launch", "--linger", "long", "--", "true"], "--linger"),
    (["launch", "--hang-timeout", "soon", "--", "true"], "--hang-timeout"),
    (["launch", "--start-timeout", "soon", "--", "true"], "--start-timeout"),
    (["launch", "--setup-timeout", "soon", "--", "true"], "--setup-timeout"),
    (["launch", "--setup-retries", "3", "--", "true"], "--setup CMD"),
    (["launch", "--setup", "true", "--attach"], "--attach"),
    (["launch", "--requeue-exit-code", "0", "--", "true"],
     "--requeue-exit-code"),
    (["completion"], "bash"),
    (["completion", "csh"], "fish"),
    (["launch", "--grow", "slowly", "--", "true"], "boundary"),
]


class Flags(E2E):
    def test_wrong_flags(self):
        for argv, named in WRONG:
            with self.subTest(argv=argv):
                ended = self.stage.run([harness.ROLLCALL, *argv])
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn(named, "\n".join(ended.err()))
                self.assertEqual(ended.out(), [])

    def test_a_join_string_in_the_wrong_place_is_not_printed(self):
        text = "rc1." + "Cg8xMjcuMC4wLjE6Mjk0MDAS" * 6
        for argv in ([text], ["status", text, text], ["drain", "a", "b", text],
                     ["token", "list", "x", text], ["doctor", text, text],
                     ["launch", text, "--", "true"],
                     ["status", "--endpoint", text, "--job", "j"]):
            with self.subTest(argv[0]):
                ended = self.stage.run([harness.ROLLCALL, *argv])
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn("rc1.[hidden]", ended.text())
                self.assertNotIn(text[4:], ended.text())

    def test_empty_values_of_a_standing_daemon(self):
        for flag in ("--state", "--listen", "--advertise", "--secret-file",
                     "--tls-cert", "--etcd-ca", "--token-ttl"):
            with self.subTest(flag):
                ended = self.stage.run(
                    [os.path.join(harness.BIN, "rollcalld"), flag, ""])
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn(f"{flag}: expected a value",
                              "\n".join(ended.err()))

    def test_help_shows_the_limits(self):
        helped = self.stage.run([harness.ROLLCALL, "launch", "--help"])
        self.assertEqual(helped.code, 0)
        text = "\n".join(helped.out())
        for flag in ("--nodes", "--local-workers", "--nproc-per-node",
                     "--join-timeout", "--hosts-file", "--json", "--linger",
                     "--last-call", "--hang-timeout", "--start-timeout",
                     "--setup", "--setup-timeout", "--setup-retries",
                     "--grow", "--preempt-signal", "--requeue-exit-code"):
            self.assertIn(flag, text)
        for limit in ("lease", "last call", "prepare timeout", "16384"):
            self.assertIn(limit, text.replace("16,384", "16384"))

    def test_version(self):
        for argv in (["version"], ["--version"]):
            ended = self.stage.run([harness.ROLLCALL, *argv])
            self.assertEqual(ended.code, 0)
            self.assertRegex("\n".join(ended.out()), r"\d+\.\d+\.\d+")

    def test_torchrun_spellings(self):
        launcher = self.stage.start(
            [harness.ROLLCALL, "launch", "--no-hosts", "--nnodes", "1",
             "--rdzv-id", "as-torchrun", "--nproc_per_node", "2", "--",
             "sh", "-c", "echo $ROLLCALL_JOB-$WORLD_SIZE"])
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find("as-torchrun-2"))

    def test_status_of_nothing(self):
        for words in (["status"], ["drain", "n1"], ["stop"]):
            asked = self.stage.run(
                [harness.ROLLCALL, *words, "--job", "no-such-job"])
            self.assertEqual(asked.code, 69, asked.text())
            self.assertIn("no-such-job", asked.text())
            self.assertEqual(asked.out(), [])
