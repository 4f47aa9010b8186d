"""The Unix socket of an agent: for its own user, within bounds."""
import os
import shutil
import socket
import struct
import sys

import harness
import wire
from harness import E2E, Gate
from wire import Stranger

# What an agent's memory may grow by while a rank sends a message without end.
GROWTH_MAX = 96 << 20

# One that any user may run, as in rank_user_test.
PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")


class AgentSocket(E2E):
    CONNECT = ("import socket, sys\n"
               "s = socket.socket(socket.AF_UNIX)\n"
               "try: s.connect(sys.argv[1])\n"
               "except OSError as e: print(type(e).__name__)\n"
               "else: print('connected')\n")

    def setUp(self):
        super().setUp()
        # The agent's own folder alone keeps other users out.
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
            # The control: a socket that is open to all users.
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
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        rank = Stranger(0, connected=connected).open(
            "/rollcall.v1.Rank/Exchange", plain=True)
        sent = rank.send(struct.pack(">BI", 0, 1 << 30))
        piece = b"x" * Stranger.FRAME_MAX
        while sent < 1 << 29 and (more := rank.send(piece)):
            sent += more
        self.assertIsNotNone(rank.ended)
        self.assertLess(harness.resident_bytes(agent) - before, GROWTH_MAX)
        connected.close()
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_key_that_the_daemon_refuses_costs_the_call_alone(self):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET "
                                    "g=$ROLLCALL_GENERATION.; "
                                    f"cat {gate.path}"])
        path, generation = launcher.await_line(
            r"at=(\S+) g=(\d+)\.").groups()
        for key, code in (b"a\nb", wire.INVALID_ARGUMENT), (b"k", None):
            with socket.socket(socket.AF_UNIX) as connected:
                connected.connect(path)
                call = Stranger(0, connected=connected).open(
                    "/rollcall.v1.Rank/Exchange", plain=True)
                call.say(wire.field(1, int(generation)) + wire.field(2, key)
                         + wire.field(3, b"value")).half_close()
                if code is None:
                    # The values of all ranks: of this one.
                    self.assertEqual(call.message(),
                                     wire.field(1, b"value"))
                else:
                    self.assertEqual(call.end(), code)
        gate.open()
        self.assert_code(launcher, 0)

    def test_in_the_runtime_folder(self):
        self.check({})

    def test_where_there_is_none(self):
        self.check({"XDG_RUNTIME_DIR": None})
