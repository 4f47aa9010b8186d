"""Crowds at the door while a job runs, and where that door is."""
import errno
import os
import resource
import select
import socket
import struct
import sys
import threading
import time
import zlib

import harness
import wire
from guarded import Guarded
from harness import E2E, Gate, Lab
from wire import Stranger

# What a daemon may grow by, whatever strangers do: what they may have queued
# in it (limits.h) is a fraction of it, gRPC's and the heap's slack the rest.
GROWTH_MOST = 96 << 20
# The daemon hangs up at 4 MiB, as soon as its watching thread gets to run: on a
# machine that is busy with other things 27 MB had been read by then. What counts
# is its memory (GROWTH_MOST); all of it would be 1 GiB.
POURED_MOST = 64 << 20


class Crowds(Guarded):
    """The running job loses nobody and no time, and a new node gets in."""

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
        self.newcomers = 0

    def close_all(self):
        for each in self.open:
            each.close()
        self.open.clear()

    def memory(self):
        with open(f"/proc/{self.daemon_pid()}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f
                        if line.startswith("VmRSS:"))

    def come(self, count, sources):
        """`count` connections, spread over as many loopback addresses."""
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

    def say(self, connections, words):
        """`words()` on each, once it is connected."""
        poll = select.poll()
        left = {one.fileno(): one for one in connections}
        for one in connections:
            poll.register(one, select.POLLOUT)
        while left:
            for fd, _ in poll.poll(harness.DEADLINE_S * 1000):
                left[fd].send(words())
                poll.unregister(fd)
                del left[fd]

    def await_hung_up(self, connections, deadline_s=harness.DEADLINE_S):
        """Until the daemon has closed all of them."""
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
        """Now: nobody is lost, all are heard (fakes apart), and a newcomer gets
        in."""
        self.newcomers += 1
        name = f"new{self.newcomers}"
        newcomer = self.stranger([self.text], name=name)
        state = self.assert_let_in(name)
        self.assertEqual((state["state"], state["generation"]), ("running", 1))
        # Each has renewed its lease of 5 s lately.
        self.ask_until(
            lambda: all(node["lease_ms"] > 2500
                        for node in self.status(self.text)["nodes"]
                        if not node["node"].startswith("fake")),
            "whole leases")
        self.assertLess(self.memory() - self.memory_before, GROWTH_MOST)
        return newcomer

    def strangers(self):
        return self.status(self.text)["strangers"]

    def test_five_thousand_that_say_nothing(self):
        crowd = self.come(5000, sources=6)
        first = self.assert_undisturbed()
        self.await_hung_up(crowd)
        second = self.assert_undisturbed()
        counted = self.strangers()
        self.assertEqual(counted["silent"] + counted["crowded"], 5000, counted)
        self.assertEqual(counted["garbage"], 0)
        self.goes_on()
        self.assert_code(first, 0)
        self.assert_code(second, 0)

    def test_many_of_one_address(self):
        # Its own crowd makes room, and not those of others.
        crowd = self.come(3000, sources=1)
        first = self.assert_undisturbed()
        self.await_hung_up(crowd)
        counted = self.strangers()
        self.assertEqual(counted["silent"] + counted["crowded"], 3000, counted)
        self.assertGreaterEqual(counted["crowded"], 1000)
        self.goes_on()
        self.assert_code(first, 0)

    def test_a_thousand_that_send_garbage(self):
        crowd = self.come(1000, sources=4)
        # Whatever else, no TLS record begins so.
        self.say(crowd, lambda: b"\x7f" + os.urandom(400))
        first = self.assert_undisturbed()
        self.await_hung_up(crowd)
        self.assertEqual(self.strangers()["garbage"], 1000)
        self.goes_on()
        self.assert_code(first, 0)

    def test_a_thousand_that_begin_well(self):
        # A handshake's first bytes, and then garbage.
        crowd = self.come(1000, sources=4)
        begin = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        self.say(crowd, lambda: begin + os.urandom(506))
        first = self.assert_undisturbed()
        self.await_hung_up(crowd)
        self.goes_on()
        self.assert_code(first, 0)

    def test_many_of_one_address_that_stop_halfway(self):
        # A handshake's first bytes, and no more. Others do not wait for them.
        crowd = self.come(3000, sources=1)
        self.say(crowd, lambda: b"\x16\x03\x01\x02\x00\x01")
        first = self.assert_undisturbed()
        self.await_hung_up(crowd)
        second = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)
        self.assert_code(second, 0)

    def pour(self, send, block, most=1 << 30):
        """Sends `block` again and again until the daemon hangs up, or that
        much; how much it was."""
        sent = 0
        while sent < most:
            try:
                send(block)
            except OSError:
                return sent
            sent += len(block)
        return sent

    def caller(self, **settings):
        caller = Stranger(self.port, trust=wire.pinned(
            wire.Join(self.text).pin, self.port), **settings)
        self.open.append(caller)
        return caller

    def test_a_gigabyte_of_garbage(self):
        plain = Stranger(self.port)
        self.open.append(plain)
        # What fits the two sockets' buffers, and no more.
        self.assertLess(self.pour(plain.socket.sendall, b"\x7f" * (1 << 20)),
                        64 << 20)
        wrapped = self.caller().shake()
        self.assertLess(self.pour(wrapped.socket.sendall, os.urandom(1 << 20)),
                        64 << 20)
        first = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)

    def test_a_message_of_a_gigabyte(self):
        # As a client that does all else well would send it.
        caller = self.caller().open()
        size, block = 1 << 30, b"x" * Stranger.FRAME_MOST
        sent = caller.send(b"\0" + struct.pack(">I", size))
        while caller.ended is None and sent < size:
            sent += caller.send(block)
        self.assertLess(sent, 64 << 20)
        self.assertNotEqual(caller.end(), wire.OK)
        first = self.assert_undisturbed()
        self.assertEqual(self.strangers()["unknown"], 1)
        self.goes_on()
        self.assert_code(first, 0)

    def test_a_compressed_message(self):
        # 130 KB that would be 128 MiB: from a client without a credential, to
        # each service, and from one with a viewer's token.
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
                caller = self.caller().open(path, bearer, encoding="gzip")
                caller.say(bomb, compressed=True)
                self.assertNotEqual(caller.end(), wire.OK)
                self.assertLess(self.memory() - before, 32 << 20)
        self.goes_on()

    def test_a_viewers_message_of_a_gigabyte(self):
        viewer = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        caller = self.caller()
        # First as a viewer would.
        caller.open("/rollcall.v1.Admin/Watch", viewer).say(b"")
        self.assertIsNotNone(caller.message())
        caller.raw(wire.frame(wire.HEADERS, wire.END_HEADERS, 3, b"".join(
            wire.header(*pair) for pair in [
                (":method", "POST"), (":scheme", "https"),
                (":path", "/rollcall.v1.Admin/Status"),
                (":authority", "rollcall"), ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("authorization", f"Bearer {viewer}")])))
        caller.credit[3] = 65535
        size, block = 1 << 30, b"x" * Stranger.FRAME_MOST
        sent = caller.send(b"\0" + struct.pack(">I", size), 3)
        while caller.ended is None and sent < size:
            sent += caller.send(block, 3) or size
        self.assertNotEqual(caller.ended, None)
        first = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)

    def attend(self, name):
        """An agent by hand, that attends and says no more by itself."""
        agent = self.caller(deadline_s=harness.DEADLINE_S).open()
        agent.say(wire.hello(wire.Join(self.text), name))
        self.assertIsNotNone(agent.welcome(), agent.ended)
        return agent

    def call(self, agent, stream, path):
        """Another call of its connection."""
        agent.raw(wire.frame(wire.HEADERS, wire.END_HEADERS, stream, b"".join(
            wire.header(*pair) for pair in [
                (":method", "POST"), (":scheme", "https"), (":path", path),
                (":authority", "rollcall"), ("te", "trailers"),
                ("content-type", "application/grpc")])))
        agent.credit[stream] = 65535

    def pour_message(self, agent, stream, between=lambda: None):
        """Begins a message of 4 GiB, as a client that does all else well, with
        `between` after each frame; how much was sent when the daemon hung
        up."""
        block = b"x" * Stranger.FRAME_MOST
        # What is sent after the end does not count: there may be credit left.
        agent.raw = agent.socket.sendall
        sent = agent.send(b"\0" + struct.pack(">I", 0xffffffff), stream)
        while sent < 1 << 30:
            try:
                more = agent.send(block, stream)
                if more:
                    between()
            except OSError:
                return sent
            if agent.ended == "closed":
                return sent
            agent.ended = None  # Whatever becomes of one of its streams.
            sent += more
        return sent

    def test_an_agents_message_of_a_gigabyte(self):
        status = "/rollcall.v1.Admin/Status"
        fake = self.attend("fake1")
        self.assertLess(self.pour_message(fake, 1), POURED_MOST)
        fake = self.attend("fake2")
        self.call(fake, 3, status)
        self.assertLess(self.pour_message(fake, 3), POURED_MOST)
        # Whole messages of one stream do not make up for another's.
        fake = self.attend("fake3")
        self.call(fake, 3, status)
        beat = wire.frame(wire.DATA, 0, 1, wire.grpc_message(wire.HEARTBEAT))
        self.assertLess(self.pour_message(
            fake, 3, lambda: fake.raw(beat)), POURED_MOST)
        first = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)

    def test_an_agents_calls_that_come_and_go(self):
        fake = self.attend("fake")
        path = "/rollcall.v1.Membership/Attend"
        header = b"".join(wire.header(*pair) for pair in [
            (":method", "POST"), (":scheme", "https"), (":path", path),
            (":authority", "rollcall"), ("te", "trailers"),
            ("content-type", "application/grpc")])
        flood = b"".join(
            wire.frame(wire.HEADERS, wire.END_HEADERS, 3 + 2 * i, header)
            + wire.frame(wire.RST_STREAM, 0, 3 + 2 * i,
                         struct.pack(">I", wire.CANCEL)) for i in range(1000))
        fake.raw(flood)
        self.assertIsNone(fake.rest())
        # Not because its node was lost.
        self.assertEqual(self.strangers()["unknown"], 1)
        first = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)

    def test_an_evicted_agents_connection(self):
        fake = self.attend("fake")
        # A call that it never ends, so that gRPC keeps the connection.
        self.call(fake, 3, "/rollcall.v1.Admin/Status")
        evicted = self.rollcall("evict", "fake", "--job", self.job)
        self.assertEqual(evicted.code, 0, evicted.text())
        self.assertEqual(fake.end(), wire.PERMISSION_DENIED)
        # It answers pings, so that nothing else is a reason to hang up.
        while fake._next() is not None:
            pass
        self.goes_on()

    def test_watches_of_one_viewer(self):
        # One viewer cannot take all places, and others still find one.
        viewer = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        for number in range(33):
            caller = self.caller().open("/rollcall.v1.Admin/Watch", viewer)
            caller.say(b"").half_close()
            if number < 32:
                self.assertIsNotNone(caller.message(), caller.ended)
            else:
                self.assertEqual(caller.end(), wire.RESOURCE_EXHAUSTED)
        other = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        caller = self.caller().open("/rollcall.v1.Admin/Watch", other)
        caller.say(b"").half_close()
        self.assertIsNotNone(caller.message(), caller.ended)
        self.goes_on()

    def test_a_gigabyte_that_no_window_allows(self):
        caller = self.caller().open()
        caller.raw(wire.frame(wire.DATA, 0, 1, b"\0" + struct.pack(
            ">I", 1 << 30) + b"x" * 8000))
        sent = self.pour(caller.socket.sendall,
                         wire.frame(wire.DATA, 0, 1, b"x" * 16000))
        self.assertLess(sent, 1 << 30)
        first = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)

    def test_headers_that_never_end(self):
        headers, continuation = 1, 9
        caller = self.caller().shake()
        caller.raw(wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0)
                   + wire.frame(headers, 0, 1, wire.header(":method", "POST")))
        more = wire.frame(continuation, 0, 1,
                          wire.header("x-more", "y" * 200) * 60)
        self.assertLess(self.pour(caller.socket.sendall, more, 256 << 20),
                        64 << 20)
        first = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(first, 0)

    def test_streams_that_come_and_go(self):
        # Opened and reset at once, as cheaply as HTTP/2 allows: the first
        # request's headers are remembered, the others name them by number.
        def remembered(name, value):
            return b"\x40" + wire.header(name, value)[1:]
        headers = [(":method", "POST"), (":scheme", "https"),
                   (":path", "/rollcall.v1.Membership/Attend"),
                   (":authority", "rollcall"), ("te", "trailers"),
                   ("content-type", "application/grpc")]
        first = b"".join(remembered(*pair) for pair in headers)
        again = bytes(0x80 | 62 + i for i in reversed(range(len(headers))))
        flood = wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0) + b"".join(
            wire.frame(wire.HEADERS, wire.END_HEADERS, 1 + 2 * i,
                       again if i else first)
            + wire.frame(wire.RST_STREAM, 0, 1 + 2 * i,
                         struct.pack(">I", wire.CANCEL))
            for i in range(37000))  # A megabyte.

        def pour(caller):
            try:
                caller.socket.sendall(flood)
            except OSError:
                pass  # The daemon has had enough.
        callers = [self.caller().shake() for _ in range(8)]
        threads = [threading.Thread(target=pour, args=(caller,))
                   for caller in callers]
        for thread in threads:
            thread.start()
        spare = self.assert_undisturbed()
        for thread in threads:
            thread.join()
        other = self.assert_undisturbed()
        self.goes_on()
        self.assert_code(spare, 0)
        self.assert_code(other, 0)

    def test_streams_that_say_nothing(self):
        # Through the door, and no Hello: they are ended in time.
        callers = [self.caller().open() for _ in range(100)]
        first = self.assert_undisturbed()
        for caller in callers:
            self.assertNotEqual(caller.end(), wire.OK)
        self.goes_on()
        self.assert_code(first, 0)


