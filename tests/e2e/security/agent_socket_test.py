"""An agent's Unix socket: only its user may connect, within bounds."""
import os
import shutil
import socket
import struct
import sys

import harness
import wire
from harness import E2E, Gate

# By how much an agent's memory may grow while a rank sends an endless message.
GROWTH_MAX = 96 << 20

# An interpreter that any user may run, as in rank_user_test.
PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")


class AgentSocket(E2E):
    CONNECT = ("import socket, sys\n"
               "s = socket.socket(socket.AF_UNIX)\n"
               "try: s.connect(sys.argv[1])\n"
               "except OSError as e: print(type(e).__name__)\n"
               "else: print('connected')\n")

    def setUp(self):
        super().setUp()
        # Other users must be kept out by the agent's folder, not by this one.
        os.chmod(self.stage.path("run"), 0o755)

    def connect(self, path, *before):
        tried = self.stage.run([*before, PYTHON, "-c", self.CONNECT, path],
                               cwd="/")
        self.assertEqual(tried.code, 0, tried.text())
        return tried.out()

    def check(self, env):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET.; "
                                    f"cat {gate.path}"], env)
        path = launcher.await_line(r"at=(\S+)\.$")[1]
        folder = os.stat(os.path.dirname(path))
        self.assertEqual(folder.st_mode & 0o777, 0o700)
        self.assertEqual(folder.st_uid, os.geteuid())
        self.assertEqual(self.connect(path), ["connected"])
        if os.geteuid() == 0:
            nobody = ["setpriv", "--reuid", "65534", "--regid", "65534",
                      "--clear-groups"]
            self.assertEqual(self.connect(path, *nobody), ["PermissionError"])
            # Control: that user can connect to a socket that is open to all.
            open_path = self.stage.path("open")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(open_path)
                os.chmod(open_path, 0o777)
                listener.listen()
                self.assertEqual(self.connect(open_path, *nobody),
                                 ["connected"])
        else:
            print("notice: not root, so no other user has tried the socket",
                  file=sys.stderr)
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_message_of_a_gigabyte(self):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET. "
                                    f"pid=$PPID.; cat {gate.path}"])
        path, agent = launcher.await_line(r"at=(\S+)\. pid=(\d+)\.").groups()
        before = harness.resident_bytes(agent)
        rank = wire.RankSocket(path)
        sent = rank.send(struct.pack(">I", 1 << 30))
        piece = b"x" * (64 << 10)
        while sent < 1 << 29 and (more := rank.send(piece)):
            sent += more
        self.assertLess(sent, 1 << 29)
        self.assertEqual(rank.end()[0], wire.RESOURCE_EXHAUSTED)
        self.assertLess(harness.resident_bytes(agent) - before, GROWTH_MAX)
        rank.close()
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_key_that_the_daemon_refuses_costs_the_call_alone(self):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET "
                                    "g=$ROLLCALL_GENERATION.; "
                                    f"cat {gate.path}"])
        path, generation = launcher.await_line(
            r"at=(\S+) g=(\d+)\.").groups()
        rank = wire.RankSocket(path).hello()
        self.assertEqual(rank.next()[0], 1)  # Kind 1 is the world.
        for request, key, code in ((1, b"a\nb", wire.INVALID_ARGUMENT),
                                   (2, b"k", None)):
            rank.say(wire.field(9, wire.field(1, request)
                                + wire.field(2, int(generation))
                                + wire.field(3, key)
                                + wire.field(4, b"value")))
            kind, answer = rank.next()
            self.assertEqual(kind, 5)
            answer = dict(wire.fields(answer))
            self.assertEqual(answer[1], request)
            self.assertEqual(answer.get(2), code)
            if code is None:
                # The request reads all ranks' values; there is only this one.
                self.assertEqual(answer[4], b"value")
        rank.close()
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_rank_of_another_version_is_told(self):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET.; "
                                    f"cat {gate.path}"])
        path = launcher.await_line(r"at=(\S+)\.$")[1]
        rank = wire.RankSocket(path).hello(version=7)
        code, why = rank.end()
        self.assertEqual(code, wire.FAILED_PRECONDITION)
        self.assertIn("version 7", why)
        rank.close()
        gate.open()
        self.assert_code(launcher, 0)

    def test_in_the_runtime_folder(self):
        self.check({})

    def test_where_there_is_none(self):
        self.check({"XDG_RUNTIME_DIR": None})
