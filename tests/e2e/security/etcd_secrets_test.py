"""Tests daemons that store their tokens encrypted in etcd."""
import base64
import json
import os
import signal
import ssl
import urllib.error
import urllib.request

import etcd
import pki
import wire
from harness import E2E, Gate, ROLLCALL


def coded(text):
    """Encodes text for a bytes field in the JSON of etcd's gateway."""
    return base64.b64encode(text.encode()).decode()


class Closed(E2E):
    """etcd with mutual TLS and users, and daemons without a shared secret."""

    USER, PASSWORD = "daemon", "of the daemons"

    def setUp(self):
        super().setUp()
        etcd.need_etcd()
        self.pki = pki.Authority(self.stage.path(), "etcd")
        self.cert, self.key = self.pki.issue("client")
        # With users, etcd's gateway refuses certificates with a common name.
        self.by_gateway = self.pki.issue("gateway", subject="O")
        cert, key = self.pki.issue("member")
        [self.endpoint] = etcd.Etcd(self.stage, ["one"], "https", [
            "--cert-file", cert, "--key-file", key, "--trusted-ca-file",
            self.pki.cert, "--client-cert-auth"]).endpoints
        self.token = None
        self.post("auth/user/add", name="root", password="of root")
        self.post("auth/user/grant", user="root", role="root")
        self.post("auth/role/add", name="rollcall")
        self.post("auth/role/grant", name="rollcall", perm={
            "permType": "READWRITE", "key": coded("/rollcall/t/"),
            "range_end": coded("/rollcall/t0")})
        self.post("auth/user/add", name=self.USER, password=self.PASSWORD)
        self.post("auth/user/grant", user=self.USER, role="rollcall")
        self.post("auth/enable")
        self.token = self.post("auth/authenticate", name="root",
                               password="of root")["token"]
        self.sealing = self.stage.secret_file("sealing")
        self.password = self.stage.secret_file("password", self.PASSWORD)

    def post(self, call, **what):
        """Calls etcd through its JSON gateway."""
        context = ssl.create_default_context(cafile=self.pki.cert)
        context.load_cert_chain(*self.by_gateway)
        request = urllib.request.Request(
            f"https://{self.endpoint}/v3/{call}", json.dumps(what).encode(),
            {"Authorization": self.token} if self.token else {})
        try:
            with urllib.request.urlopen(request, context=context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return self.fail(f"{call}: {error.read()}")

    def values(self):
        """Returns all keys below the prefix and their values."""
        found = self.post("kv/range", key=coded("/rollcall/"),
                          range_end=coded("/rollcall0"))
        return {base64.b64decode(kv["key"]).decode():
                base64.b64decode(kv.get("value", "")) for kv in found["kvs"]}

    def daemon(self, name, *flags, access=None):
        process = self.rollcalld(
            "--insecure", "--state", f"etcd://{self.endpoint}/t",
            "--join-dir", self.stage.path(name),
            *(access or self.as_user()), *flags)
        process.folder = self.stage.path(name)
        return process

    def as_user(self):
        return ["--etcd-ca", self.pki.cert, "--etcd-cert", self.cert,
                "--etcd-key", self.key, "--etcd-user", self.USER,
                "--etcd-password-file", self.password, "--etcd-key-file",
                self.sealing]

    def test_a_run_over_two_daemons(self):
        first = self.daemon("first")
        first.await_line("event=leads")
        second = self.daemon("second")
        second.await_line("event=stands_by leader=\"?127")
        gate = Gate(self.stage)
        agent = self.join(self.kept_join(second.folder),
                          ["--job", "j", "--nodes", "1"],
                          ["sh", "-c", f"echo up; cat {gate.path}"])
        agent.await_line(r"\] up")
        # All values except one are encrypted.
        values = self.values()
        self.assertLess({"/rollcall/t/jobs/j", "/rollcall/t/worker.token",
                         "/rollcall/t/admin.token", "/rollcall/t/leader",
                         "/rollcall/t/credential.key"}, set(values))
        plain = [key for key, value in values.items()
                 if not value.startswith(b"rcs1")]
        self.assertEqual(plain, ["/rollcall/t/writes"])
        secret = wire.Join(self.kept_join(first.folder)).secret.hex().encode()
        self.assertEqual([k for k, v in values.items() if secret in v], [])
        first.signal(signal.SIGKILL)
        second.await_line("event=leads")
        agent.await_line("attending again")
        gate.open()
        self.assert_code(agent, 0)
        self.assertEqual(len([x for x in agent.out() if "up" in x]), 1)

    def test_what_others_wrote_is_refused_by_name(self):
        first = self.daemon("first")
        first.await_line("event=leads")
        self.assert_code(self.join(self.kept_join(first.folder), [
            "--job", "j", "--nodes", "1"], ["true"]), 0)
        first.signal(signal.SIGTERM)
        self.assert_code(first, 0)
        values = self.values()
        good = values["/rollcall/t/jobs/j"]
        for bad in (b"plain", good[:-1] + bytes([good[-1] ^ 1]), good[:20],
                    values["/rollcall/t/credential.key"]):
            self.post("kv/put", key=coded("/rollcall/t/jobs/j"),
                      value=base64.b64encode(bad).decode())
            daemon = self.daemon("next")
            line = daemon.await_line("event=not_taken_up reason=.*")[0]
            self.assertIn("/rollcall/t/jobs/j", line)
            self.assertIn("etcdctl del", line)
            daemon.signal(signal.SIGKILL)
            daemon.wait()
        # A token that was not written by a daemon is refused.
        self.post("kv/put", key=coded("/rollcall/t/worker.token"),
                  value=coded("mine01." + 32 * "0"))
        daemon = self.daemon("last")
        self.assert_code(daemon, 69)
        self.assertIn("/rollcall/t/worker.token", daemon.text())

    def test_who_may_not_speak_to_it(self):
        wrong = self.stage.secret_file("wrong", "guessed")
        other = pki.Authority(self.stage.path(), "other")
        cert, key = other.issue("client")
        good = self.as_user()

        def instead(flag, value):
            words = list(good)
            words[words.index(flag) + 1] = value
            return words
        for access, says in (
                (instead("--etcd-password-file", wrong),
                 "cannot authenticate as user daemon"),
                (instead("--etcd-ca", other.cert), "no member of etcd"),
                (good[:2] + ["--etcd-cert", cert, "--etcd-key", key]
                 + good[6:], "no member of etcd"),
                (good[:6] + good[-2:], "permission denied"),
                (["--etcd-key-file", self.sealing], "no member of etcd")):
            daemon = self.daemon("refused", access=access)
            self.assert_code(daemon, 69)
            self.assertIn(says, daemon.text())

    def test_the_tokens_are_replaced_for_all_daemons(self):
        first = self.daemon("first", "--token-ttl", "8s")
        first.await_line("event=leads")
        second = self.daemon("second", "--token-ttl", "8s")
        second.await_line("event=stands_by leader=\"?127")
        before = wire.Join(self.kept_join(first.folder)).token_id

        def ids():
            return {wire.Join(self.kept_join(d.folder)).token_id
                    for d in (first, second)}
        # A daemon logs the new token after it has written the token's file.
        self.stage.pump(lambda: len(ids()) == 1, "one token for both daemons")
        first.await_line("event=token_replaced role=worker")
        self.stage.pump(lambda: len(ids()) == 1 and before not in ids(),
                        "the files of both daemons to be replaced")


class WithoutASecret(E2E):
    """Daemons that share only their etcd and its key file."""

    def setUp(self):
        super().setUp()
        etcd.need_etcd()
        self.etcd = etcd.Etcd(self.stage)
        self.sealing = self.stage.secret_file("sealing")

    def daemon(self, name):
        folder = self.stage.path(name)
        process = self.rollcalld(
            "--insecure", "--join-dir", folder, "--etcd-key-file",
            self.sealing, "--state",
            f"etcd://{','.join(self.etcd.endpoints)}/test")
        process.port = int(process.await_line(r"listening on port (\d+)")[1])
        process.folder = folder
        return process

    def kept(self, daemon, role):
        path = os.path.join(daemon.folder, f"{role}.join")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        return wire.Join(self.kept_join(daemon.folder, role))

    def test_each_daemon_writes_its_join_strings(self):
        daemons = [self.daemon("first"), self.daemon("second")]
        for daemon in daemons:
            self.assertEqual(os.stat(daemon.folder).st_mode & 0o777, 0o700)
        # The daemons have the same tokens, but each writes its own endpoint.
        for role in ("worker", "admin"):
            one, other = (self.kept(daemon, role) for daemon in daemons)
            self.assertEqual(one.secret, other.secret)
            self.assertEqual(one.token_id, other.token_id)
            for join, daemon in ((one, daemons[0]), (other, daemons[1])):
                self.assertEqual(join.endpoints, [f"127.0.0.1:{daemon.port}"])
        self.assertNotEqual(self.kept(daemons[0], "worker").secret,
                            self.kept(daemons[0], "admin").secret)
        # Either worker token admits agents, and the admin token ends the job.
        gate = Gate(self.stage)
        agents = [self.join(self.kept(daemon, "worker").text(),
                            ["--job", "j", "--nodes", "2", "--name", f"n{i}"],
                            ["sh", "-c", f"echo up; cat {gate.path}"])
                  for i, daemon in enumerate(daemons)]
        for agent in agents:
            agent.await_line(r"\] up$")
        stopped = self.stage.run(
            [ROLLCALL, "stop", self.kept(daemons[1], "admin").text(), "--job",
             "j", "--exit-code", "5"])
        self.assertEqual(stopped.code, 0, stopped.text())
        for agent in agents:
            self.assert_code(agent, 5)
