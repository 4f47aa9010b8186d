"""The base of every end-to-end test: E2E, a test with a stage.

Tests also import the names of stage, lab, proc and paths from here.
"""
import json
import os
import re
import signal
import socket
import unittest

from lab import Lab
from paths import BIN, LAB, PROJECT, ROLLCALL, TORCH_VENV
from proc import (command_line, descendants, lives, resident_bytes, start_ticks,
                  subcommands)
from stage import DEADLINE_S, Gate, Stage

# A test's time limit; below ctest's, so that the clean-up always runs.
TEST_S = int(os.environ.get("ROLLCALL_TEST_S", "280"))

JOIN_STRING = re.compile(r"rc1\.[A-Za-z0-9_-]+")


def take_port(port):
    """Returns a socket that listens on this port."""
    return socket.create_server(("", port), family=socket.AF_INET6,
                                dualstack_ipv6=True)


def lock_name(hosts_file):
    """Returns the name of the lock file of a hosts file (edit_file.h)."""
    number = 0xcbf29ce484222325
    for byte in hosts_file.encode():
        number = (number ^ byte) * 0x100000001b3 % (1 << 64)
    return f"rollcall-{number:016x}.lock"


def forget_lock(hosts_file):
    """Removes the lock file of a hosts file that a test has made and removed.

    Agents leave the lock file, since removing a lock file that another agent
    may wait for is a race.
    """
    user = os.geteuid()
    for folder in ("/run/rollcall", f"/run/lock/rollcall-{user}",
                   f"/tmp/rollcall-{user}", "/run/lock", "/tmp"):
        try:
            os.unlink(f"{folder}/{lock_name(hosts_file)}")
        except OSError:
            pass


def whole(nodes):
    """Returns the flags of a job of MIN:MAX `nodes` whose first world has MAX
    nodes, however far apart they start."""
    return ["--nodes", nodes, "--last-call", "1m"]


class E2E(unittest.TestCase):
    """A test with its own stage, which is always ended."""

    # Tests that leave a process behind on purpose turn this off.
    checks_orphans = True

    def setUp(self):
        if not os.access(ROLLCALL, os.X_OK):
            self.fail(f"no executable {ROLLCALL}; build it, or name its folder "
                      "with ROLLCALL_BIN")
        self.stage = Stage()
        self.addCleanup(self._end)
        signal.signal(signal.SIGALRM, self._too_long)
        signal.alarm(TEST_S)
        self._hosts = self.stage.path("hosts")
        with open(self._hosts, "wb") as f:
            f.write(b"127.0.0.1 localhost\n# mine\n")

    def _too_long(self, *_):
        self.stage.fail(f"the whole test took over {TEST_S} s")

    def _end(self):
        signal.alarm(0)
        transcripts = os.environ.get("ROLLCALL_TEST_TRANSCRIPTS")
        if transcripts:
            with open(transcripts, "a", encoding="utf-8") as f:
                f.write(f"\n=== {self.id()}{self.stage.transcript(None)}\n")
        stray = self.stage.end()
        forget_lock(self._hosts)
        if self.checks_orphans and stray:
            self.fail("left behind: " + "; ".join(stray))

    # --- Launchers and workers that leave this machine's /etc/hosts alone -----

    def launch(self, flags, command, env=None):
        return self.stage.start(
            [ROLLCALL, "launch", "--hosts-file", self._hosts, *flags, "--",
             *command], env)

    def join(self, join_string, flags, command, env=None):
        return self.stage.start(
            [ROLLCALL, "join", join_string, "--hosts-file", self._hosts,
             *flags, "--", *command], env)

    def rollcalld(self, *flags, env=None):
        return self.stage.start([os.path.join(BIN, "rollcalld"), "--listen",
                                 "127.0.0.1:0", *flags], env)

    def kept_join(self, folder, role="worker"):
        """Returns the join string in a daemon's folder."""
        with open(os.path.join(folder, f"{role}.join"), encoding="ascii") as f:
            return f.read().strip()

    def join_string(self, launcher):
        return launcher.await_line(JOIN_STRING.pattern)[0]

    def status(self, *where):
        """Returns `status --json`, asked once."""
        asked = self.stage.run([ROLLCALL, "status", *where, "--json"])
        self.assertEqual(asked.code, 0, self.stage.transcript())
        return json.loads("\n".join(asked.out()))

    def await_status(self, join_string, condition, what,
                     deadline_s=DEADLINE_S):
        """Returns the first state, now or later, with condition(state)."""
        return self.await_watched(
            [ROLLCALL, "status", join_string], condition, what, deadline_s,
            watches=1)

    def await_watched(self, status, condition, what, deadline_s=DEADLINE_S,
                      watches=1000, start=None):
        """Returns the first state of `status --json --watch` for which
        condition(state) holds.

        If a daemon does not listen yet, the watch ends at once, and no event
        tells when it listens. So the watch is started up to `watches` times.
        """
        for _ in range(watches):
            watch = (start or self.stage.start)([*status, "--json", "--watch"])
            seen = []

            def look():
                for line in watch.out()[len(seen):]:
                    seen.append(json.loads(line))
                    if condition(seen[-1]):
                        return True
                return watch.done() and "ended"
            if self.stage.pump(look, f"a status: {what}", deadline_s) is True:
                if watch.code is None:
                    os.kill(watch.inner_pid(), signal.SIGKILL)
                    self.stage.pump(lambda: watch.code is not None, "its end")
                return seen[-1]
        return self.stage.fail(f"`status --watch` ended before: {what}; last "
                               f"{seen[-1:]}")

    # --- Assertions -----------------------------------------------------------

    def assert_code(self, process, code, deadline_s=DEADLINE_S):
        got = process.wait(deadline_s)
        if got != code:
            self.stage.fail(f"{process} ended with {got}, expected {code}")

    def assert_no_orphans(self):
        self.stage.await_gone(self.stage.orphans(), "orphans")
        self.assertEqual([command_line(p) for p in self.stage.orphans()], [])


def nodes_by_name(state):
    return {node["node"]: node for node in state["nodes"]}
