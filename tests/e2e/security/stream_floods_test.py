"""Tests floods of streams while a job runs."""
import ssl
import struct
import threading

import wire
from crowds import Crowds, GROWTH_MAX
from wire import Stranger


class StreamFloods(Crowds):
    def coming_and_going(self, count, first=1):
        """Returns what opens `count` streams from number `first` on and resets
        each at once, as cheaply as HTTP/2 allows: the peer keeps the first
        request's headers in its table, and later requests refer to them by
        index."""
        def remembered(name, value):
            return b"\x40" + wire.header(name, value)[1:]
        headers = wire.request("/rollcall.v1.Membership/Attend")
        known = bytes(0x80 | 62 + i for i in reversed(range(len(headers))))
        block = b"".join(remembered(*pair) for pair in headers)
        flood = []
        for number in range(first, first + 2 * count, 2):
            flood.append(wire.frame(wire.HEADERS, wire.END_HEADERS, number,
                                    block))
            flood.append(wire.frame(wire.RST_STREAM, 0, number,
                                    struct.pack(">I", wire.CANCEL)))
            block = known
        return b"".join(flood)

    def disturb(self, pour, times):
        """Calls `pour` with new connections in four threads, `times` times in
        each. The daemon may close a connection at any time."""
        done, failed = [], []

        def repeat():
            for _ in range(times):
                try:
                    client = self.client()
                    with client.socket:
                        done.append(pour(client))
                except ssl.SSLCertVerificationError as error:
                    failed.append(error)
                except (ConnectionError, ssl.SSLError) as error:
                    done.append(error)
                except Exception as error:
                    failed.append(error)
        workers = [threading.Thread(target=repeat) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(0.1)
                self.assertLess(self.memory() - self.memory_before, GROWTH_MAX)
        self.assertEqual((failed, len(done)), ([], 4 * times))
        self.assert_undisturbed()
        self.goes_on()

    def setUp(self):
        super().setUp()
        self.trust = wire.pinned(wire.Join(self.text).pin, self.port)

    def client(self):
        return Stranger(self.port, trust=self.trust).shake()

    def test_streams_that_come_and_go(self):
        flood = wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0)
        flood += self.coming_and_going(37000)  # About one megabyte.

        def pour(client):
            client.socket.sendall(flood)
            client.rest()
        self.disturb(pour, 1)

    def test_streams_on_ever_new_connections(self):
        # Each connection is gone before the daemon hears of its first call.
        flood = wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0)
        flood += self.coming_and_going(3300)

        def pour(client):
            client.socket.sendall(flood)
        self.disturb(pour, 20)

    def test_many_connections_that_send_streams_at_once(self):
        # Each makes a call first, so that the daemon knows it. They stay open
        # until all send.
        flood = self.coming_and_going(3300, first=3)
        opened = self.open  # They are closed at the end of the test.

        def open_some():
            for _ in range(7):
                try:
                    opened.append(self.client().open())
                except (ConnectionError, ssl.SSLError):
                    pass  # A newer connection has displaced it.

        def pour_some(callers):
            for caller in callers:
                caller.socket.settimeout(0.02)
                try:
                    caller.socket.sendall(flood)
                except (OSError, ssl.SSLError):
                    pass  # The daemon reads no more, or has disconnected it.
        opening = [threading.Thread(target=open_some) for _ in range(16)]
        for each in opening:
            each.start()
        for each in opening:
            each.join()
        self.assertGreater(len(opened), 32)
        pouring = [threading.Thread(target=pour_some, args=(opened[i::16],))
                   for i in range(16)]
        for each in pouring:
            each.start()
        for each in pouring:
            each.join()
        self.assert_undisturbed()
        # The daemon has heard its nodes all the time.
        self.assertEqual(self.logged("isolated"), [])
        self.goes_on()

    def test_a_viewers_streams_that_come_and_go(self):
        viewer = wire.Join(self.token("--role", "viewer")["join"]).bearer()
        flood = self.coming_and_going(70000, first=3)  # Nearly 2 MiB.

        def pour(client):
            client.open("/rollcall.v1.Admin/Status", viewer)
            client.say(b"").half_close()
            self.assertIsNotNone(client.message())
            client.socket.sendall(flood)
            client.rest()
        self.disturb(pour, 1)

    def test_streams_that_say_nothing(self):
        # The daemon ends streams without a Hello after a time limit.
        callers = [self.dial().open() for _ in range(100)]
        self.assert_undisturbed()
        for caller in callers:
            self.assertNotEqual(caller.end(), wire.OK)
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
