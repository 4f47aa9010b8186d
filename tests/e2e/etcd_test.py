"""Three rollcalld that share their state in an etcd of three members.

Real etcds, real daemons, real agents, all on loopback; what is killed is
killed with SIGKILL, what is frozen with SIGSTOP.
"""
import base64
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request

import harness
import pki
import wire
from harness import E2E, Gate, ROLLCALL

ETCD = "/usr/bin/etcd"


def free_ports(count):
    """Ports that nobody has now; who takes one first has it."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def coded(text):
    """Bytes, as etcd's gateway has them in JSON."""
    return base64.b64encode(text.encode()).decode()


def need_etcd():
    if not os.access(ETCD, os.X_OK):
        raise unittest.SkipTest(f"NOT TESTED: there is no {ETCD} here; "
                                "scripts/packages.sh test installs it")


class Etcd:
    """Three members, each with a log of its own that tells who leads."""

    def __init__(self, stage):
        self.stage = stage
        for _ in range(5):
            if self._start():
                return
        stage.fail("etcd does not start")

    def _start(self):
        ports = free_ports(6)
        self.endpoints = [f"127.0.0.1:{p}" for p in ports[:3]]
        names = ["one", "two", "three"]
        peers = [f"http://127.0.0.1:{p}" for p in ports[3:]]
        cluster = ",".join(map("=".join, zip(names, peers)))
        self.members = []
        for name, endpoint, peer in zip(names, self.endpoints, peers):
            self.members.append(self.stage.start(
                [ETCD, "--name", name,
                 "--data-dir", self.stage.path(f"etcd-{ports[0]}-{name}"),
                 "--listen-client-urls", f"http://{endpoint}",
                 "--advertise-client-urls", f"http://{endpoint}",
                 "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", cluster, "--logger", "zap",
                 "--log-outputs", "stderr"]))
        ready = r"serving (insecure )?client (traffic|requests)"
        self.stage.pump(
            lambda: all(m.find(ready) or m.done() for m in self.members),
            "etcd's members")
        if all(m.find(ready) for m in self.members):
            return True
        for member in self.members:
            if member.code is None:
                member.signal(signal.SIGKILL)
            member.wait()
        return False

    def leader(self):
        """The member that leads, by what it has said itself."""
        def terms(member):
            found = [re.search(r"became leader at term (\d+)", line)
                     for line in member.err()]
            return max([int(m[1]) for m in found if m], default=0)
        return max(self.members, key=terms)

    def followers(self):
        leader = self.leader()
        return [m for m in self.members if m is not leader]


