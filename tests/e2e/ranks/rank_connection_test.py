"""Tests a Python rank's connection against a fake agent: messages stay whole,
whatever happens while they are sent."""
import os
import signal
import socket
import sys
import tempfile
import threading
import unittest

from rank_python_test import PACKAGE

sys.path.insert(0, PACKAGE)

# pylint: disable=wrong-import-position
from rollcall import errors  # noqa: E402
from rollcall._connection import (EXCHANGE, HELLO, LEAVE,  # noqa: E402
                                  PROGRESS, Connection)
from rollcall._wire import FrameReader, Writer  # noqa: E402

DEADLINE_S = 60
# More than a socket's buffer holds.
LARGE = 1 << 20
ABORT = 2  # The kind's number in AgentReply.


class Agent:
    """A fake agent that reads and sends only when the test tells it to."""

    def __init__(self, path):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            self.connection = Connection(path, Writer(), DEADLINE_S)
            self.socket, _ = listener.accept()
        self.socket.settimeout(DEADLINE_S)
        self.reader = FrameReader()

    def say(self, kind, message):
        self.socket.sendall(Writer().message(kind, message).frame())

    def await_something(self):
        """Waits until there is something to read."""
        self.socket.recv(1, socket.MSG_PEEK)

    def read(self, size=1 << 16):
        """Returns the messages that the next bytes complete; None at the end of
        the connection."""
        piece = self.socket.recv(size)
        if not piece:
            return None
        self.reader.add(piece)
        found = []
        while (message := self.reader.next()) is not None:
            found.append(message)
        return found

    def read_until(self, holds):
        found = []
        while not holds(found):
            more = self.read()
            if more is None:
                raise AssertionError(f"the end came after {len(found)} messages")
            found += more
        return found


def data(size):
    return lambda number: Writer().uint(1, number).data(4, b"x" * size)


class Connections(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.agent = Agent(os.path.join(folder.name, "socket"))
        self.connection = self.agent.connection
        self.addCleanup(self.agent.socket.close)
        [hello] = self.agent.read_until(len)
        self.assertTrue(hello.has(HELLO))

    def fill(self):
        """Sends a message only in part, because the agent does not read."""
        [number] = self.connection.ask(EXCHANGE, [data(LARGE)])
        self.agent.await_something()
        return number

    def test_nothing_comes_between_the_parts_of_a_message(self):
        """No message of this thread, another thread or a forked child
        interrupts another."""
        asked = [self.fill()]
        others = threading.Thread(target=lambda: asked.extend(
            self.connection.ask(EXCHANGE, [data(LARGE), data(10)])))
        others.start()
        others.join()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.connection.send(LEAVE, Writer())
                self.connection.ask(EXCHANGE, [data(10)])
            except errors.Lost:
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        found, steps = [], 0
        while len(found) < 200:
            # There is room again, and the thread sends what is left.
            asked += self.connection.ask(EXCHANGE, [data(100)])
            steps += 1
            self.connection.send(PROGRESS, Writer().uint(2, steps))
            found += self.agent.read(8 << 10)
        found += self.agent.read_until(lambda more: [
            m for m in found + more if m.has(PROGRESS)][-1:] and max(
                m.message(PROGRESS).uint(2) for m in found + more
                if m.has(PROGRESS)) == steps)
        self.assertEqual([m.message(EXCHANGE).uint(1) for m in found
                          if m.has(EXCHANGE)], asked)
        self.assertEqual({len(m.message(EXCHANGE).data(4)) for m in found
                          if m.has(EXCHANGE)}, {10, 100, LARGE})
        self.assertFalse([m for m in found if m.has(LEAVE)])
        # Only the latest progress needs to be sent, but the order must be kept.
        told = [m.message(PROGRESS).uint(2) for m in found if m.has(PROGRESS)]
        self.assertEqual(told, sorted(told))

    def test_an_abort_is_heard_while_a_message_waits(self):
        number, over = self.fill(), threading.Event()
        self.connection.when_over(3, over.set)
        self.agent.say(ABORT, Writer().uint(1, 3).text(3, "why"))
        self.assertTrue(over.wait(DEADLINE_S))
        self.assertEqual(self.connection.abort.reason, "why")
        # A caller that waits for an answer gets an error at the end.
        self.agent.socket.close()
        with self.assertRaises(errors.Lost):
            self.connection.wait(
                lambda: self.connection.answers[number] is not None,
                DEADLINE_S, "no answer")

    def test_a_handler_of_a_signal_may_raise_and_send(self):
        class Interrupted(Exception):
            pass

        def interrupt(*_):
            self.interrupts += 1
            self.connection.send(LEAVE, Writer())
            if self.interrupts % 2 and self.asks:
                self.asks = False
                raise Interrupted

        self.interrupts, self.asks, reads = 0, False, []
        end = 1 << 40

        def read():
            try:
                reads.append(self.agent.read_until(lambda more: any(
                    m.message(PROGRESS).uint(2) == end for m in more
                    if m.has(PROGRESS))))
            except BaseException as error:  # pylint: disable=broad-except
                reads.append(error)
        reader = threading.Thread(target=read)
        reader.start()
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        asked, size = [], 0
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while self.interrupts < 400 and not reads:
            size = (size + 7919) % (LARGE // 2)
            # While messages are waiting, a caller's message is queued and not
            # written by the caller itself.
            while (self.connection._outgoing or self.connection._first) and (
                    not reads):
                os.sched_yield()
            try:
                self.asks = True
                asked += self.connection.ask(EXCHANGE, [data(size)])
                asked += self.connection.ask(EXCHANGE, [data(size % 500)])
                self.asks = False
            except Interrupted:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.connection.send(PROGRESS, Writer().uint(2, end))
        reader.join()
        self.assertIsInstance(reads[0], list, reads[0])
        # Each request that was not interrupted was sent exactly once.
        numbers = [m.message(EXCHANGE).uint(1) for m in reads[0]
                   if m.has(EXCHANGE)]
        self.assertEqual(len(numbers), len(set(numbers)))
        self.assertLessEqual(set(asked), set(numbers))


if __name__ == "__main__":
    unittest.main()
