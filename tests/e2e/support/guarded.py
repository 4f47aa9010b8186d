"""A running job with a known state folder, for tests that try to disturb it.

Its two nodes must not be affected: there is one generation, and the ranks exit
0.
"""
import json
import os
import re
import signal
import sys
import time

import harness
import wire
from harness import E2E, Gate, nodes_by_name

UNAVAILABLE, REFUSED = 69, 77


class Guarded(E2E):
    job = "guarded"

    def setUp(self):
        super().setUp()
        self.state_dir = self.stage.path("state", "rollcall", self.job)
        self.admitted = []

    def begin(self, flags=(), env=None):
        """Starts the launcher and one worker, `w1`, in generation 1. A node
        that joins later becomes a spare."""
        self.gate = Gate(self.stage)
        self.command = ["sh", "-c", f"echo up-$RANK-g$ROLLCALL_GENERATION; "
                        f"cat {self.gate.path}"]
        self.launcher = self.launch(
            ["--job", self.job, "--nodes", "2", "--grow", "never", *flags],
            self.command, env)
        self.text = self.join_string(self.launcher)
        self.worker = self.join(self.worker_string(), ["--name", "w1"],
                                self.command)
        self.worker.await_line("up-1-g1")
        self.launcher.await_line("up-0-g1")

    def worker_string(self):
        return self.text

    def goes_on(self):
        """Checks that the job was not affected, then lets it end."""
        state = self.status(self.text)
        self.assertEqual((state["state"], state["generation"]), ("running", 1))
        nodes = nodes_by_name(state)
        self.assertEqual(nodes["w1"]["state"], "running")
        self.ends()

    def ends(self):
        self.gate.open()
        self.assert_code(self.launcher, 0)
        self.assert_code(self.worker, 0)
        for process in self.admitted:
            self.assert_code(process, 0)
        for process in (self.launcher, self.worker):
            self.assertIsNone(process.find(r"\bup-\d-g2"))
        self.assertIsNone(self.launcher.find("started again"))

    # --- Clients that tests start ---------------------------------------------

    def stranger(self, where, flags=(), name="stranger", env=None):
        """Starts an agent that joins later. If its rank ran, it would create a
        file; the agent has its own hosts file. `where`: the arguments that name
        the job."""
        hosts = self.stage.path(f"hosts-of-{name}")
        with open(hosts, "wb") as f:
            f.write(b"127.0.0.1 localhost\n# theirs\n")
        self.addCleanup(harness.forget_lock, hosts)
        return self.stage.start(
            [harness.ROLLCALL, "join", *where, "--name", name, "--hosts-file",
             hosts, *flags, "--", "touch", self.stage.path(f"ran-{name}")],
            env)

    def assert_refused(self, process, why, name="stranger"):
        """Checks for exit code 77 and the reason on stderr, and that nothing
        changed or ran."""
        self.assert_code(process, REFUSED)
        self.assertRegex("\n".join(process.err()), why)
        self.assertFalse(os.path.exists(self.stage.path(f"ran-{name}")))
        with open(self.stage.path(f"hosts-of-{name}"), "rb") as f:
            self.assertEqual(f.read(), b"127.0.0.1 localhost\n# theirs\n")

    def assert_let_in(self, name="stranger"):
        """Control: the agent becomes a spare of the running job."""
        return self.await_status(
            self.text, lambda s: nodes_by_name(s).get(name, {}).get("state")
            == "spare", f"{name} as a spare")

    def let_in(self, where, flags=(), name="stranger", env=None):
        """Starts such an agent as a spare; it must exit 0 when the job ends."""
        self.admitted.append(self.stranger(where, flags, name, env))
        self.assert_let_in(name)
        return self.admitted[-1]

    def world(self):
        """Returns the state of the job that must not change."""
        state = self.status(self.text)
        with open(self._hosts, "rb") as f:
            hosts = f.read()
        nodes = [{k: v for k, v in node.items() if k != "lease_ms"}
                 for node in state["nodes"]]
        return dict({k: state[k] for k in (
            "run", "state", "generation", "world_size", "last_reform",
            "missing")}, nodes=nodes, hosts=hosts)

    def refused(self, code):
        """Returns how often the daemon has refused a client with that code,
        from `status`."""
        return self.status(self.text)["refused"].get(code, 0)

    def logged(self, event, log=None):
        """Returns the lines with that event in the daemon's log."""
        with open(log or os.path.join(self.state_dir, "daemon.log"),
                  encoding="utf-8") as f:
            return [line for line in f
                    if re.search(rf"\bevent={event}\b", line)]

    def denied(self, code, log=None):
        """Returns the daemon's log lines about refusals with that code."""
        return self.logged(f"denied code={code}", log)

    def assert_counted_once(self, code, *words):
        """Checks for one refusal in the log and one in `status --json`."""
        lines = self.denied(code)
        self.assertEqual(len(lines), 1, lines)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(self.refused(code), 1)

    def rollcall(self, *words, env=None):
        return self.stage.run([harness.ROLLCALL, *words], env)

    def token(self, *flags):
        """Runs `token create`; returns {id, role, job, join}."""
        made = self.rollcall("token", "create", "--job", self.job, "--json",
                             *flags)
        self.assertEqual(made.code, 0, made.text())
        return json.loads(made.out()[0])

    def tokens(self):
        """Returns the entries of `token list` by id."""
        listed = self.rollcall("token", "list", "--job", self.job, "--json")
        self.assertEqual(listed.code, 0, listed.text())
        return {t["id"]: t for t in json.loads(listed.out()[0])["tokens"]}

    def token_states(self):
        return {i: token["state"] for i, token in self.tokens().items()}

    def ask_until(self, condition, what):
        """Polls a condition that changes without an event."""
        until = time.monotonic() + harness.DEADLINE_S
        while not condition():
            if time.monotonic() > until:
                self.stage.fail(f"asked until the deadline for {what}")

    def await_expired(self, token_id):
        # The expiry causes no event, but its time is known, so the test first
        # waits for that time.
        left_s = self.tokens()[token_id]["expires_at"] - time.time()
        until = time.monotonic() + left_s
        self.stage.pump(lambda: time.monotonic() >= until, "a token's end",
                        max(left_s, 0))
        self.ask_until(lambda: self.token_states()[token_id] == "expired",
                       f"the end of token {token_id}")

    def new_secret(self):
        return self.rollcall("token", "secret").out()[0]

    def dial(self, text=None, **settings):
        """Opens a test client that trusts the daemon of a join string."""
        join = wire.Join(text or self.text)
        client = wire.Stranger(join.port(), trust=wire.pinned(
            join.pin, join.port()), **settings)
        self.addCleanup(client.close)
        return client

    def proxy(self, port, name, certificate=None):
        return Proxy(self.stage, f"127.0.0.1:{port}", name, certificate)

    def restart_daemon(self):
        """Kills the daemon; returns when the new one answers and `w1`, which
        is suspect until it dials again, is back."""
        os.kill(self.daemon_pid(), signal.SIGKILL)
        self.launcher.await_line("started again")

        def runs():
            asked = self.rollcall("status", "--job", self.job, "--json")
            if asked.code != 0:
                return False
            state = json.loads(asked.out()[0])
            return (state["state"] == "running" and
                    nodes_by_name(state)["w1"]["state"] == "running")
        self.ask_until(runs, "a daemon that answers, and w1 back")

    def daemon_pid(self):
        with open(os.path.join(self.state_dir, "daemon.json"),
                  encoding="utf-8") as f:
            found = re.search(r'"(?:daemon_)?pid": *(\d+)', f.read())
        return int(found[1])


class Proxy:
    """A proxy.py in front of `to`; with a certificate, a man in the middle."""

    def __init__(self, stage, to, name, certificate=None):
        self.record = stage.path(f"record-{name}")
        words = [sys.executable, "-B",
                 os.path.join(os.path.dirname(__file__), "proxy.py"),
                 "--to", to, "--record", self.record]
        if certificate:
            words += ["--cert", certificate[0], "--key", certificate[1]]
        self.process = stage.start(words)
        self.port = int(self.process.await_line(r"^port (\d+)")[1])

    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def went_up(self):
        with open(self.record + ".up", "rb") as f:
            return f.read()

    def recorded(self):
        with open(self.record + ".down", "rb") as f:
            return self.went_up() + f.read()
