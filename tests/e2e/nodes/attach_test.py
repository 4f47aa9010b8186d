"""Tests agents with --attach: ranks started by others attach to the agent's
socket.

The test is the parent of the ranks, as a training container or torchrun would
be.
"""
import glob
import json
import os
import signal
import time

import harness
from harness import E2E, ROLLCALL

TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
TRAIN = os.path.join(harness.BIN, "rollcall-train")
# The model is small so that steps are quick.
MODEL = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "32",
         "--batch", "12", "--log-every", "1", "--log-all-ranks"]
ENDLESS = 1_000_000


class Attach(E2E):
    def launch_attached(self, *flags):
        self.launcher = self.stage.start(
            [ROLLCALL, "launch", "--hosts-file", self._hosts, "--attach",
             "--name", "w0", *flags])
        return self.launcher

    def join_attached(self, *flags, name="w1"):
        return self.stage.start(
            [ROLLCALL, "join", self.join_string(self.launcher),
             "--hosts-file", self._hosts, "--attach", "--name", name, *flags])

    def socket_of(self, agent):
        """Returns the socket path that the agent prints for its ranks."""
        return agent.await_line(r"ROLLCALL_SOCKET=(\S+)", "err")[1]

    def start_rank(self, socket, local_rank=0, steps=ENDLESS):
        """Starts a rank by hand as README.md shows."""
        return self.stage.start(
            [TRAIN, "--data", *TEXT, "--steps", steps, *MODEL],
            {"ROLLCALL_SOCKET": socket, "LOCAL_RANK": str(local_rank)})

    def sockets_of(self, process):
        """Awaits the first sockets of a process; returns their inodes."""
        found = set()

        def look():
            for fd in glob.glob(f"/proc/{process.pid}/fd/*"):
                try:
                    name = os.readlink(fd)
                except FileNotFoundError:
                    continue
                if name.startswith("socket:"):
                    found.add(name)
            return bool(found)

        self.stage.pump(look, "a socket", 10)
        return found

    def await_world(self, rank, size, generation):
        rank.await_lines(
            rf"^step \d+ .* world {size} generation {generation}$", 5)

    def end_job(self):
        """Sends Ctrl-C twice, so that the launcher does not wait for ranks."""
        self.launcher.signal(signal.SIGINT)
        self.launcher.signal(signal.SIGINT)
        self.assert_code(self.launcher, 130)

    def lives_on(self, for_s, *processes):
        """Checks that these processes keep running for that time."""
        until = time.monotonic() + for_s
        self.stage.pump(lambda: time.monotonic() >= until or any(
            p.code is not None for p in processes), "a while", for_s + 1)
        self.assertEqual([p.code for p in processes], [None] * len(processes))

    def test_ranks_train_to_the_end(self):
        launcher = self.launch_attached("--nodes", "2", "--max-restarts", "0")
        # One rank attaches before there is a world, the others long after.
        early = self.start_rank(self.socket_of(launcher), steps=30)
        dialed = self.sockets_of(early)
        self.lives_on(1, early)
        # It waits on one connection. If it dialed again, a world given to the
        # connection that it closes would lose its rank.
        self.assertEqual(self.sockets_of(early), dialed)
        worker = self.join_attached("--nproc-per-node", "2", "--json")
        told = json.loads(worker.await_line(r"^\{.*\}$", "out")[0])
        self.assertEqual(told["ranks"], 2)
        self.assertEqual(told["socket"], self.socket_of(worker))
        worker.await_line("generation 1: node rank 1 of 2, world size 3")
        late = [self.start_rank(told["socket"], i, steps=30) for i in (1, 0)]
        for process in (early, *late, launcher, worker):
            self.assert_code(process, 0)
        for rank in (early, *late):
            rank.await_line(r"^step 30 .* world 3 generation 1$")
        self.assertEqual(os.listdir(self.stage.path("run")), [])

    def test_a_rank_that_is_gone_attaches_again(self):
        launcher = self.launch_attached("--nodes", "2", "--max-restarts", "1")
        worker = self.join_attached()
        kept = self.start_rank(self.socket_of(launcher))
        victim = self.start_rank(self.socket_of(worker))
        self.await_world(victim, 2, 1)
        victim.kill()
        kept.await_line("generation 1 has ended.*rank 1 on w1 is gone")
        # The world is formed without the rank, and waits for it.
        launcher.await_line("generation 2: ")
        again = self.start_rank(self.socket_of(worker))
        for rank in (again, kept):
            self.await_world(rank, 2, 2)
        self.assertIsNone(kept.code)
        # The second loss exceeds --max-restarts.
        again.kill()
        self.assert_code(launcher, 1)
        self.assert_code(worker, 1)
        # This rank is not killed: it is told to end.
        self.assert_code(kept, 1)

    def test_a_rank_that_fails_says_with_which_code(self):
        launcher = self.launch_attached("--max-restarts", "0")
        rank = self.stage.start(
            [TRAIN, "--data", "/nowhere", "--steps", "5", *MODEL],
            {"ROLLCALL_SOCKET": self.socket_of(launcher), "LOCAL_RANK": "0"})
        self.assert_code(rank, 1)
        self.assert_code(launcher, 1)
        launcher.await_line("/nowhere")

    def test_an_agent_that_is_killed_takes_nobody_along(self):
        launcher = self.launch_attached(*harness.whole("1:2"), "--max-restarts",
                                        "0")
        path = self.stage.path("shared", "agent.sock")
        worker = self.join_attached("--socket", path)
        self.assertEqual(self.socket_of(worker), path)
        kept = self.start_rank(self.socket_of(launcher))
        rank = self.start_rank(path)
        # It has the socket in its environment like a rank, but is none.
        other = self.stage.start(["sleep", "1000"], {"ROLLCALL_SOCKET": path})
        self.await_world(rank, 2, 1)
        # A second agent cannot use the socket path of a live one.
        second = self.join_attached("--socket", path, name="w2")
        self.assert_code(second, 69)
        self.assertIn(path, second.text())

        worker.kill()
        self.assert_code(rank, 1)  # It ended by itself: it was not killed.
        self.await_world(kept, 1, 2)
        worker = self.join_attached("--socket", path)
        rank = self.start_rank(self.socket_of(worker))
        for process in (kept, rank):
            self.await_world(process, 2, 3)
        self.assertIsNone(other.code)
        self.end_job()

    def test_a_rank_that_does_not_answer_is_not_killed(self):
        launcher = self.launch_attached("--nodes", "2")
        worker = self.join_attached("--nproc-per-node", "2")
        kept = self.start_rank(self.socket_of(launcher))
        silent, victim = (self.start_rank(self.socket_of(worker), i)
                          for i in (0, 1))
        self.await_world(silent, 3, 1)
        silent.signal(signal.SIGSTOP)
        victim.kill()
        kept.await_line("generation 1 has ended")
        again = self.start_rank(self.socket_of(worker), 1)
        # Its world may still run, so no world is formed with this node.
        self.lives_on(2, silent, kept, again)
        self.assertIsNone(launcher.find("generation 2: "))
        silent.kill()
        launcher.await_line("generation 2: ")
        silent = self.start_rank(self.socket_of(worker), 0)
        for rank in (kept, again, silent):
            self.await_world(rank, 3, 2)

        # An agent ends even if a rank does not answer.
        kept.signal(signal.SIGSTOP)
        self.end_job()
        self.assert_code(worker, 130)
        for rank in (silent, again):
            self.assert_code(rank, 1)
        self.assertIsNone(kept.code)

    def test_two_processes_for_one_rank(self):
        launcher = self.launch_attached("--max-restarts", "0")
        first = self.start_rank(self.socket_of(launcher))
        self.await_world(first, 1, 1)
        second = self.start_rank(self.socket_of(launcher))
        warned = launcher.await_line(
            r"local rank 0: process (\d+) attaches while process (\d+) is")
        self.assertEqual(tuple(int(p) for p in warned.groups()),
                         (second.pid, first.pid))
        # The rank handles signals while it waits.
        second.signal(signal.SIGTERM)
        self.assert_code(second, 75)
        self.lives_on(0.5, first, launcher)
        self.end_job()

    def test_bad_flags(self):
        long_path = "/" + "a" * 107
        rows = [
            (["--attach", "--", "true"], 2, "expected no command"),
            ([], 2, "--attach"),
            (["--attach", "--socket", long_path], 2, "at most 107 bytes"),
            (["--attach", "--socket", "here.sock"], 2, "an absolute path"),
            (["--attach", "--socket", self._hosts], 69, "something else"),
            (["--attach", "--socket", "/no/such/s"], 69, "/no/such"),
        ]
        launcher = self.launch_attached("--nodes", "2")
        for flags, code, says in rows:
            tried = self.stage.run(
                [ROLLCALL, "join", self.join_string(launcher), "--name", "w1",
                 "--no-hosts", *flags])
            self.assertEqual(tried.code, code, tried.text())
            self.assertIn(says, tried.text())
        # The agent has no rank with this local rank.
        rank = self.start_rank(self.socket_of(launcher), 1)
        self.assert_code(rank, 1)
        rank.await_line("local rank 1: expected less than 1")
        self.end_job()
