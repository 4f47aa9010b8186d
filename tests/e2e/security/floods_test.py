"""Tests floods of connections and bytes while a job runs."""
import os
import socket
import struct
import time
import zlib

import wire
from crowds import Crowds, POURED_MAX
from wire import Stranger


class Floods(Crowds):
    def test_five_thousand_that_say_nothing(self):
        crowd = self.connect(5000, sources=6)
        self.assert_undisturbed()
        self.await_hung_up(crowd)
        self.assert_undisturbed()
        counted = self.counted()
        self.assertEqual(counted["silent"] + counted["crowded"], 5000, counted)
        self.assertEqual(counted["garbage"], 0)
        self.goes_on()

    def test_many_of_one_address(self):
        # The daemon closes connections of that address to accept new ones from
        # it; other addresses lose none.
        crowd = self.connect(3000, sources=1)
        self.assert_undisturbed()
        self.await_hung_up(crowd)
        counted = self.counted()
        self.assertEqual(counted["silent"] + counted["crowded"], 3000, counted)
        self.assertGreaterEqual(counted["crowded"], 1000)
        self.goes_on()

    def test_a_thousand_that_send_garbage(self):
        crowd = self.connect(1000, sources=4)
        # No TLS record starts with this byte.
        self.say(crowd, lambda: b"\x7f" + os.urandom(400))
        self.assert_undisturbed()
        self.await_hung_up(crowd)
        self.assertEqual(self.counted()["garbage"], 1000)
        self.goes_on()

    def test_a_thousand_that_begin_well(self):
        # The clients send the first bytes of a handshake, then garbage.
        crowd = self.connect(1000, sources=4)
        begin = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        self.say(crowd, lambda: begin + os.urandom(506))
        self.assert_undisturbed()
        self.await_hung_up(crowd)
        self.goes_on()

    def test_many_of_one_address_that_stop_halfway(self):
        # The clients send the first bytes of a handshake and nothing more.
        # Other clients must not wait for them.
        crowd = self.connect(3000, sources=1)
        self.say(crowd, lambda: b"\x16\x03\x01\x02\x00\x01")
        self.assert_undisturbed()
        self.await_hung_up(crowd)
        self.assert_undisturbed()
        self.goes_on()

    def test_a_gigabyte_of_garbage(self):
        plain = Stranger(self.port)
        self.open.append(plain)
        # Only what fits into the buffers of the two sockets can be sent.
        self.assertLess(self.pour(plain.socket.sendall, b"\x7f" * (1 << 20)),
                        POURED_MAX)
        wrapped = self.dial().shake()
        self.assertLess(self.pour(wrapped.socket.sendall, os.urandom(1 << 20)),
                        POURED_MAX)
        self.assert_undisturbed()
        self.goes_on()

    def test_a_message_of_a_gigabyte(self):
        # The client does nothing else wrong.
        caller = self.dial().open()
        size, block = 1 << 30, b"x" * Stranger.FRAME_MAX
        sent = caller.send(b"\0" + struct.pack(">I", size))
        while caller.ended is None and sent < size:
            sent += caller.send(block)
        self.assertLess(sent, POURED_MAX)
        self.assertNotEqual(caller.end(), wire.OK)
        self.assert_undisturbed()
        self.assertEqual(self.counted()["unknown"], 1)
        self.goes_on()

    def test_a_compressed_message(self):
        # 130 KB that unpack to 128 MiB are sent to each service by a client
        # without a credential, and once with a viewer's token.
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = packer.compress(bytes(128 << 20)) + packer.flush()
        self.assertLess(len(bomb), 140 << 10)
        viewer = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        before = self.memory()
        for path, bearer in (("/rollcall.v1.Membership/Attend", None),
                             ("/rollcall.v1.Admin/Status", None),
                             ("/rollcall.v1.Admin/Status", viewer),
                             ("/rollcall.v1.Admin/Watch", viewer),
                             ("/grpc.health.v1.Health/Check", None)):
            with self.subTest(path):
                caller = self.dial().open(path, bearer, encoding="gzip")
                caller.say(bomb, compressed=True)
                self.assertNotEqual(caller.end(), wire.OK)
                self.assertLess(self.memory() - before, 32 << 20)
        self.goes_on()

    def test_a_viewers_message_of_a_gigabyte(self):
        viewer = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        caller = self.dial()
        # The client first behaves as a proper viewer.
        caller.open("/rollcall.v1.Admin/Watch", viewer).say(b"")
        self.assertIsNotNone(caller.message())
        caller.call(3, "/rollcall.v1.Admin/Status", viewer)
        self.assertLess(self.pour_message(caller, 3), POURED_MAX)
        self.assert_undisturbed()
        self.goes_on()

    def pour_message(self, agent, stream, between=lambda: None):
        """Starts a message of 4 GiB that is otherwise correct, and calls
        `between` after each frame. Returns how many bytes were sent until the
        daemon closed the connection."""
        block = b"x" * Stranger.FRAME_MAX
        # With sendall, a write fails after the end even if the window has room.
        agent.raw = agent.socket.sendall
        sent = agent.send(b"\0" + struct.pack(">I", 0xffffffff), stream)
        while sent < 1 << 30:
            try:
                more = agent.send(block, stream)
                if more:
                    between()
            except TimeoutError:
                raise
            except OSError:
                return sent
            if agent.ended == "closed":
                return sent
            agent.ended = None  # A single stream of the connection may end.
            sent += more
        return sent

    def test_an_agents_message_of_a_gigabyte(self):
        status = "/rollcall.v1.Admin/Status"
        fake = self.attend("fake1")
        self.assertLess(self.pour_message(fake, 1), POURED_MAX)
        fake = self.attend("fake2")
        fake.call(3, status)
        self.assertLess(self.pour_message(fake, 3), POURED_MAX)
        # Whole messages on stream 1 do not excuse bytes on stream 3, whatever
        # method stream 3 calls. If gRPC took the method for a unary one, the
        # daemon would not know of stream 3.
        for number, path in enumerate((
                status, "/rollcall.v1.Admin/Watch",
                "/grpc.health.v1.Health/Check")):
            with self.subTest(path):
                fake = self.attend(f"fake3{number}")
                fake.call(3, path)
                self.assertLess(self.pour_message(
                    fake, 3, lambda: fake.say(wire.HEARTBEAT)), POURED_MAX)
        self.assert_undisturbed()
        self.goes_on()

    def test_a_twin_of_an_agents_connection(self):
        # Two connections from the same address and port, to two addresses of
        # the daemon's machine, have the same name for gRPC.
        def connected(to, source):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(source)
            one.connect((to, self.port))
            return one
        one = connected("127.0.0.1", ("127.0.0.1", 0))
        fake = self.dial(connected=one).open()
        fake.say(wire.hello(wire.Join(self.text), "fake"))
        self.assertIsNotNone(fake.welcome(), fake.ended)
        twin = connected("127.0.0.2", fake.socket.getsockname())
        with self.assertRaises(OSError):
            self.dial(connected=twin).shake()
        fake.call(3, "/rollcall.v1.Admin/Status")
        self.assertLess(self.pour_message(
            fake, 3, lambda: fake.say(wire.HEARTBEAT)), POURED_MAX)
        self.assert_undisturbed()
        self.goes_on()

    def deaf(self, bytes_max=1 << 30):
        """Returns a client that has shown a worker's token, and then reads
        nothing. It has sent settings of `bytes_max` bytes in all, or until gRPC
        read no more of them. The daemon's acknowledgements wait for it; gRPC reads nothing
        while 10,000 of them do."""
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        one.connect(("127.0.0.1", self.port))
        deaf = self.dial(connected=one).open()
        deaf.introduce(wire.Join(self.text), "deaf")
        settings = 300 * wire.frame(wire.SETTINGS, 0, 0, struct.pack(
            ">HI", wire.INITIAL_WINDOW, 65535))
        sent = 0
        while sent < bytes_max and not self.stays_unread(deaf):
            deaf.socket.sendall(settings)
            sent += len(settings)
        return deaf

    def stays_unread(self, client):
        """Whether the daemon reads nothing of a client for 0.3 s, though there
        is something to read."""
        until = time.monotonic() + 0.3
        while self.unread(client):
            if time.monotonic() > until:
                return True
        return False

    def unread(self, client):
        """Returns how many bytes of a client the daemon has not read."""
        ours = f"{client.socket.getsockname()[1]:04X}"
        for path in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    _, here, there, _, queues = line.split()[:5]
                    if (here.endswith(f":{self.port:04X}")
                            and there.endswith(f":{ours}")):
                        return int(queues.split(":")[1], 16)
        return 0

    def test_pings_to_a_peer_that_does_not_read(self):
        for _ in range(6):
            deaf = self.deaf(240 << 10)
            deaf.socket.settimeout(1)
            self.pour(deaf.socket.sendall,
                      400 * wire.frame(wire.PING, 0, 0, b"12345678"), 270 << 10)
        self.assert_undisturbed()
        self.gate.open()
        # The daemon's end does not wait for them either; it would for 30 s.
        self.assert_code(self.launcher, 0, 20)
        self.ends()

    def test_an_end_that_grpc_does_not_read(self):
        def descriptors():
            return len(os.listdir(f"/proc/{self.daemon_pid()}/fd"))
        before = descriptors()
        for _ in range(5):
            self.deaf().socket.shutdown(socket.SHUT_WR)
        self.assertGreaterEqual(descriptors(), before + 5)
        self.ask_until(lambda: descriptors() <= before,
                       "the end of these connections")
        self.assert_undisturbed()
        self.goes_on()

    def test_an_evicted_agents_connection(self):
        fake = self.attend("fake")
        # A call that the agent never ends keeps gRPC's connection open.
        fake.call(3, "/rollcall.v1.Admin/Status")
        evicted = self.rollcall("evict", "fake", "--job", self.job)
        self.assertEqual(evicted.code, 0, evicted.text())
        self.assertEqual(fake.end(), wire.PERMISSION_DENIED)
        # It answers pings, so the daemon has no other reason to close.
        while fake._next() is not None:
            pass
        self.goes_on()

    def test_a_gigabyte_that_no_window_allows(self):
        caller = self.dial().open()
        caller.raw(wire.frame(wire.DATA, 0, 1, b"\0" + struct.pack(
            ">I", 1 << 30) + b"x" * 8000))
        sent = self.pour(caller.socket.sendall,
                         wire.frame(wire.DATA, 0, 1, b"x" * 16000))
        self.assertLess(sent, 1 << 30)
        self.assert_undisturbed()
        self.goes_on()

    def test_headers_that_never_end(self):
        headers, continuation = 1, 9
        caller = self.dial().shake()
        caller.raw(wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0)
                   + wire.frame(headers, 0, 1, wire.header(":method", "POST")))
        more = wire.frame(continuation, 0, 1,
                          wire.header("x-more", "y" * 200) * 60)
        self.assertLess(self.pour(caller.socket.sendall, more, 256 << 20),
                        POURED_MAX)
        self.assert_undisturbed()
        self.goes_on()