class Networks(Guarded):
    """Connections that have not authenticated are counted by network."""

    # Opens connections from as many addresses of a /64 as it is told, each
    # with a TLS handshake that goes no further than its first record.
    ATTACK = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
hello = (b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03")
kept = []
for i in range(count):
    s = socket.socket(socket.AF_INET6)
    s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
    s.bind((f"fd88::{i + 2:x}", 0))
    s.connect(("fd88::1", port))
    s.sendall(hello)
    kept.append(s)
print("all sent", flush=True)
open(sys.argv[3]).read()
"""
    # Starts a TLS handshake from an IPv4 address, waits to be told, and looks
    # whether the connection still stands.
    AGENT = """
import select, socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03")
print("begun", flush=True)
open(sys.argv[2]).read()
ready = select.select([s], [], [], 0)[0]
print("ended" if ready else "stands", flush=True)
"""

    def test_an_ipv4_agent_beside_an_attack_from_an_ipv6_network(self):
        lab = Lab(self.stage, 1)
        self.assertEqual(lab.run(1, ["ip", "-6", "route", "add", "local",
                                     "fd88::/64", "dev", "lo"]).code, 0)
        gate, look = Gate(self.stage), Gate(self.stage)
        command = ["cat", gate.path]
        # 1,024 descriptors: room for 64 that have not authenticated.
        launcher = lab.start(1, [
            "prlimit", "--nofile=1024:1024", harness.ROLLCALL, "launch",
            "--job", "nets", "--nodes", "2", "--listen", "[::]:0", "--",
            *command])
        text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        join = wire.Join(text)
        attack = lab.start(1, [sys.executable, "-c", self.ATTACK,
                               str(join.port()), "300", gate.path])
        attack.await_line("all sent")
        begun = lab.start(1, [sys.executable, "-c", self.AGENT,
                              str(join.port()), look.path])
        begun.await_line("begun")
        # An agent gets in beside them, although all of them wait.
        join.endpoints = [f"127.0.0.1:{join.port()}"]
        worker = lab.start(1, [harness.ROLLCALL, "join", join.text(), "--name",
                               "four", "--", *command])
        worker.await_line("generation 1")
        # And one that was in the middle of its handshake keeps its connection.
        look.open()
        begun.await_line("ended|stands")
        self.assertEqual(begun.out()[-1], "stands")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)


class Descriptors(E2E):
    """Whoever holds a worker's token cannot use up a daemon's descriptors."""

    def test_a_worker_that_attends_under_many_names(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        # 256 descriptors: room for 160 agents' connections.
        launcher = self.stage.start([
            "prlimit", "--nofile=256:256", harness.ROLLCALL, "launch",
            "--no-hosts", "--job", "few", "--nodes", "2", "--grow", "never",
            "--", *command])
        text = self.join_string(launcher)
        join = wire.Join(text)
        worker = self.join(text, ["--name", "w1"], command)
        worker.await_line(r"\] up")
        trust = wire.pinned(join.pin, join.port())
        fakes = []
        turned_away = 0
        alive_at = time.monotonic()
        for number in range(300):
            # No lease ends, however slow this machine is.
            if time.monotonic() - alive_at > 1:
                alive_at = time.monotonic()
                for fake in fakes:
                    fake.say(wire.heartbeat())
            fake = Stranger(join.port(), trust=trust, deadline_s=20)
            self.addCleanup(fake.close)
            fake.open().say(wire.hello(join, f"fake{number}"))
            if fake.welcome() is None:
                self.assertEqual(fake.end(), wire.UNAVAILABLE)
                fake.close()
                turned_away += 1
            else:
                fakes.append(fake)
        self.assertGreater(len(fakes), 50)
        self.assertGreater(turned_away, 100)
        # An admin is heard, and writes to the journal.
        for words in (["status"], ["token", "create"], ["evict", "fake0"]):
            asked = self.stage.run([harness.ROLLCALL, *words, "--job", "few"])
            self.assertEqual(asked.code, 0, asked.text())
        self.assertEqual(self.status(text)["generation"], 1)
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)


# --- Where it listens ---------------------------------------------------------

def sockets_of(pid):
    """{(protocol, address, port)} of what a process listens on (TCP) or has
    bound (UDP)."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    found = set()
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        with open(f"/proc/{pid}/net/{protocol}", encoding="ascii") as f:
            rows = [line.split() for line in f][1:]
        for row in rows:
            listens = row[3] == "0A" or protocol.startswith("udp")
            if listens and row[9] in inodes:
                address, port = row[1].split(":")
                words = struct.unpack(f">{len(address) // 8}I",
                                      bytes.fromhex(address))
                packed = struct.pack(f"={len(words)}I", *words)
                family = (socket.AF_INET if len(packed) == 4
                          else socket.AF_INET6)
                found.add((protocol, socket.inet_ntop(family, packed),
                           int(port, 16)))
    return found


class Listening(Guarded):
    # NCCL's own bootstrap listens where a real one mints the ids.
    NO_NCCL = ["--nccl-lib", os.path.join(harness.BIN, "libfake_nccl.so")]

    def ours(self):
        """pid -> what it listens on, of all that the test started."""
        return {pid: sockets_of(pid)
                for pid in harness.descendants(os.getpid())
                if harness.command_line(pid)[:1] != [sys.executable]}

    def check(self, listen, expected):
        self.begin(["--listen", listen, *self.NO_NCCL])
        port = wire.Join(self.text).port()
        listening = self.ours()
        daemon = self.daemon_pid()
        self.assertEqual(listening.pop(daemon),
                         {(p, a, port) for p, a in expected})
        # Launcher, agents, guards and ranks: node rank 0 holds MASTER_PORT
        # until its rank has it, and that rank here opens none. Each agent
        # answers probes on a port.
        self.assertGreaterEqual(len(listening), 5)
        for pid, sockets in listening.items():
            if not sockets:
                continue
            self.assertIn(harness.command_line(pid)[1], ("agent", "join"))
            [(protocol, address, _)] = sockets
            self.assertEqual((protocol, address), ("tcp6", "::"))
        self.goes_on()

    def test_on_loopback(self):
        self.check("127.0.0.1:0", {("tcp", "127.0.0.1")})

    def test_on_loopback_ipv6(self):
        self.check("[::1]:0", {("tcp6", "::1")})

    def test_on_all_addresses(self):
        self.check("[::]:0", {("tcp6", "::")})

    def test_on_all_of_ipv4(self):
        self.check("0.0.0.0:0", {("tcp", "0.0.0.0")})

    def test_what_the_test_itself_sees(self):
        # The control: a listener is found, and named as it is.
        with socket.create_server(("127.0.0.1", 0)) as tcp, \
                socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp:
            udp.bind(("::1", 0))
            seen = sockets_of(os.getpid())
            self.assertIn(("tcp", "127.0.0.1", tcp.getsockname()[1]), seen)
            self.assertIn(("udp6", "::1", udp.getsockname()[1]), seen)

    def test_on_one_address_of_a_host(self):
        lab = Lab(self.stage, 2)
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--job", "one", "--nodes", "2",
            "--listen", "10.77.0.1:0", *self.NO_NCCL, "--", *command])
        text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        port = wire.Join(text).port()
        self.assertEqual(wire.Join(text).endpoints, [f"10.77.0.1:{port}"])
        worker = lab.start(2, [harness.ROLLCALL, "join", text, "--",
                               *command])
        launcher.await_line(r"\] up")
        worker.await_line(r"\] up")
        for host, expected in ((1, {("tcp", "10.77.0.1", port)}), (2, set())):
            found = set()
            for pid in lab.processes(host):
                found |= sockets_of(pid)
            # The agent answers probes.
            [probes] = [s for s in found if s[:2] == ("tcp6", "::")]
            self.assertEqual(found - {probes}, expected, f"lab{host}")
        for address in ("127.0.0.1", "fd77::1"):
            tried = lab.run(1, ["python3", "-c", "import socket\n"
                                "try: socket.create_connection("
                                f"('{address}', {port}), 5)\n"
                                "except OSError as e: print(type(e).__name__)"])
            self.assertEqual(tried.out(), ["ConnectionRefusedError"])
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)


