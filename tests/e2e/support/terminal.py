"""A pseudo-terminal, and the screen that a user would see.

The screen is from pyte (package python3-pyte); an alternate screen is added
here.
"""
import copy
import fcntl
import os
import re
import selectors
import struct
import termios

import pyte

from stage import DEADLINE_S

ALTERNATE = 1049
AUTOWRAP = pyte.modes.DECAWM
CURSOR = pyte.modes.DECTCEM


class _Screen(pyte.HistoryScreen):
    """Keeps the lines that have scrolled off, and has an alternate screen."""

    def __init__(self, columns, rows):
        super().__init__(columns, rows, history=100_000)
        self.below = None  # The main screen, if the alternate one is shown.

    def set_mode(self, *modes, **how):
        super().set_mode(*modes, **how)
        if how.get("private") and ALTERNATE in modes and self.below is None:
            self.below = (copy.deepcopy(self.buffer), copy.copy(self.cursor))

    def reset_mode(self, *modes, **how):
        super().reset_mode(*modes, **how)
        if how.get("private") and ALTERNATE in modes and self.below:
            (self.buffer, self.cursor), self.below = self.below, None

    def scrolled(self):
        return ["".join(line[x].data for x in range(self.columns)).rstrip()
                for line in self.history.top]


class Terminal:
    """A terminal on which a test starts processes. It waits with stage.pump."""

    def __init__(self, test, columns, rows=24):
        self.stage = test.stage
        self.raw = b""
        self._master, self._slave = os.openpty()
        self.name = os.ttyname(self._slave)
        os.set_blocking(self._master, False)
        self._screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._set_size(columns, rows)
        self.stage.selector.register(self._master, selectors.EVENT_READ,
                                     (self._read,))
        test.addCleanup(self._close)

    def _close(self):
        self.stage.selector.unregister(self._master)
        os.close(self._master)
        os.close(self._slave)

    def _read(self):
        try:
            data = os.read(self._master, 1 << 16)
        except BlockingIOError:
            return
        self.raw += data
        self._stream.feed(data)

    def _set_size(self, columns, rows):
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def start(self, argv, env=None):
        """Starts a process whose controlling terminal this is."""
        env = dict({"TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": None},
                   **(env or {}))
        return self.stage.start(
            ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', self.name, *argv], env)

    def resize(self, columns, rows):
        self._screen.resize(rows, columns)
        # The kernel sends SIGWINCH.
        self._set_size(columns, rows)

    def type(self, keys):
        os.write(self._master, keys)

    # --- The screen ---------------------------------------------------------

    def lines(self):
        """Returns the screen's lines, without the empty ones at the end."""
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def all_lines(self):
        """Returns the screen's lines and those that have scrolled off."""
        return self._screen.scrolled() + self.lines()

    def text(self):
        return "\n".join(self.lines())

    def alternate(self):
        return self._screen.below is not None

    def modes(self):
        """Returns (wraps, shows the cursor, echoes); shells expect all."""
        local = termios.tcgetattr(self._slave)[3]
        return (AUTOWRAP in self._screen.mode, CURSOR in self._screen.mode,
                bool(local & termios.ECHO) and bool(local & termios.ICANON))

    def column(self):
        return self._screen.cursor.x

    def await_text(self, pattern, deadline_s=DEADLINE_S):
        """Waits until the screen's text matches; returns the match."""
        try:
            return self.stage.pump(lambda: re.search(pattern, self.text()),
                                   f"/{pattern}/ on the terminal", deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- screen:\n{self.text()}\n--- "
                                 f"last bytes: {self.raw[-600:]}") from None

    def await_that(self, condition, what, deadline_s=DEADLINE_S):
        try:
            return self.stage.pump(condition, what, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- screen:\n{self.text()}\n--- "
                                 f"last bytes: {self.raw[-600:]}") from None
