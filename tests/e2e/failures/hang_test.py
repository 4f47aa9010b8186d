"""Ranks that run without progress are found and named; the job goes on."""
import glob
import json
import os
import re
import signal
import socketserver
import threading

import harness
from harness import E2E, command_line, descendants

STEP = re.compile(r"\[([^/\]]+)/(\d+)\] step (\d+) loss .* "
                  r"world (\d+) generation (\d+)")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
TRAIN = os.path.join(harness.BIN, "rollcall-train")
MODEL = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "32",
         "--batch", "12", "--log-every", "1", "--log-all-ranks"]
# A frame of a stack as eu-stack and gdb print it: its number, its address and
# the function; group 1 is the function.
FRAME = r"#\d+\s+(?:0x[0-9a-f]+\s+)(?:in )?(\S+)"
# A function where a rank of rollcall-train may be: in a computation or in a
# wait for a peer.
TRAINER = re.compile(r"^(rollcall|gloo)::")
# Counts three steps in the progress file. In the first world the process then
# hangs forever.
PLAIN = """
import os, signal, sys
def stands_still():
    while True:
        signal.pause()
first = os.environ["ROLLCALL_GENERATION"] == "1"
with open(os.environ["ROLLCALL_PROGRESS"], "w") as progress:
    for step in range(1, 4):
        progress.seek(0)
        progress.write(f"{step}\\n")
        progress.flush()
print("up", os.getpid(), flush=True)
if first:
    stands_still()
"""
# In the first world, the ranks in %s publish one step. All ranks hang
# otherwise, as in an import that never ends.
STARTS_OF = """
import os, signal
if os.environ["RANK"] in "%s" and os.environ["ROLLCALL_GENERATION"] == "1":
    with open(os.environ["ROLLCALL_PROGRESS"], "w") as progress:
        progress.write("1\\n")
print("up", os.getpid(), flush=True)
while True:
    signal.pause()
"""
STARTS, ONE_STARTS = STARTS_OF % "01", STARTS_OF % "0"
# These ranks hang, too, but publish no step in any world.
PLAIN_STARTS = """
import os, signal
print("up", os.getpid(), flush=True)
while True:
    signal.pause()
"""


# All ranks do three steps in the first world, then hang.
IN_NCCL = """
import os, signal
if os.environ["ROLLCALL_GENERATION"] == "1":
    with open(os.environ["ROLLCALL_PROGRESS"], "w") as progress:
        for step in range(1, 4):
            progress.seek(0)
            progress.write(f"{step}\\n")
            progress.flush()
    os.write(1, f"rank {os.environ['RANK']} is {os.getpid()}\\n".encode())
    while True:
        signal.pause()
"""


class Ras(socketserver.ThreadingTCPServer):
    """Imitates NCCL's RAS service for a job of two ranks, with the answers of
    NCCL 2.28.9 (tests/recorded). `begun`: begun collectives by pid, valid once
    `known` is set."""
    daemon_threads = True

    def __init__(self, test):
        super().__init__(("127.0.0.1", 0), RasConnection)
        self.begun, self.known = {}, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        test.addCleanup(self.server_close)
        test.addCleanup(self.shutdown)

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def answer(self):
        self.known.wait(60)
        return {"nccl_version": "2.28.9", "communicators": [{
            "hash": "0xe86360c6fd238bd9", "size": len(self.begun),
            "ranks": [{"rank": rank, "host": "127.0.0.1", "pid": pid,
                       "collective_counts": {"AllGather": 0, "AllReduce": n}}
                      for rank, (pid, n) in enumerate(self.begun.items())],
            "missing_ranks": []}]}