class AgentSocket(E2E):
    """The agent's Unix socket is for its own user."""

    CONNECT = ("import socket, sys\n"
               "s = socket.socket(socket.AF_UNIX)\n"
               "try: s.connect(sys.argv[1])\n"
               "except OSError as e: print(type(e).__name__)\n"
               "else: print('connected')\n")

    def setUp(self):
        super().setUp()
        # Nothing but the agent's own folder shall keep others out.
        os.chmod(self.stage.path("run"), 0o755)

    def connect(self, path, *before):
        tried = self.stage.run([*before, "python3", "-c", self.CONNECT, path],
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
            # The control: one that is open to all.
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(self.stage.path("door"))
                os.chmod(self.stage.path("door"), 0o777)
                door.listen()
                self.assertEqual(self.connect(
                    self.stage.path("door"), *nobody), ["connected"])
        else:
            print("notice: not root, so nobody else has tried the socket",
                  file=sys.stderr)
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_message_of_a_gigabyte(self):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET. "
                                    f"pid=$PPID.; cat {gate.path}"])
        path, agent = launcher.await_line(r"at=(\S+)\. pid=(\d+)\.").groups()

        def memory():
            with open(f"/proc/{agent}/status", encoding="ascii") as f:
                return next(int(line.split()[1]) << 10 for line in f
                            if line.startswith("VmRSS:"))
        before = memory()
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        rank = Stranger(0, connected=connected).open(
            "/rollcall.v1.Rank/Exchange", plain=True)
        sent = rank.send(struct.pack(">BI", 0, 1 << 30))
        piece = b"x" * Stranger.FRAME_MOST
        while sent < 1 << 29 and (more := rank.send(piece)):
            sent += more
        self.assertIsNotNone(rank.ended)
        self.assertLess(memory() - before, GROWTH_MOST)
        connected.close()
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_key_that_the_daemon_refuses_costs_the_call_alone(self):
        gate = Gate(self.stage)
        launcher = self.launch([], ["sh", "-c", "echo at=$ROLLCALL_SOCKET "
                                    f"g=$ROLLCALL_GENERATION.; cat {gate.path}"])
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


if __name__ == "__main__":
    harness.main()
