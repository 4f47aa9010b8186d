"""Tests a launcher in a container that is killed as a whole and started again.

The container is a pid namespace. Its process 1 is the launcher, as if that is
the entry point, or a shell. Each container has its own runtime folder; the
state folder is on a volume.
"""
import json
import os
import signal

import harness
from harness import E2E, Gate

JOB = "contained"
CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Containers(E2E):
    def setUp(self):
        super().setUp()
        self.gate = Gate(self.stage)
        self.state_dir = self.stage.path("volume")
        self.containers = 0
        without = os.environ.get("ROLLCALL_TEST_WITHOUT_NAMESPACES") == "1"
        if without and self.stage.run([*CONTAINER, "true"]).code != 0:
            self.skipTest("no namespaces here, and told to do without")

    def launch_line(self):
        return " ".join(f"'{word}'" for word in self.launch_words())

    def launch_words(self):
        return [harness.ROLLCALL, "launch", "--hosts-file", self._hosts,
                "--job", JOB, "--state", self.state_dir, "--", "sh", "-c",
                "echo up g$ROLLCALL_GENERATION; cat " + self.gate.path]

    def container(self, words, more=()):
        """Starts a container; `words` are its process 1. Returns its holder."""
        self.containers += 1
        run = self.stage.path(f"run{self.containers}")
        os.mkdir(run, 0o700)
        return self.stage.start([*CONTAINER, *more, *words],
                                {"XDG_RUNTIME_DIR": run})

    def inside(self, container):
        """Returns the container's processes, except process 1."""
        return {p: harness.command_line(p) for p in harness.descendants(
            container.pid)}

    def process(self, container, command):
        """Returns the pid of `rollcall COMMAND` in the container."""
        (pid,) = [p for p, words in self.inside(container).items()
                  if words[1:2] == [command]]
        return pid

    def kill(self, container):
        """Kills the container's process 1, as a container runtime does."""
        pids = list(self.inside(container))
        (first,) = [p for p in pids
                    if self.parent(p) == container.pid]
        os.kill(first, signal.SIGKILL)
        self.stage.await_gone(pids, "the container's processes")
        self.stage.pump(lambda: container.code is not None, "its end")

    @staticmethod
    def parent(pid):
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rsplit(b")", 1)[1].split()[1])

    def state(self):
        asked = self.stage.run([harness.ROLLCALL, "status", "--json",
                                "--state", self.state_dir])
        self.assertEqual(asked.code, 0, self.stage.transcript())
        return json.loads("\n".join(asked.out()))

    def ends(self, container):
        self.gate.open()
        self.assert_code(container, 0)


class Restart(Containers):
    def test_its_next_world_does_not_wait_for_the_last_one(self):
        first = self.container(self.launch_words())
        first.await_line("up g1")
        self.kill(first)
        second = self.container(self.launch_words())
        # The whole container has ended, so nothing of it can still train.
        second.await_line("up g2")
        self.assertIsNone(second.find("may still train"))
        self.assertIsNotNone(second.find("goes on: its daemon is started"))
        self.ends(second)

    def test_one_that_is_killed_before_its_daemon_listens(self):
        """The third launcher still knows which agents of the first are gone."""
        first = self.container(self.launch_words())
        first.await_line("up g1")
        self.kill(first)
        path = os.path.join(self.state_dir, "launch.json")
        with open(path, encoding="utf-8") as f:
            record = json.load(f)
        # The record of the second launcher, as it is before its daemon starts.
        record.update(agents=[], process_one=False,
                      gone=[a["name"] for a in record["agents"]])
        with open(path, "w", encoding="utf-8") as f:
            json.dump(record, f)
        third = self.container(self.launch_words())
        third.await_line("up g2")
        self.ends(third)

    def test_the_launcher_alone_is_killed(self):
        """Process 1 is a shell, which starts a second launcher while the agent
        and the rank of the first one run."""
        line = self.launch_line()
        both = self.container(["sh", "-c", f"{line}; {line}"])
        both.await_line("up g1")
        agent = self.process(both, "agent")
        os.kill(self.process(both, "launch"), signal.SIGKILL)
        both.await_line("goes on: its daemon is process")
        state = self.state()
        self.assertEqual((state["state"], state["generation"]),
                         ("running", 1))
        self.assertEqual(self.process(both, "agent"), agent)
        self.ends(both)
        self.assertIsNone(both.find("up g2"))

    def test_another_container_gives_up_nothing(self):
        """The launcher was not process 1 and was killed together with its
        daemon. Its agent and its rank still run in the first container."""
        first = self.container(
            ["sh", "-c", f"{self.launch_line()}; cat {self.gate.path}"])
        first.await_line("up g1")
        agent = self.process(first, "agent")
        launcher, daemon = (self.process(first, command)
                            for command in ("launch", "daemon"))
        # The launcher is stopped first, since it would start the daemon again.
        os.kill(launcher, signal.SIGSTOP)
        os.kill(daemon, signal.SIGKILL)
        os.kill(launcher, signal.SIGKILL)
        self.stage.await_gone([launcher, daemon], "launcher and daemon")
        # The second container must wait, too, although the agents of the first
        # later one have ended, which had the same names.
        for _ in range(2):
            # In another network, the first agent cannot reach the new daemon.
            later = self.container(
                ["sh", "-c", f"ip link set lo up; exec {self.launch_line()}"],
                ["--net"])
            later.await_line("goes on: its daemon is started again")
            later.await_line("generation 1 may still train", "err")
            self.kill(later)
            self.assertIsNone(later.find("up g2"))
        self.assertEqual(self.process(first, "agent"), agent)