class Cluster(E2E):
    def setUp(self):
        super().setUp()
        need_etcd()
        self.secret = self.stage.path("secret")
        with open(self.secret, "w", encoding="ascii") as f:
            os.chmod(self.secret, 0o600)
            f.write(subprocess.run([ROLLCALL, "token", "secret"], check=True,
                                   text=True, stdout=subprocess.PIPE).stdout)
        self.etcd = Etcd(self.stage)
        self.daemons = [self.daemon() for _ in range(3)]
        self.first = self.await_leader(self.daemons)
        for daemon in self.daemons:
            if daemon is not self.first:
                daemon.await_line(f'event=stands_by leader="?{self.first.at}"?')

    def daemon(self, extra=()):
        process = self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen",
             "127.0.0.1:0", "--secret-file", self.secret, "--state",
             f"etcd://{','.join(self.etcd.endpoints)}/test", *extra])
        port = process.await_line(r"listening on port (\d+)")[1]
        process.at = f"127.0.0.1:{port}"
        return process

    @property
    def endpoints(self):
        return ",".join(d.at for d in self.daemons)

    def leads(self, daemon):
        return len([line for line in daemon.err() if "event=leads" in line])

    def await_leader(self, daemons, but=0):
        """Who has begun to lead after `but` times of leading so far."""
        self.stage.pump(lambda: sum(map(self.leads, daemons)) > but,
                        "a leader")
        found = [d for d in daemons if self.leads(d)]
        return found[0]

    def agents(self, command, nodes=2, endpoints=None):
        return [self.stage.start(
            [ROLLCALL, "join", "--endpoint", endpoints or self.endpoints,
             "--job", "j", "--secret-file", self.secret, "--nodes", nodes,
             "--name", f"n{i}", "--hosts-file", self._hosts, "--", *command])
            for i in range(nodes)]

    def training(self, nodes=2, endpoints=None):
        """A running world: its agents, and the gate that lets it end."""
        gate = Gate(self.stage)
        agents = self.agents(
            ["sh", "-c", "echo up generation $ROLLCALL_GENERATION pid $$; "
             f"cat {gate.path}"], nodes, endpoints)
        for agent in agents:
            agent.await_line(r"up generation 1 ")
        return agents, gate

    def assert_ends_as_it_began(self, agents, gate):
        """No rank was started twice, and all end well."""
        gate.open()
        for agent in agents:
            self.assert_code(agent, 0)
            ups = [line for line in agent.out() if " up " in line]
            self.assertEqual(len(ups), 1, self.stage.transcript())

    def ask(self, *endpoints):
        """The job's state, by whoever leads; asked again while nobody does."""
        for _ in range(100):
            asked = self.stage.run(
                [ROLLCALL, "status", "--endpoint", ",".join(endpoints),
                 "--job", "j", "--secret-file", self.secret, "--json"])
            if asked.code == 0:
                return json.loads("\n".join(asked.out()))
            if "no other one leads yet" not in asked.text():
                break
        return self.stage.fail("no state was to be had")

    def await_back(self, agents, count=1):
        for agent in agents:
            agent.await_lines(r"attending again", count)

    def assert_generation(self, *endpoints, generation=1):
        state = self.ask(*endpoints)
        self.assertEqual((state["generation"], state["state"]),
                         (generation, "running"), self.stage.transcript())
        return state

    def test_the_leader_is_killed_and_another_takes_its_agents(self):
        agents, gate = self.training()
        run = self.assert_generation(self.endpoints)["run"]
        watch = self.stage.start(
            [ROLLCALL, "status", "--watch", "--json", "--endpoint",
             self.endpoints, "--job", "j", "--secret-file", self.secret])
        watch.await_line(r'"running"')
        left = list(self.daemons)
        leader = self.first
        # Any one of them for good: twice, until one is left.
        for times in (1, 2):
            leader.signal(signal.SIGKILL)
            leader.wait()
            left.remove(leader)
            leader = self.await_leader(
                left, but=sum(map(self.leads, left)))
            leader = max(left, key=self.leads)
            self.await_back(agents, times)
            state = self.assert_generation(*[d.at for d in left])
            self.assertEqual(state["run"], run)
            self.assertEqual({n["state"] for n in state["nodes"]}, {"running"})
        self.assert_ends_as_it_began(agents, gate)
        # The watch has followed them.
        self.assert_code(watch, 0)
        self.assertEqual(json.loads(watch.out()[-1])["state"], "finished")

    def test_any_endpoint_leads_to_the_leader(self):
        # An agent that knows a standby alone finds the leader by its word.
        standbys = [d for d in self.daemons if d is not self.first]
        agents, gate = self.training(endpoints=standbys[0].at)
        for daemon in self.daemons:
            self.assert_generation(daemon.at)
        # So it does when the leader goes, and it knows one of those left.
        self.first.signal(signal.SIGTERM)
        self.assert_code(self.first, 0)
        self.await_leader(standbys)
        self.await_back(agents)
        for daemon in standbys:
            self.assert_generation(daemon.at)
        self.assert_ends_as_it_began(agents, gate)

    def test_etcds_own_leader_is_killed(self):
        agents, gate = self.training()
        self.etcd.leader().signal(signal.SIGKILL)
        # Whoever leads from then on, the world is the same. A new job needs
        # writes, and so an etcd that has a leader again.
        others = [self.stage.start(
            [ROLLCALL, "join", "--endpoint", self.endpoints, "--job", "other",
             "--secret-file", self.secret, "--nodes", "1", "--name", "m",
             "--hosts-file", self._hosts, "--", "true"])]
        for other in others:
            self.assert_code(other, 0)
        self.assert_ends_as_it_began(agents, gate)

    def test_etcd_without_a_majority(self):
        agents, gate = self.training()
        run = self.assert_generation(self.endpoints)["run"]
        frozen = self.etcd.followers()
        for member in frozen:
            member.signal(signal.SIGSTOP)
        self.first.await_line(r"event=deposed")
        # Nobody can begin anything now, and what runs, runs on.
        before = sum(map(self.leads, self.daemons))
        newcomer = self.stage.start(
            [ROLLCALL, "join", "--endpoint", self.endpoints, "--job", "late",
             "--secret-file", self.secret, "--nodes", "1", "--name", "m",
             "--hosts-file", self._hosts, "--", "sh", "-c", "echo began"])
        newcomer.await_line(r"not let in yet")
        self.assertIsNone(newcomer.find("began"))
        for agent in agents:
            self.assertIsNone(agent.code)
        for member in frozen:
            member.signal(signal.SIGCONT)
        self.await_leader(self.daemons, but=before)
        self.await_back(agents)
        state = self.assert_generation(self.endpoints)
        self.assertEqual(state["run"], run)
        self.assert_code(newcomer, 0)
        self.assert_ends_as_it_began(agents, gate)

    def test_a_leader_that_was_frozen_writes_and_says_nothing(self):
        agents, gate = self.training()
        self.first.signal(signal.SIGSTOP)
        others = [d for d in self.daemons if d is not self.first]
        second = self.await_leader(others)
        second = max(others, key=self.leads)
        # A stranger's question waits for it, and a stream of a new job.
        asked = self.stage.start(
            [ROLLCALL, "status", "--endpoint", self.first.at, "--job", "j",
             "--secret-file", self.secret, "--json"])
        self.first.signal(signal.SIGCONT)
        self.first.await_line(r"event=deposed")
        self.first.await_line(
            f'event=stands_by leader="?{re.escape(second.at)}"?')
        # What it answers is the other's answer, or none.
        asked.wait()
        if asked.code == 0:
            self.assertEqual(json.loads("\n".join(asked.out()))["generation"],
                             1)
        self.await_back(agents)
        for daemon in self.daemons:
            state = self.assert_generation(daemon.at)
            self.assertEqual({n["state"] for n in state["nodes"]}, {"running"})
        self.assert_ends_as_it_began(agents, gate)

    def test_a_leader_that_stays_frozen_is_left(self):
        agents, gate = self.training()
        # Its kernel goes on acknowledging; its pings go unanswered.
        self.first.signal(signal.SIGSTOP)
        self.await_back(agents)
        others = [d for d in self.daemons if d is not self.first]
        state = self.assert_generation(*[d.at for d in others])
        self.assertEqual({n["state"] for n in state["nodes"]}, {"running"})
        self.assert_ends_as_it_began(agents, gate)

    def test_a_token_that_was_made_is_good_at_the_next_leader(self):
        made = self.stage.run(
            [ROLLCALL, "token", "create", "--endpoint", self.endpoints,
             "--job", "j", "--secret-file", self.secret, "--role", "worker"])
        self.assertEqual(made.code, 0, self.stage.transcript())
        join_string = made.out()[0]
        self.first.signal(signal.SIGKILL)
        left = [d for d in self.daemons if d is not self.first]
        self.await_leader(left)
        agent = self.join(join_string, ["--nodes", "1"], ["true"])
        self.assert_code(agent, 0)


