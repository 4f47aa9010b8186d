"""The one connection between this process and its agent.

A thread of its own reads the socket, so that where-am-I is answered, and an
abort is heard, while the main thread is stuck (in a collective that releases
the interpreter's lock). A caller writes its message itself if the kernel takes
it at once; otherwise the thread writes it later. Of each kind other than
requests only the latest unsent message is kept, so nothing grows.

It does not redial: a connection that has ended means that the agent is gone, or
has ended it and said why.
"""

import errno
import itertools
import os
import select
import signal
import socket
import struct
import threading
import time
import weakref
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Sequence, Tuple

from . import errors
from ._collectives import Counter
from ._monitor import Monitor
from ._wire import FrameReader, Message, WireError, Writer
from .world import (Abort, Notice, World, parse_abort, parse_notice,
                    parse_world)

# RankMessage.
HELLO, PROGRESS, STOPPED, NOTICE_SEEN = 1, 2, 3, 4
LEAVE, HERE, FINISHED, EXCHANGE = 6, 7, 8, 9
STORE, GIVES_UP, SAVED = 10, 11, 12
# AgentReply.
_WORLD, _ABORT, _NOTICE, _WHERE, _EXCHANGED, _END = 1, 2, 3, 4, 5, 6
_STORED = 7

_PIECE_BYTES = 64 << 10
# The longest message that a caller writes itself. The kernel takes a message of
# this length whole or not at all (it splits one that is longer than half of the
# socket's buffer). So a signal handler that raises or sends, between any two
# lines, never leaves half a frame.
_AT_ONCE_BYTES_MAX = 4 << 10
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
# How long `close` waits for the agent to read what still waits.
_GOODBYE_S = 0.2

Where = Callable[[], Optional[Tuple[int, int]]]
# Makes the request with this number.
Make = Callable[[int], Writer]


