"""Tests floods of connections, bytes and streams while a job runs."""
import errno
import os
import resource
import select
import socket
import struct
import threading
import time
import zlib

import harness
import wire
from guarded import Guarded
from wire import Stranger

# By how much a daemon's memory may grow in a flood. A part of this is data that
# clients may have queued (limits.h), the rest is gRPC's memory and heap
# overhead.
GROWTH_MAX = 96 << 20
# The daemon closes the connection at 4 MiB, but only when its watching thread
# runs. On a busy machine it had read 27 MB by then. Its memory matters more
# (GROWTH_MAX). The whole message would be 1 GiB.
POURED_MAX = 64 << 20


class Crowds(Guarded):
    """The job loses no node and no time, and a new node is admitted."""

    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE,
                        (soft, hard))
        self.open = []
        self.addCleanup(self.close_all)
        self.begin()
        self.port = wire.Join(self.text).port()
        self.memory_before = self.memory()

    def close_all(self):
        for each in self.open:
            each.close()
        self.open.clear()

    def memory(self):
        return harness.resident_bytes(self.daemon_pid())

    def connect(self, count, sources):
        """Opens `count` connections from `sources` loopback addresses."""
        new = []
        for i in range(count):
            one = socket.socket()
            one.bind((f"127.0.0.{2 + i % sources}", 0))
            one.setblocking(False)
            if one.connect_ex(("127.0.0.1", self.port)) not in (
                    0, errno.EINPROGRESS):
                self.fail("cannot connect")
            new.append(one)
        self.open += new
        return new

    def say(self, connections, data):
        """Sends `data()` on each connection as soon as it is connected."""
        poll = select.poll()
        left = {one.fileno(): one for one in connections}
        for one in connections:
            poll.register(one, select.POLLOUT)
        while left:
            for fd, _ in poll.poll(harness.DEADLINE_S * 1000):
                left[fd].send(data())
                poll.unregister(fd)
                del left[fd]

    def await_hung_up(self, connections, deadline_s=harness.DEADLINE_S):
        """Waits until the daemon has closed all these connections."""
        poll, left = select.poll(), {}
        for one in connections:
            left[one.fileno()] = one
            poll.register(one, select.POLLIN | select.POLLHUP)
        until = time.monotonic() + deadline_s
        while left:
            ready = poll.poll(max(0, until - time.monotonic()) * 1000)
            self.assertTrue(ready, f"{len(left)} are still open")
            for fd, _ in ready:
                try:
                    if left[fd].recv(1 << 16):
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                poll.unregister(fd)
                del left[fd]

    def assert_undisturbed(self):
        """Checks that no node is lost, that the leases of all nodes except
        fakes are renewed, and that the daemon admits a new node."""
        name = f"new{len(self.admitted)}"
        self.let_in([self.text], name=name)
        state = self.status(self.text)
        self.assertEqual((state["state"], state["generation"]), ("running", 1))
        # Each node has renewed its lease of 5 s.
        self.ask_until(
            lambda: all(node["lease_ms"] > 2500
                        for node in self.status(self.text)["nodes"]
                        if not node["node"].startswith("fake")),
            "whole leases")
        self.assertLess(self.memory() - self.memory_before, GROWTH_MAX)

    def counted(self):
        """Returns how many connections were closed, by reason."""
        return self.status(self.text)["unauthenticated"]

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

    def pour(self, send, block, bytes_max=1 << 30):
        """Sends `block` again and again until the daemon closes the connection
        or `bytes_max` is reached; returns the number of bytes sent."""
        sent = 0
        while sent < bytes_max:
            try:
                send(block)
            except OSError:
                return sent
            sent += len(block)
        return sent

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

    def attend(self, name):
        """Attends as an agent that sends nothing more by itself."""
        agent = self.dial(deadline_s=harness.DEADLINE_S).open()
        agent.say(wire.hello(wire.Join(self.text), name))
        self.assertIsNotNone(agent.welcome(), agent.ended)
        return agent

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
        """Returns a client that has made a call, and then reads nothing. It has
        sent settings of `bytes_max` bytes in all, or until gRPC read no more of
        them. The daemon's acknowledgements wait for it; gRPC reads nothing
        while 10,000 of them do."""
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        one.connect(("127.0.0.1", self.port))
        deaf = self.dial(connected=one).open("/grpc.health.v1.Health/Check")
        # Before its first call a client may send only a little.
        self.assertEqual(deaf.say(b"").half_close().end(), wire.OK)
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

    def test_an_agents_calls_that_come_and_go(self):
        fake = self.attend("fake")
        request = wire.request("/rollcall.v1.Membership/Attend")
        flood = b"".join(
            wire.headers(3 + 2 * i, request)
            + wire.frame(wire.RST_STREAM, 0, 3 + 2 * i,
                         struct.pack(">I", wire.CANCEL)) for i in range(1000))
        fake.raw(flood)
        self.assertIsNone(fake.rest())
        # The reason is not that the daemon lost the node.
        self.assertEqual(self.counted()["unknown"], 1)
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

    def test_watches_of_one_viewer(self):
        # One viewer cannot use up all watches.
        viewer = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        for number in range(33):
            caller = self.dial().open("/rollcall.v1.Admin/Watch", viewer)
            caller.say(b"").half_close()
            if number < 32:
                self.assertIsNotNone(caller.message(), caller.ended)
            else:
                self.assertEqual(caller.end(), wire.RESOURCE_EXHAUSTED)
        other = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        caller = self.dial().open("/rollcall.v1.Admin/Watch", other)
        caller.say(b"").half_close()
        self.assertIsNotNone(caller.message(), caller.ended)
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

    def test_streams_that_come_and_go(self):
        # Streams are opened and reset at once, as cheaply as HTTP/2 allows: the
        # peer keeps the first request's headers in its table, and later
        # requests refer to them by index.
        def remembered(name, value):
            return b"\x40" + wire.header(name, value)[1:]
        headers = wire.request("/rollcall.v1.Membership/Attend")
        first = b"".join(remembered(*pair) for pair in headers)
        again = bytes(0x80 | 62 + i for i in reversed(range(len(headers))))
        flood = wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0) + b"".join(
            wire.frame(wire.HEADERS, wire.END_HEADERS, 1 + 2 * i,
                       again if i else first)
            + wire.frame(wire.RST_STREAM, 0, 1 + 2 * i,
                         struct.pack(">I", wire.CANCEL))
            for i in range(37000))  # The flood is about one megabyte.

        def pour(caller):
            try:
                caller.socket.sendall(flood)
            except OSError:
                pass  # The daemon has closed the connection.
        callers = [self.dial().shake() for _ in range(8)]
        threads = [threading.Thread(target=pour, args=(caller,))
                   for caller in callers]
        for thread in threads:
            thread.start()
        self.assert_undisturbed()
        for thread in threads:
            thread.join()
        self.assert_undisturbed()
        self.goes_on()

    def test_streams_that_say_nothing(self):
        # The daemon ends streams without a Hello after a time limit.
        callers = [self.dial().open() for _ in range(100)]
        self.assert_undisturbed()
        for caller in callers:
            self.assertNotEqual(caller.end(), wire.OK)
        self.goes_on()