class Closed(E2E):
    """An etcd with TLS on both sides and users, and daemons without a secret:
    their tokens lie there, sealed."""

    USER, PASSWORD = "daemon", "of the daemons"

    def setUp(self):
        super().setUp()
        need_etcd()
        self.pki = pki.Authority(self.stage.path(), "etcd")
        self.cert, self.key = self.pki.issue("client")
        # With users, etcd's gateway refuses certificates with a common name.
        self.by_gateway = self.pki.issue("gateway", subject="O")
        for _ in range(5):
            if self._start():
                break
        else:
            self.stage.fail("etcd does not start")
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
        self.sealing = self.file("sealing", subprocess.run(
            [ROLLCALL, "token", "secret"], check=True, text=True,
            stdout=subprocess.PIPE).stdout)
        self.password = self.file("password", self.PASSWORD + "\n")

    def _start(self):
        cert, key = self.pki.issue("member")
        ports = free_ports(2)
        self.endpoint = f"127.0.0.1:{ports[0]}"
        peer = f"http://127.0.0.1:{ports[1]}"
        member = self.stage.start(
            [ETCD, "--name", "one", "--data-dir",
             self.stage.path(f"etcd-{ports[0]}"), "--listen-client-urls",
             f"https://{self.endpoint}", "--advertise-client-urls",
             f"https://{self.endpoint}", "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster",
             f"one={peer}", "--logger", "zap", "--log-outputs", "stderr",
             "--cert-file", cert, "--key-file", key, "--trusted-ca-file",
             self.pki.cert, "--client-cert-auth"])
        ready = r"serving (insecure )?client (traffic|requests)"
        self.stage.pump(lambda: member.find(ready) or member.done(), "etcd")
        return bool(member.find(ready))

    def file(self, name, text):
        path = self.stage.path(name)
        with open(path, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(text)
        return path

    def post(self, call, **what):
        """By etcd's own gateway from JSON."""
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
        """All that lies below the prefix."""
        found = self.post("kv/range", key=coded("/rollcall/"),
                          range_end=coded("/rollcall0"))
        return {base64.b64decode(kv["key"]).decode():
                base64.b64decode(kv.get("value", "")) for kv in found["kvs"]}

    def daemon(self, name, *flags, etcd=None):
        process = self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen", "127.0.0.1:0",
             "--insecure", "--state", f"etcd://{self.endpoint}/t",
             "--join-dir", self.stage.path(name),
             *(etcd or self.as_user()), *flags])
        process.folder = self.stage.path(name)
        return process

    def as_user(self):
        return ["--etcd-ca", self.pki.cert, "--etcd-cert", self.cert,
                "--etcd-key", self.key, "--etcd-user", self.USER,
                "--etcd-password-file", self.password, "--etcd-key-file",
                self.sealing]

    def join_file(self, daemon, role="worker"):
        with open(os.path.join(daemon.folder, f"{role}.join"),
                  encoding="ascii") as f:
            return f.read().strip()

    def test_a_run_over_two_daemons(self):
        first = self.daemon("first")
        first.await_line("event=leads")
        second = self.daemon("second")
        second.await_line("event=stands_by leader=\"?127")
        gate = Gate(self.stage)
        agent = self.join(self.join_file(second), ["--job", "j", "--nodes",
                                                   "1"],
                          ["sh", "-c", f"echo up; cat {gate.path}"])
        agent.await_line(r"\] up")
        # Nothing there can be read, or is in plain words.
        values = self.values()
        self.assertLess({"/rollcall/t/jobs/j", "/rollcall/t/worker.token",
                         "/rollcall/t/admin.token", "/rollcall/t/leader",
                         "/rollcall/t/credential.key"}, set(values))
        plain = [key for key, value in values.items()
                 if not value.startswith(b"rcs1")]
        self.assertEqual(plain, ["/rollcall/t/writes"])
        secret = wire.Join(self.join_file(first)).secret.hex().encode()
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
        self.assert_code(self.join(self.join_file(first), [
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
        # A token that somebody has put there is not one of the daemons'.
        self.post("kv/put", key=coded("/rollcall/t/worker.token"),
                  value=coded("mine01." + 32 * "0"))
        daemon = self.daemon("last")
        self.assert_code(daemon, 69)
        self.assertIn("/rollcall/t/worker.token", daemon.text())

    def test_who_may_not_speak_to_it(self):
        wrong = self.file("wrong", "guessed")
        other = pki.Authority(self.stage.path(), "other")
        cert, key = other.issue("client")
        good = self.as_user()

        def instead(flag, value):
            words = list(good)
            words[words.index(flag) + 1] = value
            return words
        for etcd, says in (
                (instead("--etcd-password-file", wrong),
                 "cannot authenticate as user daemon"),
                (instead("--etcd-ca", other.cert), "no member of etcd"),
                (good[:2] + ["--etcd-cert", cert, "--etcd-key", key]
                 + good[6:], "no member of etcd"),
                (good[:6] + good[-2:], "permission denied"),
                (["--etcd-key-file", self.sealing], "no member of etcd")):
            daemon = self.daemon("refused", etcd=etcd)
            self.assert_code(daemon, 69)
            self.assertIn(says, daemon.text())

    def test_the_tokens_are_replaced_for_all_daemons(self):
        first = self.daemon("first", "--token-ttl", "8s")
        first.await_line("event=leads")
        second = self.daemon("second", "--token-ttl", "8s")
        second.await_line("event=stands_by leader=\"?127")
        before = wire.Join(self.join_file(first)).token_id

        def ids():
            return {wire.Join(self.join_file(d)).token_id
                    for d in (first, second)}
        # Each says so once it has written its file.
        self.stage.pump(lambda: len(ids()) == 1, "one token for both daemons")
        first.await_line("event=token_replaced role=worker")
        self.stage.pump(lambda: len(ids()) == 1 and before not in ids(),
                        "the files of both daemons to be replaced")


class WithoutASecret(E2E):
    """Daemons that know each other by nothing but their etcd."""

    def setUp(self):
        super().setUp()
        need_etcd()
        self.etcd = Etcd(self.stage)
        self.sealing = self.stage.path("sealing")
        made = self.stage.run([ROLLCALL, "token", "secret"])
        with open(self.sealing, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("\n".join(made.out()) + "\n")

    def daemon(self, name):
        folder = self.stage.path(name)
        process = self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen",
             "127.0.0.1:0", "--insecure", "--join-dir", folder,
             "--etcd-key-file", self.sealing, "--state",
             f"etcd://{','.join(self.etcd.endpoints)}/test"])
        process.port = int(process.await_line(r"listening on port (\d+)")[1])
        process.folder = folder
        return process

    def kept(self, daemon, role):
        path = os.path.join(daemon.folder, f"{role}.join")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="ascii") as f:
            return wire.Join(f.read().strip())

    def test_each_daemon_writes_its_join_strings(self):
        daemons = [self.daemon("first"), self.daemon("second")]
        for daemon in daemons:
            self.assertEqual(os.stat(daemon.folder).st_mode & 0o777, 0o700)
        # The tokens are those of all of them, the endpoints each one's own.
        for role in ("worker", "admin"):
            one, other = (self.kept(daemon, role) for daemon in daemons)
            self.assertEqual(one.secret, other.secret)
            self.assertEqual(one.token_id, other.token_id)
            for join, daemon in ((one, daemons[0]), (other, daemons[1])):
                self.assertEqual(join.endpoints, [f"127.0.0.1:{daemon.port}"])
        self.assertNotEqual(self.kept(daemons[0], "worker").secret,
                            self.kept(daemons[0], "admin").secret)
        # Either opens the job, and the admin's ends it.
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


class Flags(E2E):
    """What cannot work is said at once, with or without an etcd."""

    def refused(self, flags, words, code):
        process = self.stage.run(
            [os.path.join(harness.BIN, "rollcalld"), "--listen",
             "127.0.0.1:0", *flags])
        self.assert_code(process, code)
        for word in words:
            self.assertIn(word, process.text())

    def test_clear_errors(self):
        port = free_ports(1)[0]
        self.refused(["--state", "etcd://"], ["HOST:PORT"], 2)
        self.refused(["--state", f"etcd://127.0.0.1:{port}"],
                     ["--secret-file"], 2)
        self.refused(["--state", self.stage.path("s"), "--join-dir", "x"],
                     ["--join-dir"], 2)
        self.refused(["--state", f"etcd://127.0.0.1:{port}", "--insecure",
                      "--advertise", "nonsense"], ["--advertise"], 2)
        # Tokens without a secret lie in etcd, which does not answer.
        sealing = self.stage.path("sealing")
        with open(sealing, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(64 * "7")
        here = ["--state", f"etcd://127.0.0.1:{port}"]
        sealed = [*here, "--insecure", "--etcd-key-file", sealing]
        self.refused(sealed, ["etcd"], 69)
        # Flags that are not meant together, or lack another.
        away = ["--state", "etcd://127.0.0.1:1,192.0.2.1:1", "--insecure",
                "--etcd-key-file", sealing]
        for words, says in (
                ([*here, "--insecure"], "--etcd-key-file"),
                (away, "192.0.2.1"),
                ([*sealed, "--secret-file", sealing], "excludes"),
                ([*here, "--secret-file", sealing, "--etcd-key-file", sealing],
                 "one or the other"),
                ([*sealed, "--etcd-cert", "x"], "--etcd-key"),
                ([*sealed, "--etcd-cert", "x", "--etcd-key", "x"],
                 "--etcd-ca"),
                ([*sealed, "--etcd-user", "u"], "--etcd-password-file"),
                ([*sealed, "--etcd-ca", "x", "--etcd-insecure"],
                 "--etcd-insecure"),
                (["--state", self.stage.path("s"), "--etcd-user", "u",
                  "--etcd-password-file", sealing], "etcd://"),
                ([*here, "--insecure", "--etcd-key-file", __file__],
                 "--etcd-key-file"),
                ([*sealed, "--token-ttl", "soon"], "--token-ttl")):
            self.refused(words, [says], 2)
        self.refused([*away, "--etcd-insecure"], ["etcd"], 69)


if __name__ == "__main__":
    harness.main()
