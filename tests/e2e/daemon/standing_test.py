"""Tests a standing rollcalld, which runs job after job without a launcher."""
import json
import os
import signal
import stat
import time

import harness
import wire
from harness import E2E, Gate, Lab


class Standing(E2E):
    def setUp(self):
        super().setUp()
        self.state = self.stage.path("standing")
        self.daemon = self.rollcalld("--state", self.state)
        self.daemon.await_line(r"join with: ")
        self.join_text = self.kept_join(self.state)

    def agents(self, job, command):
        """Starts the two nodes of a job."""
        return [self.join(self.join_text, ["--job", job, "--nodes", "2",
                                           "--name", f"{job}-{node}"], command)
                for node in ("a", "b")]

    def assert_ran(self, job, agents):
        """Checks that both nodes exited 0 with one run; returns the run."""
        runs = set()
        for rank, agent in enumerate(agents):
            self.assert_code(agent, 0)
            found = agent.await_line(
                r"rank (\d) of (\d) job (\S+) generation (\d) run (\S+)")
            self.assertEqual(found.groups()[:4], (str(rank), "2", job, "1"))
            runs.add(found[5])
        self.assertEqual(len(runs), 1)
        return runs.pop()

    def test_three_jobs_without_a_launcher(self):
        for name in os.listdir(self.state):
            mode = os.stat(os.path.join(self.state, name)).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600, name)
        say = ("echo rank $RANK of $WORLD_SIZE job $ROLLCALL_JOB "
               "generation $ROLLCALL_GENERATION run $ROLLCALL_RUN")
        # Two jobs run at the same time: all ranks are up before the gate opens.
        gate = Gate(self.stage)
        command = ["sh", "-c", f"{say}; cat {gate.path}"]
        both = {job: self.agents(job, command) for job in ("one", "two")}
        for agents in both.values():
            for agent in agents:
                agent.await_line(r"\] rank \d of 2")
        gate.open()
        runs = {self.assert_ran(job, agents) for job, agents in both.items()}
        # The daemon still runs and accepts another job.
        runs.add(self.assert_ran(
            "three", self.agents("three", ["sh", "-c", say])))
        self.assertEqual(len(runs), 3)
        self.assertIsNone(self.daemon.code)
        self.daemon.signal(signal.SIGTERM)
        self.assert_code(self.daemon, 0)
        with open(self._hosts, "rb") as f:
            self.assertEqual(f.read(), b"127.0.0.1 localhost\n# mine\n")

    def kept(self):
        """Returns the content of the files in the daemon's folder."""
        kept = {}
        for name in sorted(os.listdir(self.state)):
            with open(os.path.join(self.state, name), "rb") as f:
                kept[name] = f.read()
        return kept

    def test_a_launcher_leaves_its_folder_alone(self):
        running = self.kept()
        flags = ["--listen", "127.0.0.1:0", "--state", self.state]
        refused = self.launch(flags, ["true"])
        self.assert_code(refused, 69)
        self.assertEqual(self.kept(), running)
        self.assertIn(self.state, refused.text())
        self.assertIn("rollcalld", refused.text())
        # The launcher also refuses the folder while the daemon is stopped.
        self.daemon.signal(signal.SIGTERM)
        self.assert_code(self.daemon, 0)
        stopped = self.kept()
        self.assert_code(self.launch(flags, ["true"]), 69)
        self.assertEqual(self.kept(), stopped)

    def test_it_leaves_a_launchers_folder_alone(self):
        self.state = self.stage.path("launched")
        gate = Gate(self.stage)
        launcher = self.launch(["--listen", "127.0.0.1:0", "--state",
                                self.state],
                               ["sh", "-c", f"echo up; cat {gate.path}"])
        launcher.await_line("up")
        running = self.kept()
        refused = self.rollcalld("--state", self.state)
        self.assert_code(refused, 69)
        self.assertIn(self.state, refused.text())
        self.assertEqual({n: running[n] for n in running if "token" in n},
                         {n: t for n, t in self.kept().items()
                          if "token" in n})
        gate.open()
        self.assert_code(launcher, 0)
        # The launcher's journal stays, and rollcalld still refuses it.
        stopped = self.kept()
        self.assertIn("journal.db", stopped)
        refused = self.rollcalld("--state", self.state)
        self.assert_code(refused, 69)
        self.assertEqual(self.kept(), stopped)

    def test_a_job_that_fails_ends_no_other(self):
        gate = Gate(self.stage)
        good = self.agents("good", ["sh", "-c", f"echo up; cat {gate.path}"])
        for agent in good:
            agent.await_line(r"\] up")
        for agent in self.agents("bad", [
                "sh", "-c", "test $ROLLCALL_GENERATION -lt 4; exit 9"]):
            self.assert_code(agent, 9)
        gate.open()
        for agent in good:
            self.assert_code(agent, 0)

    def test_a_run_of_somebody_else_is_nobodys_success(self):
        # Every client with the worker token can end a run of this name.
        other = self.join(self.join_text, ["--job", "train", "--nodes", "1",
                                           "--name", "other"], ["true"])
        self.assert_code(other, 0)
        command = ["sh", "-c", "echo ran $RANK"]
        late = self.join(self.join_text, [
            "--job", "train", "--name", "late", "--join-timeout", "2s"],
            command)
        self.assert_code(late, 69)
        self.assertIsNone(late.find("ran"))
        self.assertIsNotNone(late.find("ended with exit code 0 .* node late "
                                       "had no part in it"))
        agents = [self.join(self.join_text, [
            "--job", "train", "--nodes", "3", "--name", name], command)
            for name in ("a", "b", "other")]
        for rank, agent in enumerate(agents):
            self.assert_code(agent, 0)
            agent.await_line(rf"\] ran {rank}")

    def test_jobs_that_gather_leave_room_for_others(self):
        join = wire.Join(self.join_text)
        # The settings: two nodes, the longest join_timeout and lease, and a
        # reattach_grace of one second.
        settings = (wire.field(2, 2) +
                    wire.field(5, wire.field(1, 7 * 86400)) +
                    wire.field(11, wire.field(1, 3600)) +
                    wire.field(15, wire.field(1, 1)))
        strangers = []
        for number in range(9):
            stranger = wire.Stranger(join.port()).open().say(wire.hello(
                join, "x", job=f"x{number}", settings=settings))
            self.addCleanup(stranger.close)
            strangers.append(stranger)
        for stranger in strangers[:8]:
            self.assertIsNotNone(stranger.welcome(), stranger.ended)
        self.assertEqual(strangers[8].end(), wire.RESOURCE_EXHAUSTED)
        made = self.stage.run([harness.ROLLCALL, "token", "create",
                               self.kept_join(self.state, "admin")])
        self.assert_code(made, 0)
        say = ["echo", "ran"]
        # A job with its own token runs at once; one with the same token as the
        # others runs when they have gone.
        own = self.join(made.out()[0].strip(),
                        ["--job", "own", "--nodes", "1"], say)
        self.assert_code(own, 0)
        own.await_line(r"\] ran")
        shared = self.join(self.join_text,
                           ["--job", "shared", "--nodes", "1"], say)
        shared.await_line("has made 8 jobs that have not run yet")
        for stranger in strangers:
            stranger.close()
        self.assert_code(shared, 0)
        shared.await_line(r"\] ran")


