"""Tests limits on connections: by network before a client authenticates, and by
file descriptors after that."""
import sys
import time

import harness
import wire
from guarded import Guarded
from harness import E2E, Gate, Lab
from wire import Stranger, hello


class Networks(Guarded):
    """Connections that have not authenticated are counted by network."""

    # Arguments: PORT COUNT FIFO. Opens connections from COUNT addresses of one
    # /64; on each, sends the first record of a TLS handshake and nothing more.
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
    # Arguments: PORT FIFO. Starts a TLS handshake from an IPv4 address, waits
    # for the FIFO and prints whether the connection is still open.
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
        # With 1,024 descriptors, 64 unauthenticated connections are allowed.
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
        # An agent is admitted while all these connections are open.
        join.endpoints = [f"127.0.0.1:{join.port()}"]
        worker = lab.start(1, [harness.ROLLCALL, "join", join.text(), "--name",
                               "four", "--", *command])
        worker.await_line("generation 1")
        # A client in the middle of its handshake keeps its connection.
        look.open()
        begun.await_line("ended|stands")
        self.assertEqual(begun.out()[-1], "stands")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)


class Descriptors(E2E):
    """A worker's token is not enough to use up a daemon's descriptors."""

    def test_a_worker_that_attends_under_many_names(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        # With 256 descriptors, 160 connections of agents are allowed.
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
            # The heartbeats keep the leases alive, also on a slow machine.
            if time.monotonic() - alive_at > 1:
                alive_at = time.monotonic()
                for fake in fakes:
                    fake.say(wire.heartbeat())
            fake = Stranger(join.port(), trust=trust, deadline_s=20)
            self.addCleanup(fake.close)
            fake.open().say(hello(join, f"fake{number}"))
            if fake.welcome() is None:
                self.assertEqual(fake.end(), wire.UNAVAILABLE)
                fake.close()
                turned_away += 1
            else:
                fakes.append(fake)
        self.assertGreater(len(fakes), 50)
        self.assertGreater(turned_away, 100)
        # An admin's calls are answered, and the journal can be written.
        for words in (["status"], ["token", "create"], ["evict", "fake0"]):
            asked = self.stage.run([harness.ROLLCALL, *words, "--job", "few"])
            self.assertEqual(asked.code, 0, asked.text())
        self.assertEqual(self.status(text)["generation"], 1)
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
