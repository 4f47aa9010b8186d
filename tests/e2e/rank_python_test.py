"""Tests client/python, the package rollcall, with real agents and protoc."""
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from harness import E2E, PROJECT, ROLLCALL, Gate

PACKAGE = os.path.join(PROJECT, "client", "python")
PROTO = os.path.join(PROJECT, "proto")
sys.path.insert(0, PACKAGE)

# pylint: disable=wrong-import-position
import rollcall  # noqa: E402
from rollcall import _wire, world  # noqa: E402
from rollcall._wire import FrameReader, Message, WireError, Writer  # noqa: E402

ENVIRONMENT = {"PYTHONPATH": PACKAGE, "PYTHONUNBUFFERED": "1"}
# The interpreter that runs the ranks; a developer may set another version.
PYTHON = os.environ.get("ROLLCALL_TEST_PYTHON", "/usr/bin/python3")


class Codec(unittest.TestCase):
    """Compares the package's own protobuf code with protoc."""

    def protoc(self, flag, kind, data):
        return subprocess.run(
            ["protoc", "-I", PROTO, f"--{flag}=rollcall.v1.{kind}",
             f"{PROTO}/rollcall/v1/rank.proto"], input=data, check=True,
            stdout=subprocess.PIPE).stdout

    def test_what_is_sent_is_what_is_meant(self):
        rows = [
            (Writer().message(1, Writer().uint(1, 0).uint(2, 300).uint(
                3, (1 << 64) - 1).uint(5, 1).uint(6, 1)),
             "hello { pid: 300 generation: 18446744073709551615 elastic: true "
             "wire_version: 1 }"),
            (Writer().message(2, Writer().uint(1, 5).uint(2, 1 << 53)
                              .double(3, 0.0).double(4, 2.5)),
             "progress { generation: 5 step: 9007199254740992 loss: 0 "
             "tokens_per_second: 2.5 }"),
            (Writer().message(7, Writer().uint(1, 5).uint(2, 0, always=True)),
             "here { generation: 5 collective_entered: 0 }"),
            (Writer().message(8, Writer().uint(2, 3).text(3, "caf\xe9 \udcff")),
             'finished { exit_code: 3 reason: "caf\\303\\251 ?" }'),
            (Writer().message(9, Writer().uint(1, 1).text(3, "k")
                              .data(4, b"\x00\xff")),
             'exchange { request: 1 key: "k" value: "\\000\\377" }'),
            (Writer().message(6, Writer()), "leave { }"),
            (Writer(), ""),
        ]
        for message, text in rows:
            read = self.protoc("decode", "RankMessage", message.frame()[4:])
            self.assertEqual(read.decode().split(), text.split())
        for value in (-1, 1 << 64):
            with self.assertRaises(ValueError):
                Writer().uint(1, value)

    def reply(self, text):
        return Message(self.protoc("encode", "AgentReply", text.encode()))

    def test_a_world_is_read(self):
        got = world.parse_world(self.reply("""world {
            world { job: "j" run: "r" generation: 1000000 world_size: 3
              restarts_charged: 1 max_restarts: 3
              members { node: "a" ranks: 1 address: "10.0.0.1"
                addresses: "10.0.0.1" addresses: "fd00::1" seat: 7 }
              members { node: "b" node_rank: 1 first_rank: 1 ranks: 2
                hostname: "caf\xe9" } }
            world_commit { generation: 1000000 master_address: "10.0.0.1"
              master_port: 29500 nccl_ids: "\\000\\377" nccl_ids: ""
              incarnations: 18446744073709551615 epochs: 1 epochs: 300
              state_source { rank: 2 step: 40 } }
            node_rank: 1 local_rank: 1 rank: 2
            network { name: "A" value: "b" } network { name: "C" } }""")
            .message(1))
        self.assertEqual((got.job, got.run, got.generation), ("j", "r", 10**6))
        self.assertEqual((got.rank, got.size, got.local_rank), (2, 3, 1))
        self.assertEqual((got.node.name, got.node.hostname, got.local_size),
                         ("b", "caf\xe9", 2))
        self.assertEqual(got.nodes[0].addresses, ("10.0.0.1", "fd00::1"))
        self.assertEqual((got.master_address, got.master_port),
                         ("10.0.0.1", 29500))
        self.assertEqual(got.nccl_ids, (b"\x00\xff", b""))
        self.assertEqual(got.state_source, world.StateSource(2, 40))
        self.assertEqual((got.restarts, got.restarts_max), (1, 3))
        self.assertEqual(got.network, (("A", "b"), ("C", "")))
        # A world without a state source, and two worlds that are not valid.
        text = ("world { world { world_size: 1 members { ranks: 1 } } "
                "rank: %d node_rank: %d }")
        self.assertIsNone(world.parse_world(
            self.reply(text % (0, 0)).message(1)).state_source)
        for rank, node_rank in ((1, 0), (0, 1)):
            with self.assertRaises(WireError):
                world.parse_world(self.reply(
                    text % (rank, node_rank)).message(1))

    def test_a_notice_is_read(self):
        notice = world.parse_notice(self.reply(
            "notice { notice: 3 kind: NOTICE_KIND_DRAIN generation: 5 reason: "
            "\"why\" deadline { seconds: 2 nanos: 500000000 } }").message(3))
        self.assertEqual(notice, rollcall.Notice(
            3, rollcall.NoticeKind.DRAIN, "why", 5, 2.5))
        odd = world.parse_notice(Message(
            Writer().uint(2, 99).frame()[4:]))
        self.assertEqual((odd.kind, odd.seconds),
                         (rollcall.NoticeKind.UNSPECIFIED, None))

    def test_what_is_no_message_is_refused(self):
        for data in (b"\x08", b"\x08" + b"\xff" * 10 + b"\x01", b"\x0a\x05abc",
                     b"\x00\x01", b"\x0b", b"\x0f", b"\x09\x01\x02",
                     b"\x0d\x01"):
            with self.assertRaises(WireError, msg=data):
                Message(data)
        # The field's wire type is not the one that the reader expects.
        number, text = Message(b"\x08\x01"), Message(b"\x0a\x01a")
        for read in (lambda: number.data(1), lambda: number.messages(1),
                     lambda: text.uint(1)):
            with self.assertRaises(WireError):
                read()
        # Fields of fixed size with unknown numbers are skipped.
        self.assertEqual(Message(b"\x0d" + b"\1" * 4 + b"\x11" + b"\1" * 8
                                 + b"\x18\x07").uint(3), 7)

    def test_frames_in_any_pieces(self):
        frames = (b"\0\0\0\0" + Writer().uint(1, 7).frame()
                  + Writer().data(2, b"x" * 300).frame())
        for size in (1, 2, 3, 5, 100, len(frames)):
            reader, got = FrameReader(), []
            for at in range(0, len(frames), size):
                reader.add(frames[at:at + size])
                while (message := reader.next()) is not None:
                    got.append((message.uint(1), len(message.data(2))))
            self.assertEqual(got, [(0, 0), (7, 0), (0, 300)], size)
        reader = FrameReader(5)
        reader.add(b"\0\0\0\6")
        with self.assertRaises(WireError):
            reader.next()

    def test_both_sides_have_the_same_bounds(self):
        def number(path, name):
            with open(os.path.join(PROJECT, path), encoding="utf-8") as f:
                text = re.search(rf"\b{name} =\s*([^;]*);", f.read())[1]
            limits = {"Limits::world_bytes_max": "(64 << 20)",
                      "Limits::store_value_bytes_max": "(1 << 20)",
                      "uint64_t{1}": "1"}
            for word, value in limits.items():
                text = text.replace(word, value)
            return eval(text, {"__builtins__": {}})  # pylint: disable=eval-used
        frames, limits = "client/rank/frames.h", "daemon/core/limits.h"
        for path, name, ours in (
                (frames, "kRankWireVersion", _wire.VERSION),
                (frames, "kRankMessageBytesMax", _wire.RANK_MESSAGE_BYTES_MAX),
                (frames, "kAgentReplyBytesMax", _wire.AGENT_REPLY_BYTES_MAX),
                (limits, "world_bytes_max", 64 << 20),
                (limits, "exchange_value_bytes_max",
                 _wire.EXCHANGE_VALUE_BYTES_MAX),
                (limits, "exchange_key_bytes_max",
                 _wire.EXCHANGE_KEY_BYTES_MAX),
                (limits, "store_key_bytes_max", _wire.STORE_KEY_BYTES_MAX),
                (limits, "store_value_bytes_max", _wire.STORE_VALUE_BYTES_MAX),
                (limits, "stderr_tail_bytes", _wire.REASON_BYTES_MAX),
                (limits, "step_max", _wire.STEP_MAX)):
            self.assertEqual(number(path, name), ours, name)
        with open(os.path.join(PROJECT, "CMakeLists.txt"),
                  encoding="utf-8") as f:
            version = re.search(r"project\(rollcall VERSION (\S+)", f.read())[1]
        self.assertEqual(rollcall.__version__, version)

    def test_types(self):
        mypy = [sys.executable, "-m", "mypy"]
        if subprocess.run([*mypy, "--version"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode != 0:
            if shutil.which("mypy") is None:
                self.skipTest("NOT TESTED: there is no mypy here; the Debian "
                              "package is called mypy")
            mypy = ["mypy"]
        checked = subprocess.run(
            [*mypy, "--cache-dir", os.devnull], cwd=PACKAGE, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(checked.returncode, 0, checked.stdout)


class Alone(unittest.TestCase):
    """A process that was not started by an agent."""

    def test_is_a_world_of_one(self):
        self.assertNotIn("ROLLCALL_SOCKET", os.environ)
        with rollcall.attach() as rank:
            self.assertTrue(rank.alone)
            self.assertEqual((rank.world.rank, rank.world.size), (0, 1))
            self.assertEqual(rank.world.local_size, 1)
            self.assertEqual(rank.exchange("k", "v"), [b"v"])
            rank.progress(1, 0.5, steps=2)
            rank.saved(1)
            rank.check()
            self.assertEqual((rank.notice, rank.aborted, rank.lost),
                             (None, None, None))
            with self.assertRaises(rollcall.Lost):
                rank.next_world()

    def test_wrong_arguments(self):
        rank = rollcall.attach()
        for key, value in (("", b""), ("k" * 129, b""), ("a\nb", b""),
                           ("caf\xe9", b""), ("k", b"v" * 4097), ("k", 3)):
            with self.assertRaises(ValueError):
                rank.exchange(key, value)
        for variables in (
                {}, {"LOCAL_RANK": "-1"}, {"LOCAL_RANK": "64"},
                {"LOCAL_RANK": "0", "ROLLCALL_GENERATION": "x"}):
            said = subprocess.run(
                [PYTHON, "-c", "import rollcall; rollcall.attach()"],
                env={**os.environ, **ENVIRONMENT, **variables,
                     "ROLLCALL_SOCKET": "/no/such"},
                stderr=subprocess.PIPE, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn("ValueError", said.stderr)
        said = subprocess.run(
            [PYTHON, "-c", "import rollcall; rollcall.attach()"],
            env={**os.environ, **ENVIRONMENT, "LOCAL_RANK": "0",
                 "ROLLCALL_SOCKET": "/no/such"},
            stderr=subprocess.PIPE, text=True)
        self.assertRegex(said.stderr, "rollcall.errors.Lost: no agent answers "
                         "on /no/such: .*start the agent first")


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
        launcher, worker, (kept, _) = self.elastic("--nodes", "1:2")
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
