"""Tests client/python, the package rollcall, with real agents."""
import os
import re
import signal
import unittest

from harness import E2E, PROJECT, ROLLCALL, Gate, whole

PACKAGE = os.path.join(PROJECT, "client", "python")
ENVIRONMENT = {"PYTHONPATH": PACKAGE, "PYTHONUNBUFFERED": "1"}
# The interpreter that runs the ranks; a developer may set another version.
PYTHON = os.environ.get("ROLLCALL_TEST_PYTHON", "/usr/bin/python3")

EXCHANGES = """
import rollcall
with rollcall.attach() as rank:
    world = rank.world
    for key in ("a", "b", "a"):
        values = rank.exchange(key, f"{key}{world.rank}", timeout=60)
        assert values == [f"{key}{r}".encode() for r in range(world.size)]
    assert rollcall.attach() is rank
    try:
        rank.exchange("c" * world.rank + "d", b"", timeout=0.1)
    except rollcall.TimedOut:
        pass
    print("done", world.rank, world.size, world.local_rank, world.node.name,
          world.master_port > 0)
"""

# Steps until the process is killed, or until a rank has seen a notice or that
# its file exists, and has told all the others.
ELASTIC = """
import os, signal, sys, threading, rollcall
rank = rollcall.attach(elastic=True)
signal.signal(signal.SIGTERM,
              lambda *_: sys.exit(0) if rank.aborted else rank.leave())
step, ends = 0, False
while not ends:
    source = rank.world.state_source
    print("world", rank.world.generation, rank.world.size, os.getpid(), step,
          source and source.step, flush=True)
    if source is not None:
        step = source.step  # Its state is that number.
    over = threading.Event()
    rank.when_over(over.set)
    noticed = False
    try:
        while not noticed and not ends:
            rank.check()
            here = (b"end" if os.path.exists(sys.argv[1]) else
                    b"notice" if rank.notice is not None else b"")
            said = rank.exchange(f"step {step + 1}", here)
            ends, noticed = b"end" in said, b"notice" in said
            step += 1
            rank.progress(step)
            over.wait(0.02)
        if not ends:
            rank.await_notice()
            print("noticed", rank.notice.kind.name, flush=True)
            rank.notice_seen(step)
            rank.await_abort()
    except rollcall.Aborted as aborted:
        print("aborted:", aborted, over.wait(60), flush=True)
    if not ends:
        rank.next_world(step, whole_state=True)
"""

# Rank 1 stops before the collective that rank 0 waits in. Both main threads
# never return, so another thread of the package answers where the rank is.
STUCK = """
import os, sys, rollcall
rank = rollcall.attach()
rank.when_asked(lambda: (9 - rank.world.rank, 8))
for step in range(1, 4):
    rank.exchange(f"step {step}", b"")
    rank.progress(step)
if rank.world.generation == 1:
    os.read(os.pipe()[0], 1)
open(sys.argv[1]).read()
"""

# A fake of PyTorch's counter of NCCL collectives. Rank 1 is one behind rank 0.
STUCK_IN_TORCH = """
import os, sys, types, rollcall
class Group:
    count = 40
    def size(self):
        return 2
    def _get_sequence_number_for_group(self):
        return self.count
c10d = types.ModuleType("torch.distributed.distributed_c10d")
c10d.GroupMember = types.SimpleNamespace(WORLD=Group())
c10d.get_backend = lambda group: "nccl"
recorder = types.ModuleType("torch._C._distributed_c10d")
recorder._dump_nccl_trace_json = None
sys.modules.update({c10d.__name__: c10d, recorder.__name__: recorder})
rank = rollcall.attach()
group = c10d.GroupMember.WORLD
# The place of the first step counts, and not what each has done before.
group.count += rank.world.rank
for step in range(1, 4):
    group.count += 1
    rank.exchange(f"step {step}", b"")
    rank.progress(step)
if rank.world.generation == 1:
    group.count += 1 - rank.world.rank
    os.read(os.pipe()[0], 1)
open(sys.argv[1]).read()
"""

FAILS = """
import sys, rollcall
with rollcall.attach() as rank:
    print("up", flush=True)
    %s
"""