class RasConnection(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if line.startswith(b"CLIENT PROTOCOL"):
                self.wfile.write(b"SERVER PROTOCOL 2\n")
            elif line == b"VERBOSE STATUS\n":
                self.wfile.write(json.dumps(self.server.answer()).encode())
                return
            else:
                self.wfile.write(b"OK\n")


def state_of(pid):
    """Returns the state in /proc/PID/stat; None if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(") ")[2][0]
    except OSError:
        return None


class Hang(E2E):
    def gather(self, flags):
        """Starts three nodes that train; their agents, by name, are in
        self.agents."""
        command = [TRAIN, "--data", *TEXT, "--steps", "1000000", *MODEL]
        launcher = self.launch(["--nodes", "3", "--name", "w0", *flags],
                               command)
        self.join_text = self.join_string(launcher)
        self.agents = {"w0": launcher}
        for name in ("w1", "w2"):
            self.agents[name] = self.join(self.join_text, ["--name", name],
                                          command)
        for agent in self.agents.values():
            agent.await_line(r"\] step 20 .* generation 1$")
        return launcher

    def rank_of(self, name):
        [pid] = [p for p in descendants(self.agents[name].pid)
                 if command_line(p)[:1] == [TRAIN]]
        return pid

    def await_frame(self, agent, function):
        """Waits for a stack frame with such a function in the agent's log."""
        def found():
            return [m[1] for line in agent.err()
                    for m in [re.search(FRAME, line)]
                    if m and function.search(m[1])]
        self.stage.pump(lambda: found() or agent.done(),
                        f"a frame of /{function.pattern}/ of {agent}")
        self.assertTrue(found(), agent.text())

    def end(self, launcher):
        launcher.signal(signal.SIGINT)
        launcher.signal(signal.SIGINT)
        for agent in self.agents.values():
            agent.wait()

    def test_a_stopped_rank_is_named_and_the_others_live_on(self):
        launcher = self.gather(["--hang-timeout", "4s"])
        before = {name: self.rank_of(name) for name in self.agents}
        os.kill(before["w1"], signal.SIGSTOP)
        for agent in self.agents.values():
            agent.await_line(r"\] step \d+ .* world 3 generation 2$",
                             deadline_s=60)
        after = {name: self.rank_of(name) for name in self.agents}
        for name in ("w0", "w2"):
            self.assertEqual(after[name], before[name], name)
        self.assertNotEqual(after["w1"], before["w1"])
        self.assertIsNone(state_of(before["w1"]), "the stopped one is gone")
        # The root cause names only the stopped rank, and the reason.
        state = self.status(self.join_text)
        cause = state["root_cause"]
        self.assertEqual((cause["node"], cause["code"]),
                         ("w1", "hang"), cause)
        self.assertIn("it is stopped", cause["detail"])
        # The agents' logs have stacks of all ranks, also of the stopped one.
        for name, agent in self.agents.items():
            agent.await_line(r"local rank 0 makes no progress", "err")
            agent.await_line(
                rf"process {before[name]} \(rollcall-train\) .* threads:",
                "err")
            self.await_frame(agent, TRAINER)
        # No step is lost. A surviving rank repeats at most the step that was in
        # progress; or, if the other survivor had completed it, continues from
        # the other's state.
        done = set()
        for name in ("w0", "w2"):
            steps = [int(m[3]) for line in self.agents[name].out()
                     for m in [STEP.search(line)] if m]
            done.update(steps)
            jumps = [then - one for one, then in zip(steps, steps[1:])
                     if then - one != 1]
            self.assertIn(jumps, ([], [0], [2]), name)
        self.assertEqual(sorted(done), list(range(min(done), max(done) + 1)))
        self.end(launcher)

    def test_a_plain_command_is_watched_by_its_progress_file(self):
        launcher = self.launch(
            ["--hang-timeout", "1s", "--name", "w0", "--max-restarts", "1"],
            ["python3", "-c", PLAIN])
        self.assert_code(launcher, 0)
        pids = [int(m[1]) for line in launcher.out()
                for m in [re.search(r"\] up (\d+)$", line)] if m]
        self.assertEqual(len(pids), 2)
        self.assertIsNone(state_of(pids[0]))
        self.assertRegex(launcher.text(), r"made no progress.*after step 3")
        self.assertRegex(launcher.text(), rf"process {pids[0]} \(python")
        self.await_frame(launcher, re.compile(r"pause|Py"))

    def test_nccl_says_which_plain_command_is_behind(self):
        ras = Ras(self)
        environment = {"NCCL_RAS_ADDR": ras.address}
        launcher = self.launch(
            ["--hang-timeout", "1s", "--nodes", "2", "--name", "w0",
             "--max-restarts", "1"], ["python3", "-c", IN_NCCL], environment)
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           ["python3", "-c", IN_NCCL], environment)
        pids = {}
        for rank, agent in ((1, worker), (0, launcher)):
            [found] = agent.await_lines(rf"rank {rank} is (\d+)", 1)
            pids[rank] = int(found[1])
        ras.begun = {pids[0]: 4, pids[1]: 5}
        ras.known.set()
        for agent in (launcher, worker):
            self.assert_code(agent, 0)
        # The launcher may log the next generation first, so this line is taken
        # from the worker.
        worker.await_line("rank 0 on w0 made no progress: it has begun fewer "
                          "collectives of NCCL than others", "err")
        self.assertIn("NCCL: 4 collectives begun in communicator "
                      "0xe86360c6fd238bd9 of 2 ranks, others 5",
                      launcher.text())
        self.assertIn(f"waits for rank 0 (process {pids[0]} on 127.0.0.1) with "
                      "4", worker.text())

    def up(self, agent, count=1):
        """Returns the pids of the ranks that this agent has started so far."""
        agent.await_lines(r"\] up \d+$", count)
        return [int(m[1]) for line in agent.out()
                for m in [re.search(r"\] up (\d+)$", line)] if m]

    def two_that_start(self, command, flags=()):
        """Starts a job of two nodes; returns the launcher, the other agent and
        the join string."""
        launcher = self.launch(["--nodes", "2", "--name", "w0",
                                "--start-timeout", "2s", *flags],
                               ["python3", "-c", command])
        join_text = self.join_string(launcher)
        worker = self.join(join_text, ["--name", "w1"],
                           ["python3", "-c", command])
        return launcher, worker, join_text

    def run_one_whose_ranks_never_start(self):
        """The job's second world hangs before any rank publishes a step."""
        launcher, worker, join_text = self.two_that_start(
            STARTS, ["--max-restarts", "1"])
        [first] = self.up(launcher)
        self.up(worker)
        # The daemon knows now that ranks of both nodes publish steps.
        self.await_status(
            join_text, lambda s: all(n["step"] > 0 for n in s["nodes"]),
            "a step of each node")
        os.kill(first, signal.SIGKILL)
        self.up(launcher, 2)
        self.up(worker, 2)
        for agent in (launcher, worker):
            self.assert_code(agent, 1)
        return launcher, worker

    def test_ranks_that_all_hang_before_their_first_step_are_found(self):
        launcher, worker = self.run_one_whose_ranks_never_start()
        self.assertRegex(
            launcher.text(),
            r"no rank made progress: all 2 ranks have neither linked nor "
            r"published a step since their start, and nothing tells them "
            r"apart: rank 0 on w0 \(.*\), rank 1 on w1 \(")
        for agent in (launcher, worker):
            agent.await_line(r"local rank 0 makes no progress", "err")
            for pid in self.up(agent, 2):
                self.assertIsNone(state_of(pid))

    def test_plain_commands_that_never_link_are_left_alone(self):
        launcher, worker, join_text = self.two_that_start(PLAIN_STARTS)
        pids = [self.up(launcher)[0], self.up(worker)[0]]
        # A job that started later is judged by the same limit. Once it is, this
        # job would have been judged, too.
        self.run_one_whose_ranks_never_start()
        for pid in pids:
            self.assertEqual(state_of(pid), "S")
        self.assertEqual(self.status(join_text)["generation"], 1)
        for agent in (launcher, worker):
            self.assertNotIn("makes no progress", agent.text())
        self.agents = {"w0": launcher, "w1": worker}
        self.end(launcher)

    def test_one_node_that_publishes_makes_no_others_expected(self):
        launcher, worker, join_text = self.two_that_start(ONE_STARTS)
        [first], _ = self.up(launcher), self.up(worker)
        self.await_status(
            join_text, lambda s: any(n["step"] > 0 for n in s["nodes"]),
            "a step of the first world")
        os.kill(first, signal.SIGKILL)
        pids = [self.up(launcher, 2)[1], self.up(worker, 2)[1]]
        # It is judged after the ranks above would have been.
        self.run_one_whose_ranks_never_start()
        for pid in pids:
            self.assertEqual(state_of(pid), "S")
        self.assertEqual(self.status(join_text)["generation"], 2)
        for agent in (launcher, worker):
            self.assertNotIn("makes no progress", agent.text())
        self.agents = {"w0": launcher, "w1": worker}
        self.end(launcher)

    def test_without_a_limit_nobody_is_watched(self):
        # cli_test and AgentHang.NobodyIsWatchedWithoutALimit check that `never`
        # does not mean a default of some minutes.
        launcher = self.gather(["--hang-timeout", "never"])
        stopped = self.rank_of("w1")
        os.kill(stopped, signal.SIGSTOP)
        # A second job has a limit, and its rank hangs from now on. Once it is
        # judged, this job would have been judged, too, if it had a limit.
        judged = self.launch(
            ["--hang-timeout", "2s", "--name", "other", "--max-restarts", "1"],
            ["python3", "-c", PLAIN])
        self.assert_code(judged, 0)
        judged.await_line("made no progress")
        self.assertEqual(state_of(stopped), "T")
        self.assertEqual(self.status(self.join_text)["generation"], 1)
        os.kill(stopped, signal.SIGCONT)
        for agent in self.agents.values():
            agent.await_line(r"\] step 40 .* generation 1$")
        self.end(launcher)
