"""Floods of a daemon while a job runs, and what they must not change."""
import errno
import resource
import select
import socket
import time

import harness
import wire
from guarded import Guarded

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

    def attend(self, name):
        """Attends as an agent that sends nothing more by itself."""
        agent = self.dial(deadline_s=harness.DEADLINE_S).open()
        agent.say(wire.hello(wire.Join(self.text), name))
        self.assertIsNotNone(agent.welcome(), agent.ended)
        return agent