# Calls with wrong answers, then the normal end of the program.
CAREFUL = """
import os, sys, rollcall
with rollcall.attach() as rank:
    for where in (lambda: (-1, -1), lambda: (1,), lambda: sys.exit(1)):
        rank.when_asked(where)
        rank._connection._answer_where(rank.world.generation)
    rank.exchange("k", b"")
    rank.when_over(lambda: print("over", flush=True))
    assert os.environ["ROLLCALL_ATTACHED"].startswith(f"{os.getpid()}:")
assert "ROLLCALL_ATTACHED" not in os.environ
print("lost:", rank.lost, flush=True)
"""

# The child keeps running after the rank's end, as a data loader may.
FORKS = """
import os, time, rollcall
rank = rollcall.attach()
child = os.fork()
if child == 0:
    try:
        rank.exchange("k", b"")
    except rollcall.Lost as lost:
        print("child:", lost, flush=True)
    try:
        rollcall.attach()
    except ValueError as refused:
        print("child:", refused, flush=True)
os.read(os.pipe()[0], 1)
"""


class RankPython(E2E):
    def command(self, script, *arguments):
        return [PYTHON, "-c", script, *arguments]

    def test_ranks_exchange(self):
        launcher = self.launch(
            ["--local-workers", "1", "--nproc-per-node", "2", "--max-restarts",
             "0"], self.command(EXCHANGES), ENVIRONMENT)
        self.assert_code(launcher, 0)
        found = launcher.await_lines(r"done (\d) 4 (\d) \S+ True$", 4)
        self.assertEqual(sorted((m[1], m[2]) for m in found),
                         [("0", "0"), ("1", "1"), ("2", "0"), ("3", "1")])

    def elastic(self, *flags):
        self.end = self.stage.path("end")
        command = self.command(ELASTIC, self.end)
        launcher = self.launch(["--name", "w0", *flags], command, ENVIRONMENT)
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           command, ENVIRONMENT)
        pids = [int(agent.await_line(r"world 1 2 (\d+) 0 None$")[1])
                for agent in (launcher, worker)]
        return launcher, worker, pids

    def finish(self, *agents):
        with open(self.end, "w", encoding="ascii"):
            pass
        for agent in agents:
            self.assert_code(agent, 0)

    def test_a_rank_lives_on_when_another_is_killed(self):
        launcher, worker, (kept, killed) = self.elastic("--nodes", "2")
        state = self.await_status(
            self.join_string(launcher),
            lambda s: all(n["step"] > 1 for n in s["nodes"]), "two steps")
        self.assertEqual(state["generation"], 1)
        os.kill(killed, signal.SIGKILL)
        launcher.await_line("aborted: generation 1 has ended: .* ended by "
                            "signal 9 True")
        again = launcher.await_line(r"world 2 2 (\d+) (\d+) (\d+)$")
        self.assertEqual(int(again[1]), kept)
        # The surviving rank's step counts, and the new rank is told it.
        self.assertGreater(int(again[2]), 0)
        new = worker.await_line(r"world 2 2 (\d+) 0 (\d+)$")
        self.assertNotEqual(int(new[1]), killed)
        self.assertEqual(new[2], again[3])
        self.finish(launcher, worker)

    def test_a_notice_comes_to_all(self):
        launcher, worker, (kept, _) = self.elastic(*whole("1:2"))
        worker.signal(signal.SIGTERM)
        for agent in (launcher, worker):
            agent.await_line("noticed DRAIN")
        self.assert_code(worker, 0)
        self.assertEqual(
            int(launcher.await_line(r"world 2 1 (\d+) ")[1]), kept)
        self.finish(launcher)

    def test_it_says_where_it_is_while_it_is_stuck(self):
        # Keeps generation 2 running until the launcher has printed the line: a
        # world that ends at once may be over before.
        seen = Gate(self.stage)
        launcher = self.launch(
            ["--nproc-per-node", "2", "--hang-timeout", "5s", "--name", "w0",
             "--max-restarts", "9"], self.command(STUCK, seen.path),
            ENVIRONMENT)
        launcher.await_line("rank 1 on w0 made no progress")
        seen.open()
        self.assert_code(launcher, 0)

    def test_collectives_of_torch_are_counted(self):
        seen = Gate(self.stage)
        launcher = self.launch(
            ["--nproc-per-node", "2", "--hang-timeout", "5s", "--name", "w0",
             "--max-restarts", "9"], self.command(STUCK_IN_TORCH, seen.path),
            ENVIRONMENT)
        launcher.await_line("rank 1 on w0 .*it has begun collective 2, while "
                            "others have begun 3", "err")
        seen.open()
        self.assert_code(launcher, 0)

    # --- Under --attach -------------------------------------------------------

    def attached(self, script, restarts="0"):
        self.launcher = self.stage.start(
            [ROLLCALL, "launch", "--hosts-file", self._hosts, "--attach",
             "--name", "w0", "--max-restarts", restarts])
        socket = self.launcher.await_line(r"ROLLCALL_SOCKET=(\S+)", "err")[1]
        return self.stage.start(
            self.command(script), {**ENVIRONMENT, "ROLLCALL_SOCKET": socket,
                                   "LOCAL_RANK": "0"})

    def test_a_rank_says_with_which_code_it_ends(self):
        rows = [
            ("pass", 0, None),
            ("sys.exit(3)", 3, "exited with code 3"),
            ("sys.exit('no data')", 1, "no data"),
            ("raise KeyError('the batch')", 1, "KeyError: 'the batch'"),
        ]
        for line, code, says in rows:
            rank = self.attached(FAILS % line)
            self.assert_code(rank, code)
            self.assert_code(self.launcher, code)
            if says is not None:
                self.launcher.await_line(says)

    def test_a_rank_that_would_fail_again_ends_the_job(self):
        rank = self.attached(FAILS % (
            "rank.finish(3, 'no data', permanent=True)\n"
            "    rank.close()\n"
            "    sys.exit(3)"), restarts="5")
        self.assert_code(rank, 3)
        self.assert_code(self.launcher, 3)

    def test_a_programs_mistakes_do_not_cost_the_connection(self):
        rank = self.attached(CAREFUL)
        self.assert_code(rank, 0)
        self.assert_code(self.launcher, 0)
        rank.await_line("lost: this process has closed the connection")
        # The callback of when_over is not called if the program itself closes.
        self.assertIsNone(rank.find("^over"))

    def test_why_the_agent_ends_a_connection_is_the_root_cause(self):
        # Sends a value that the package itself would refuse to send.
        rank = self.attached(FAILS % (
            "from rollcall import _wire, _connection as c\n"
            "    rank._connection.send(c.PROGRESS, _wire.Writer().uint("
            "2, 1 << 60))\n"
            "    rank.await_abort()"))
        self.assert_code(rank, 1)
        self.assert_code(self.launcher, 1)
        why = "step: expected at most 9007199254740992, got 1152921504606846976"
        rank.await_line(f"rollcall.errors.Refused: {why}")
        self.launcher.await_line(
            rf"rank 0 on w0 is gone: the agent ended the connection of process "
            rf"{rank.pid}: INVALID_ARGUMENT: {why}")

    def test_a_forked_child_does_not_stand_for_its_rank(self):
        rank = self.attached(FORKS)
        rank.await_line("child: this process was forked from a rank")
        rank.await_line(f"child: attach: process {rank.pid}, which is this "
                        "rank, has started")
        rank.signal(signal.SIGKILL)
        self.launcher.await_line(r"rank 0 on w0 is gone: its connection to its "
                                 "agent ended")
        self.assert_code(self.launcher, 1)
        # The forked child is still running.
        (child,) = self.stage.orphans()
        os.kill(child, signal.SIGKILL)
        rank.wait()

    def test_ctrl_c(self):
        rank = self.attached(FAILS % "rank.await_abort()")
        rank.await_line("up")
        # All other threads block SIGINT, so only the main thread gets it.
        for thread in set(os.listdir(f"/proc/{rank.pid}/task")) - {
                str(rank.pid)}:
            with open(f"/proc/{rank.pid}/task/{thread}/status",
                      encoding="ascii") as f:
                blocked = int(re.search(r"SigBlk:\s*(\w+)", f.read())[1], 16)
            self.assertTrue(blocked >> signal.SIGINT - 1 & 1)
        rank.signal(signal.SIGINT)
        self.assert_code(rank, -signal.SIGINT)
        rank.await_line("KeyboardInterrupt")
        self.assert_code(self.launcher, 130)


if __name__ == "__main__":
    unittest.main()