class Endpoints(E2E):
    """The addresses in a join string, if there is a bridge for containers."""

    def test_a_bridge_is_in_no_join_string(self):
        lab = Lab(self.stage, 1)
        for words in ("link add docker0 type bridge",
                      "address add 172.17.0.1/16 dev docker0",
                      "link set docker0 up"):
            done = lab.run(1, ["ip", *words.split()])
            self.assertEqual(done.code, 0, done.text())
        state = self.stage.path("standing")
        for listen in ("0.0.0.0:0", "[::]:0"):
            daemon = lab.start(1, [os.path.join(harness.BIN, "rollcalld"),
                                   "--listen", listen, "--state", state])
            daemon.await_line(r"join with: ")
            told = [wire.Join(self.kept_join(state))]
            os.kill(daemon.inner_pid(), signal.SIGTERM)
            self.assert_code(daemon, 0)
            launcher = lab.start(1, [
                harness.ROLLCALL, "launch", "--nodes", "2", "--listen", listen,
                "--", "true"])
            told.append(wire.Join(self.join_string(launcher)))
            launcher.await_line("waiting: 1 node is here; 1 more to begin")
            os.kill(launcher.inner_pid(), signal.SIGINT)
            self.assert_code(launcher, 130)
            for join in told:
                hosts = [e.rsplit(":", 1)[0] for e in join.endpoints]
                self.assertEqual(hosts[0], "10.77.0.1", hosts)
                self.assertNotIn("172.17.0.1", hosts)
                if listen == "0.0.0.0:0":
                    self.assertEqual(hosts, ["10.77.0.1"])


