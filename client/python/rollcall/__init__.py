"""rollcall: a Python process as a rank of a run.

    import rollcall

    with rollcall.attach() as rank:
        values = rank.exchange("hello", b"from me")
        for step in range(1, 101):
            rank.check()
            ...
            rank.progress(step, loss)

The agent that started the process (`rollcall launch -- python train.py`), or
beside which it runs (`rollcall join --attach`), says which world it is in.
Without an agent the process is a world of one. client/python/README.md of the
sources has more.
"""

from ._attach import attach, current
from ._rank import Rank
from ._store import Store
from .errors import Aborted, Error, Lost, Refused, TimedOut
from .world import Abort, Node, Notice, NoticeKind, StateSource, World

__version__ = "0.1.0"

__all__ = [
    "Abort", "Aborted", "Error", "Lost", "Node", "Notice", "NoticeKind",
    "Rank", "Refused", "StateSource", "Store", "TimedOut", "World", "attach", "current",
]
