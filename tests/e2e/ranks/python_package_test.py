"""Tests client/python, the package rollcall, without an agent: its protobuf
code, which protoc checks, and a process that no agent has started."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from harness import PROJECT
from rank_python_test import ENVIRONMENT, PACKAGE, PYTHON

PROTO = os.path.join(PROJECT, "proto")
sys.path.insert(0, PACKAGE)

# pylint: disable=wrong-import-position
import rollcall  # noqa: E402
from rollcall import _wire, world  # noqa: E402
from rollcall._wire import FrameReader, Message, WireError, Writer  # noqa: E402


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
            (Writer().message(2, Writer().uint(1, 5).double(8, 0.0)
                              .double(9, 0.5).double(10, 3.25).uint(11, 7)),
             "progress { generation: 5 gradient_norm: 0 "
             "flops_utilization: 0.5 validation_loss: 3.25 memory_bytes: 7 }"),
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
