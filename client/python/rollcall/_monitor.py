"""Monitor: a lock, and waits for what it guards, that a signal's handler may
interrupt at any moment.

`threading.Condition` cannot be interrupted safely. An exception from a handler
(Ctrl-C) between two lines of its `__enter__` leaves it locked, and one between two
lines of its `wait` lets its `with` release a lock that is not held. And a signal
that comes after Python has looked for signals, and before the system call that
waits, is not handled until that call returns.
"""

import threading
import time
from typing import Callable, Optional, Set

# A signal that came just before a wait began is handled after this time at the
# latest. There is no event to await: Python keeps the signal to itself.
_LOOK_S = 0.5


class Monitor:
    """Any thread may call any function."""

    def __init__(self) -> None:
        # Take it only by `with`: Python runs no signal handler between taking the
        # lock and the block, or between the block and the release. Reentrant,
        # because the handler of a signal may run while its thread holds the lock.
        self.lock = threading.RLock()
        # Guarded by `lock`. A lock in it is held, and released to wake its thread.
        self._waiting: Set[threading.Lock] = set()

    def notify_all(self) -> None:
        """With `lock` held: all threads that wait look again."""
        while self._waiting:
            self._waiting.pop().release()

    def await_true(self, holds: Callable[[], bool],
                   timeout: Optional[float] = None) -> bool:
        """Waits, with `lock` not held, until holds() is true, at most `timeout`
        seconds; returns whether it is. `holds` is called with `lock` held, first
        at once and then after each `notify_all`."""
        until = None if timeout is None else time.monotonic() + timeout
        wake = threading.Lock()
        try:
            while True:
                with self.lock:
                    if holds():
                        return True
                    wake.acquire(blocking=False)
                    self._waiting.add(wake)
                left = _LOOK_S
                if until is not None:
                    left = min(left, until - time.monotonic())
                if left <= 0:
                    return False
                wake.acquire(timeout=left)
        finally:
            with self.lock:
                self._waiting.discard(wake)
