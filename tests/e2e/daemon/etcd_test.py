"""Three rollcalld that share their state in an etcd of three members.

The etcds, daemons and agents are real and run on loopback addresses. SIGKILL
kills them and SIGSTOP freezes them.
"""
import json
import re
import signal

import etcd
from harness import E2E, Gate, ROLLCALL


class Cluster(E2E):
    def setUp(self):
        super().setUp()
        etcd.need_etcd()
        self.secret = self.stage.secret_file("secret")
        self.etcd = etcd.Etcd(self.stage)
        self.daemons = [self.daemon() for _ in range(3)]
        self.first = self.await_leader(self.daemons)
        for daemon in self.daemons:
            if daemon is not self.first:
                daemon.await_line(f'event=stands_by leader="?{self.first.at}"?')

    def daemon(self):
        process = self.rollcalld(
            "--secret-file", self.secret, "--state",
            f"etcd://{','.join(self.etcd.endpoints)}/test")
        port = process.await_line(r"listening on port (\d+)")[1]
        process.at = f"127.0.0.1:{port}"
        return process

    @property
    def endpoints(self):
        return ",".join(d.at for d in self.daemons)

    def leads(self, daemon):
        return len([line for line in daemon.err() if "event=leads" in line])

    def await_leader(self, daemons, but=0):
        """Waits until one of these daemons begins to lead, after `but` terms of
        all of them so far. Returns the one that has led most often."""
        self.stage.pump(lambda: sum(map(self.leads, daemons)) > but,
                        "a leader")
        return max(daemons, key=self.leads)

    def argv(self, command, endpoints=None, job="j"):
        """Returns a rollcall command for a job of these daemons."""
        return [ROLLCALL, *command, "--endpoint", endpoints or self.endpoints,
                "--job", job, "--secret-file", self.secret]

    def start_agent(self, name, command, nodes=1, endpoints=None, job="j"):
        return self.stage.start(
            [*self.argv(["join"], endpoints, job), "--nodes", nodes, "--name",
             name, "--hosts-file", self._hosts, "--", *command])

    def training(self, endpoints=None):
        """Starts a running world; returns its agents and its end's gate."""
        gate = Gate(self.stage)
        agents = [self.start_agent(
            name, ["sh", "-c", "echo up generation $ROLLCALL_GENERATION pid "
                   f"$$; cat {gate.path}"], 2, endpoints)
            for name in ("n0", "n1")]
        for agent in agents:
            agent.await_line(r"up generation 1 ")
        return agents, gate

    def assert_ends_as_it_began(self, agents, gate):
        """Checks that no rank was started twice and that all agents exit 0."""
        gate.open()
        for agent in agents:
            self.assert_code(agent, 0)
            ups = [line for line in agent.out() if " up " in line]
            self.assertEqual(len(ups), 1, self.stage.transcript())

    def ask(self, *endpoints):
        """Returns the job's state; asks again while no daemon leads."""
        for _ in range(100):
            asked = self.stage.run(
                [*self.argv(["status"], ",".join(endpoints)), "--json"])
            if asked.code == 0:
                return json.loads("\n".join(asked.out()))
            if "no other one leads yet" not in asked.text():
                break
        return self.stage.fail("no daemon told the state")

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
            [*self.argv(["status"]), "--watch", "--json"])
        watch.await_line(r'"running"')
        left = list(self.daemons)
        leader = self.first
        # The leader is killed twice, until one daemon is left.
        for times in (1, 2):
            leader.signal(signal.SIGKILL)
            leader.wait()
            left.remove(leader)
            leader = self.await_leader(
                left, but=sum(map(self.leads, left)))
            self.await_back(agents, times)
            state = self.assert_generation(*[d.at for d in left])
            self.assertEqual(state["run"], run)
            self.assertEqual({n["state"] for n in state["nodes"]}, {"running"})
        self.assert_ends_as_it_began(agents, gate)
        # The watch has changed to each new leader.
        self.assert_code(watch, 0)
        self.assertEqual(json.loads(watch.out()[-1])["state"], "finished")

    def test_any_endpoint_leads_to_the_leader(self):
        # An agent that knows only a standby is redirected to the leader.
        standbys = [d for d in self.daemons if d is not self.first]
        agents, gate = self.training(endpoints=standbys[0].at)
        for daemon in self.daemons:
            self.assert_generation(daemon.at)
        # After the leader has left, the others redirect to the new one.
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
        # The world stays the same under the next leader. A new job needs
        # writes, so it starts only when etcd has a leader again.
        self.assert_code(self.start_agent("m", ["true"], job="other"), 0)
        self.assert_ends_as_it_began(agents, gate)

    def test_etcd_without_a_majority(self):
        agents, gate = self.training()
        run = self.assert_generation(self.endpoints)["run"]
        frozen = self.etcd.followers()
        for member in frozen:
            member.signal(signal.SIGSTOP)
        self.first.await_line(r"event=lost_leadership")
        # No new job can start now, but a running job goes on.
        before = sum(map(self.leads, self.daemons))
        newcomer = self.start_agent("m", ["sh", "-c", "echo began"],
                                    job="late")
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
        # This request waits at the frozen daemon.
        asked = self.stage.start(
            [*self.argv(["status"], self.first.at), "--json"])
        self.first.signal(signal.SIGCONT)
        self.first.await_line(r"event=lost_leadership")
        self.first.await_line(
            f'event=stands_by leader="?{re.escape(second.at)}"?')
        # The thawed daemon returns the new leader's answer, or none.
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
        # The frozen daemon's kernel still acknowledges data, but the daemon
        # answers no pings.
        self.first.signal(signal.SIGSTOP)
        self.await_back(agents)
        others = [d for d in self.daemons if d is not self.first]
        state = self.assert_generation(*[d.at for d in others])
        self.assertEqual({n["state"] for n in state["nodes"]}, {"running"})
        self.assert_ends_as_it_began(agents, gate)

    def test_a_token_that_was_made_is_good_at_the_next_leader(self):
        made = self.stage.run(
            [*self.argv(["token", "create"]), "--role", "worker"])
        self.assertEqual(made.code, 0, self.stage.transcript())
        join_string = made.out()[0]
        self.first.signal(signal.SIGKILL)
        left = [d for d in self.daemons if d is not self.first]
        self.await_leader(left)
        agent = self.join(join_string, ["--nodes", "1"], ["true"])
        self.assert_code(agent, 0)


class Flags(E2E):
    """Flags that cannot work are refused at once, even without an etcd."""

    def refused(self, flags, words, code):
        process = self.rollcalld(*flags)
        self.assert_code(process, code)
        for word in words:
            self.assertIn(word, process.text())

    def test_clear_errors(self):
        port = etcd.free_ports(1)[0]
        self.refused(["--state", "etcd://"], ["HOST:PORT"], 2)
        self.refused(["--state", f"etcd://127.0.0.1:{port}"],
                     ["--secret-file"], 2)
        self.refused(["--state", self.stage.path("s"), "--join-dir", "x"],
                     ["--join-dir"], 2)
        self.refused(["--state", f"etcd://127.0.0.1:{port}", "--insecure",
                      "--advertise", "nonsense"], ["--advertise"], 2)
        # Without a secret, tokens are in etcd, which does not answer here.
        sealing = self.stage.secret_file("sealing", 64 * "7")
        here = ["--state", f"etcd://127.0.0.1:{port}"]
        sealed = [*here, "--insecure", "--etcd-key-file", sealing]
        self.refused(sealed, ["etcd"], 69)
        # Some flags exclude each other, others need another flag.
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
