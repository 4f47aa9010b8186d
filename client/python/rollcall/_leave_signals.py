"""SIGTERM and SIGUSR1, by which a scheduler or a user asks a rank to leave: the
daemon answers with a notice to all ranks."""

import os
import signal
from typing import Any, Callable, Dict

from ._rank import Rank
from .world import NoticeKind


class LeaveSignals:
    """Handlers of both signals, from `__init__` to `close`, in the main thread;
    in another one, the program's handlers stay. One for SIGUSR1 that the program
    has set itself stays too.

    `saving`: whether the rank is saving for a notice; a signal is then ignored.
    The handler raises SystemExit if the world has ended.
    """

    def __init__(self, rank: Rank, saving: Callable[[], bool]) -> None:
        self._rank, self._saving, self._pid = rank, saving, os.getpid()
        self._handlers: Dict[int, Any] = {}
        for number in (signal.SIGTERM, signal.SIGUSR1):
            if number == signal.SIGUSR1 and (
                    signal.getsignal(number) != signal.SIG_DFL):
                continue
            try:
                self._handlers[number] = signal.signal(number, self._on_signal)
            except ValueError:
                pass  # Not the main thread.

    def close(self) -> None:
        """In the thread that made it."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def _on_signal(self, number: int, _: Any) -> None:
        if os.getpid() != self._pid:
            # In a forked child, which is no rank.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self._saving():
            return
        if self._rank.aborted is not None or self._rank.lost is not None:
            raise SystemExit(128 + number)
        notice = self._rank.notice
        # A drain or a preemption says already that ranks are to leave; a notice
        # for newcomers does not.
        if notice is None or notice.kind == NoticeKind.GROW:
            self._rank.leave()
