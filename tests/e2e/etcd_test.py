"""Three rollcalld that share their state in an etcd of three members.

Real etcds, real daemons, real agents, all on loopback; what is killed is
killed with SIGKILL, what is frozen with SIGSTOP.
"""
import json
import os
import re
import signal
import socket
import subprocess
import unittest

import harness
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
        if not os.access(ETCD, os.X_OK):
            message = (f"NOT TESTED: there is no {ETCD} here; "
                       "scripts/packages.sh test installs it")
            print(message)
            raise unittest.SkipTest(message)
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
        self.refused(["--state", f"etcd://127.0.0.1:{port}", "--insecure"],
                     ["etcd"], 69)


if __name__ == "__main__":
    harness.main()