class KeptTokens(E2E):
    """worker.join and admin.join, whose tokens expire or are replaced."""

    def begin(self, *flags):
        self.state = self.stage.path("standing")
        self.daemon = self.rollcalld("--state", self.state, *flags)
        self.daemon.await_line(r"join with: ")

    def kept(self, role):
        """Returns the text of the role's .join file, and checks it against the
        .token file."""
        text = self.kept_join(self.state, role)
        join = wire.Join(text)
        with open(os.path.join(self.state, f"{role}.token"),
                  encoding="ascii") as f:
            token = f.read().strip()
        # There are two files; one may have been replaced meanwhile.
        if token != f"{join.token_id}.{join.secret.hex()}":
            return self.kept(role)
        return text

    def rollcall(self, *words):
        return self.stage.run([harness.ROLLCALL, *words])

    def is_let_in(self, text):
        """Returns whether the token is accepted; there is no such job."""
        code = self.rollcall("status", text, "--job", "none").code
        self.assertIn(code, (69, 77))
        return code == 69

    def ask_until(self, condition, what):
        until = time.monotonic() + harness.DEADLINE_S
        while not condition():
            if time.monotonic() > until:
                self.stage.fail(f"asked in vain for {what}")

    def tokens(self):
        listed = self.rollcall("token", "list", self.kept("admin"), "--json")
        self.assertEqual(listed.code, 0, listed.text())
        return {t["id"]: t for t in json.loads(listed.out()[0])["tokens"]}

    def token_id(self, role):
        return wire.Join(self.kept(role)).token_id

    def test_they_end_after_a_day_but_for_the_admins(self):
        self.begin()
        tokens = self.tokens()
        left = tokens[self.token_id("worker")]["expires_at"] - time.time()
        self.assertTrue(23 * 3600 < left <= 24 * 3600, left)
        self.assertIsNone(tokens[self.token_id("admin")]["expires_at"])
        made = self.rollcall("token", "create", self.kept("admin"), "--json")
        self.assertEqual(made.code, 0, made.text())
        lasting = self.rollcall("token", "create", self.kept("admin"), "--json",
                                "--ttl", "never")
        self.assertEqual(lasting.code, 0, lasting.text())
        tokens = self.tokens()
        made, lasting = (tokens[json.loads(m.out()[0])["id"]]
                         for m in (made, lasting))
        left = made["expires_at"] - time.time()
        self.assertTrue(23 * 3600 < left <= 24 * 3600, left)
        self.assertIsNone(lasting["expires_at"])

    def test_without_an_end(self):
        self.begin("--token-ttl", "never")
        self.assertIsNone(self.tokens()[self.token_id("worker")]["expires_at"])

    def test_worker_join_is_replaced_before_its_token_ends(self):
        self.begin("--token-ttl", "24s")
        first = self.kept("worker")
        self.assertTrue(self.is_let_in(first))
        self.ask_until(lambda: self.kept("worker") != first, "another token")
        # Both tokens are accepted until the older one expires.
        self.assertTrue(self.is_let_in(first))
        self.assertTrue(self.is_let_in(self.kept("worker")))
        self.ask_until(lambda: not self.is_let_in(first), "its end")
        self.assertTrue(self.is_let_in(self.kept("worker")))
        self.assertLessEqual(len(self.tokens()), 5)

    def test_a_daemon_that_was_down_for_longer_makes_another(self):
        self.begin("--token-ttl", "2s")
        first = self.token_id("worker")
        self.daemon.signal(signal.SIGKILL)
        self.daemon.wait()
        end = time.time() + 2
        self.ask_until(lambda: time.time() > end, "the end of its token")
        self.begin("--token-ttl", "1h")
        # The token was replaced before the daemon printed that it listens.
        self.assertNotEqual(self.token_id("worker"), first)
        self.assertTrue(self.is_let_in(self.kept("worker")))
        self.assertEqual(self.tokens()[first]["state"], "expired")

    def test_revoked_or_rotated_by_command(self):
        self.begin()
        for verb in ("revoke", "rotate"):
            for role in ("worker", "admin"):
                if (verb, role) == ("revoke", "admin"):
                    continue  # The last lasting token cannot be revoked.
                before = self.kept(role)
                done = self.rollcall("token", verb,
                                     wire.Join(before).token_id,
                                     self.kept("admin"))
                self.assertEqual(done.code, 0, done.text())
                # The file is replaced before the command gets its answer, so no
                # wait is needed.
                self.assertNotEqual(self.kept(role), before)
                self.assertTrue(self.is_let_in(self.kept(role)))
                self.assertFalse(self.is_let_in(before))
        # The tokens in the files are also known to the next daemon.
        self.daemon.signal(signal.SIGKILL)
        self.daemon.wait()
        kept = {role: self.kept(role) for role in ("worker", "admin")}
        self.begin()
        for role, text in kept.items():
            join = wire.Join(text)
            self.assertEqual(self.token_id(role), join.token_id)
            self.assertTrue(self.is_let_in(self.kept(role)))