class Connection:
    """Any thread may call any function."""

    def __init__(self, path: str, hello: Writer,
                 timeout: Optional[float]) -> None:
        """Connects and sends the hello. errors.Lost: nothing listens."""
        self.collectives = Counter()
        # Notified of all that comes from the agent, and of the end.
        self.news = Monitor()
        # Guarded by the lock of `news`.
        self.world: Optional[World] = None
        self.notice: Optional[Notice] = None
        self.abort: Optional[Abort] = None
        self.ended: Optional[errors.Error] = None
        self.answers: Dict[int, Optional[Message]] = {}
        self._numbers = itertools.count(1)
        self._first: Deque[Tuple[int, bytes]] = deque()
        self._waiting: Dict[int, bytes] = {}
        # The rest of a frame that is written in part. As long as there is one,
        # only the thread writes.
        self._outgoing = b""
        self._closing: Optional[float] = None
        self._where: Optional[Where] = None
        self._on_over: Optional[Callable[[], None]] = None
        self._over_of = 0

        # Of the thread alone.
        self._reader = FrameReader()

        self._socket = self._connect(path, timeout)
        # One end wakes the thread at the other.
        self._wake_thread, self._wake_reader = socket.socketpair()
        for end in (self._socket, self._wake_thread, self._wake_reader):
            end.setblocking(False)
        self._first.append((0, _frame(HELLO, hello)))
        self._thread = threading.Thread(target=self._run, daemon=True,
                                        name="rollcall")
        _open.add(self)
        try:
            self._thread.start()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _connect(path: str, timeout: Optional[float]) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The socket option, since Python's own timeout makes the socket
            # non-blocking, and that fails at once while the agent is busy.
            if timeout is not None:
                connected.setsockopt(
                    socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                    struct.pack("ll", *_seconds_and_microseconds(timeout)))
            connected.connect(path)
        except BlockingIOError as error:
            connected.close()
            raise errors.TimedOut(f"the agent on {path} took no connection "
                                  f"within {timeout:g} s") from error
        except OSError as error:
            connected.close()
            raise errors.Lost(f"no agent answers on {path}: {error}; start "
                              "the agent first") from error
        return connected

    # --- What callers use -----------------------------------------------------

    def send(self, kind: int, message: Writer) -> None:
        """Never blocks. Replaces one of its kind that still waits."""
        frame = _frame(kind, message)
        with self.news.lock:
            if self.ended is not None or self._closing is not None:
                return
            if not self._write_at_once(frame):
                self._waiting[kind] = frame
                self._wake_up()

    def ask(self, kind: int, makes: Sequence[Make]) -> List[int]:
        """Sends exchanges or operations on the store, under the numbers that
        this returns; their answers come into `answers`."""
        with self.news.lock:
            if self.ended is not None:
                raise self.ended
            frames = []
            for make in makes:
                number = next(self._numbers)
                frames.append((number, _frame(kind, make(number))))
                self.answers[number] = None
            self._request(frames)
        return [number for number, _ in frames]

    def forget(self, number: int, gives_up: bool = False) -> None:
        """No one waits for this answer any more; `gives_up`: tell the agent if
        it is still to come."""
        with self.news.lock:
            if self.answers.pop(number, None) is not None:
                return
            # To an agent that does not read, nothing piles up.
            waiting = len(self._first)
            self._first = deque(one for one in self._first
                                if one[0] != number)
            if gives_up and len(self._first) == waiting and (
                    self.ended is None and self._closing is None):
                self._request(
                    [(0, _frame(GIVES_UP, Writer().uint(1, number)))])

    def _request(self, frames: List[Tuple[int, bytes]]) -> None:
        if not self._write_at_once(b"".join(frame for _, frame in frames)):
            self._first.extend(frames)
            self._wake_up()

    def _write_at_once(self, data: bytes) -> bool:
        """With the lock held. False: it has to wait for others that wait, or
        for the agent to read."""
        if (self._outgoing or self._first or self._waiting
                or len(data) > _AT_ONCE_BYTES_MAX):
            return False
        try:
            sent = self._socket.send(data, _NO_SIGNAL)
        except BlockingIOError:
            return False
        except OSError:
            return True  # As in _write.
        if sent < len(data):
            self._outgoing = data[sent:]
            self._wake_up()
        return True

    def wait(self, holds: Callable[[], bool], timeout: Optional[float],
             what: str, began: Optional[float] = None) -> None:
        """Waits until holds() or the connection has ended; errors.TimedOut
        when `timeout` seconds have passed since `began` (time.monotonic();
        default: now)."""
        left = timeout
        if timeout is not None and began is not None:
            left = began + timeout - time.monotonic()
        if not self.news.await_true(
                lambda: holds() or self.ended is not None, left):
            raise errors.TimedOut(f"{what} within {timeout:g} s")
        if not holds() and self.ended is not None:
            raise self.ended

    def when_over(self, generation: int,
                  on_over: Optional[Callable[[], None]]) -> None:
        with self.news.lock:
            self._on_over, self._over_of = on_over, generation
            over = self._take_on_over()
        if over is not None:
            over()

    def when_asked(self, where: Optional[Where]) -> None:
        with self.news.lock:
            self._where = where

    def close(self) -> None:
        """Sends what still waits, and ends the connection."""
        with self.news.lock:
            if self._closing is None:
                self._closing = time.monotonic() + _GOODBYE_S
            self._wake_up()
        if self._thread.is_alive() and (
                threading.current_thread() is not self._thread):
            self._thread.join()

    # --- The thread -----------------------------------------------------------

    def _wake_up(self) -> None:
        """Wakes the thread; with the lock held, as the thread closes its end."""
        if self.ended is not None:
            return
        try:
            self._wake_thread.send(b"x")
        except OSError:
            pass  # Wake-ups are already unread.

    def _run(self) -> None:
        # Signals are for the main thread: Ctrl-C has to interrupt what it
        # waits in.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ended: errors.Error = errors.Lost("the agent ended the connection")
        try:
            reason = self._serve()
            ended = reason if reason is not None else ended
        except WireError as error:
            ended = errors.Error(f"from the agent: {error}", "INTERNAL")
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EPIPE):
                ended = errors.Lost(f"the agent ended the connection: {error}")
        except Exception as error:  # pylint: disable=broad-except
            ended = errors.Error(f"a bug of rollcall's package: {error!r}",
                                 "INTERNAL")
        finally:
            self._finish(ended)

    def _serve(self) -> Optional[errors.Error]:
        """Until the end; why, if the agent said it."""
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        half_closed = False
        while True:
            with self.news.lock:
                closing = self._closing
                if not self._outgoing:
                    self._outgoing = self._next_frame()
            if closing is not None and not self._outgoing and not half_closed:
                half_closed = True
                self._socket.shutdown(socket.SHUT_WR)
            left_ms = None
            if closing is not None:
                left_ms = (closing - time.monotonic()) * 1000
                if left_ms <= 0:
                    return None
            poll.register(self._socket, select.POLLIN
                          | (select.POLLOUT if self._outgoing else 0))
            ready = dict(poll.poll(left_ms))
            if ready.get(self._wake_reader.fileno()):
                try:
                    self._wake_reader.recv(_PIECE_BYTES)
                except BlockingIOError:
                    pass
            if not ready.get(self._socket.fileno()):
                continue
            reason, over = self._read()
            if over:
                return reason
            self._write()

    def _next_frame(self) -> bytes:
        if self._first:
            return self._first.popleft()[1]
        if self._waiting:
            # FINISHED, after which a process sends nothing, has the highest
            # number of these.
            return self._waiting.pop(min(self._waiting))
        return b""

    def _write(self) -> None:
        if not self._outgoing:
            return
        try:
            sent = self._socket.send(self._outgoing, _NO_SIGNAL)
        except BlockingIOError:
            return
        except OSError:
            # The agent does not read any more. What it said before is read
            # next, and then the end.
            sent = len(self._outgoing)
        self._outgoing = self._outgoing[sent:]

    def _read(self) -> Tuple[Optional[errors.Error], bool]:
        """(Why the agent ends the connection, whether it has ended.)"""
        try:
            piece = self._socket.recv(_PIECE_BYTES)
        except BlockingIOError:
            return None, False
        if not piece:
            return None, True
        self._reader.add(piece)
        while True:
            reply = self._reader.next()
            if reply is None:
                break
            if reply.has(_END):
                return _end_of(reply.message(_END)), True
            self._take(reply)
        # Once for all that came together, so that waiting threads wake once.
        with self.news.lock:
            on_over = self._take_on_over()
            self.news.notify_all()
        _call(on_over)
        return None, False

    def _take(self, reply: Message) -> None:
        if reply.has(_WHERE):
            self._answer_where(reply.message(_WHERE).uint(1))
            return
        with self.news.lock:
            if reply.has(_WORLD):
                self.world = parse_world(reply.message(_WORLD))
            elif reply.has(_ABORT):
                self.abort = parse_abort(reply.message(_ABORT))
            elif reply.has(_NOTICE):
                self.notice = parse_notice(reply.message(_NOTICE))
            elif reply.has(_EXCHANGED) or reply.has(_STORED):
                answer = reply.message(
                    _EXCHANGED if reply.has(_EXCHANGED) else _STORED)
                if answer.uint(1) in self.answers:
                    self.answers[answer.uint(1)] = answer

    def _answer_where(self, generation: int) -> None:
        with self.news.lock:
            where = self._where
        here = Writer().uint(1, generation)
        try:
            seen = None if where is None else where()
            if seen is not None:
                here.uint(2, seen[0], always=True).uint(3, seen[1], always=True)
            elif where is None:
                begun = self.collectives.since_first_step()
                if begun is not None:
                    here.uint(2, begun, always=True)
        except BaseException:  # pylint: disable=broad-except
            # A program's mistake must not cost the connection.
            here = Writer().uint(1, generation)
        self.send(HERE, here)

    def _take_on_over(self) -> Optional[Callable[[], None]]:
        over = self.ended is not None or (
            self.abort is not None
            and self.abort.generation >= self._over_of)
        if not over:
            return None
        on_over, self._on_over = self._on_over, None
        return on_over

    def _finish(self, ended: errors.Error) -> None:
        with self.news.lock:
            if self._closing is not None:
                # The program closed it: the function is not called.
                if type(ended) is errors.Lost:
                    ended = errors.Lost(
                        "this process has closed the connection")
                self._on_over = None
            self.ended = ended
            for end in (self._socket, self._wake_thread, self._wake_reader):
                end.close()
            _open.discard(self)
            on_over = self._take_on_over()
            self.news.notify_all()
        _call(on_over)

    # --- fork -----------------------------------------------------------------

    def leave_to_parent(self) -> None:
        """In a forked child (a data loader): the connection is the parent's.
        The agent sees the end of the last copy only, so this one is closed."""
        for end in (self._socket, self._wake_thread, self._wake_reader):
            end.close()
        # Another thread of the parent may have held their locks.
        self.news, self.collectives = Monitor(), Counter()
        self._on_over = None
        self.ended = errors.Lost(
            "this process was forked from a rank and is none itself; only the "
            "rank may talk to its agent")


_open: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for connection in list(_open):
        connection.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


def _seconds_and_microseconds(timeout: float) -> Tuple[int, int]:
    """At least a microsecond: zero is for ever."""
    microseconds = max(1, int(timeout * 1e6))
    return microseconds // 1_000_000, microseconds % 1_000_000


def _frame(kind: int, message: Writer) -> bytes:
    return Writer().message(kind, message).frame()


def _call(on_over: Optional[Callable[[], None]]) -> None:
    if on_over is None:
        return
    try:
        on_over()
    except BaseException:  # pylint: disable=broad-except
        pass  # A program's mistake must not cost the connection.


def _end_of(end: Message) -> errors.Error:
    code, why = end.uint(1), end.text(2)
    name = errors.CODES.get(code, "UNAVAILABLE")
    if name in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED",
                "FAILED_PRECONDITION", "ABORTED"):
        return errors.Refused(why, name)
    return errors.Lost(why)
