"""attach: makes this process a rank of a run."""

import atexit
import os
import socket
import threading
import time
import weakref
from typing import Optional

from . import _wire
from ._connection import Connection
from ._rank import ATTACHED, Rank
from ._wire import Writer
from .world import world_of_one

_RANKS_PER_NODE_MAX = 64

_lock = threading.Lock()
_attached: Optional[Rank] = None
_attached_elastic = False


def _forget_lock() -> None:
    """In a forked child: another thread of the parent may have held it."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def attach(elastic: bool = False, timeout: Optional[float] = None) -> Rank:
    """Makes this process a rank of the agent that the environment names, and
    waits until the world is known, at most `timeout` seconds.

    `elastic`: the process stays alive over a change of world (`next_world`).
    Without it the agent stops the process instead, and a new one is started.

    Without ROLLCALL_SOCKET there is no agent: the process is a world of one. A
    second call returns the same Rank, while that one is not closed.

    ValueError: a variable has a value that no agent sets, or the process that
    started this one is the rank. Lost: the agent is
    gone. Refused: it does not take this process, and says why. TimedOut.
    """
    global _attached, _attached_elastic  # pylint: disable=global-statement
    with _lock:
        if _attached is not None and _attached.lost is None:
            if elastic != _attached_elastic:
                raise ValueError("attach: this process has attached already, "
                                 f"with elastic={_attached_elastic}")
            return _attached
        rank = _attach(elastic, timeout)
        _attached, _attached_elastic = rank, elastic
        return rank


def current() -> Optional[Rank]:
    """What `attach` returned in this process; None: it was not called, or the
    connection has ended."""
    rank = _attached
    return rank if rank is not None and rank.lost is None else None


def refuse_alone(rank: Rank) -> None:
    """ValueError: this process has no agent, and another program has started it
    as one of several ranks. Each would train alone."""
    size = os.environ.get("WORLD_SIZE", "")
    if rank.alone and size.isdecimal() and int(size) > 1:
        raise ValueError(
            f"WORLD_SIZE is {size}, but this process has no agent of rollcall "
            "(ROLLCALL_SOCKET is not set), so each rank would train alone; start "
            "the script by `rollcall launch -- python ...`, not by torchrun")


def _attach(elastic: bool, timeout: Optional[float]) -> Rank:
    path = os.environ.get("ROLLCALL_SOCKET", "")
    if not path:
        return Rank(None, world_of_one(socket.gethostname()))
    local_rank = _number("LOCAL_RANK", _RANKS_PER_NODE_MAX - 1)
    place = f":{local_rank}:{path}"
    _check_no_child_of_the_rank(place)
    # An agent that started no process has set none.
    generation = (_number("ROLLCALL_GENERATION", (1 << 64) - 1)
                  if "ROLLCALL_GENERATION" in os.environ else 0)
    rank = attach_to(path, local_rank, generation, elastic, timeout)
    os.environ[ATTACHED] = f"{os.getpid()}{place}"
    # What the last lines of a program sent goes out.
    atexit.register(_close_at_exit, weakref.ref(rank))
    return rank


def attach_to(path: str, local_rank: int = 0, generation: int = 0,
              elastic: bool = True, timeout: Optional[float] = None) -> Rank:
    """As `attach`, to the agent with this socket and with nothing of the
    environment; the caller closes it. `generation`: for which the process was
    started; 0: for none."""
    hello = (Writer().uint(1, local_rank).uint(2, os.getpid())
             .uint(3, generation).uint(5, int(elastic))
             .uint(6, _wire.VERSION))
    began = time.monotonic()
    connection = Connection(path, hello, timeout)
    try:
        connection.wait(lambda: connection.world is not None, timeout,
                        f"no world came from the agent on {path}", began)
        world = connection.world
    except BaseException:
        connection.close()
        raise
    assert world is not None
    return Rank(connection, world)


def _check_no_child_of_the_rank(place: str) -> None:
    """A data loader's process, say, that runs the whole script again would take
    the place of the rank that started it."""
    attached = os.environ.get(ATTACHED, "")
    rank = attached[:-len(place)]
    if not attached.endswith(place) or not rank.isdigit() or (
            int(rank) == os.getpid()):
        return
    try:
        os.kill(int(rank), 0)
    except ProcessLookupError:
        return
    except PermissionError:
        pass
    raise ValueError(
        f"attach: process {rank}, which is this rank, has started this process "
        f"({os.getpid()}); only one of them can be the rank. Call attach under "
        'if __name__ == "__main__", or unset ' + ATTACHED)


def _close_at_exit(rank: "weakref.ref[Rank]") -> None:
    alive = rank()
    if alive is not None:
        alive.close()


def _number(name: str, most: int) -> int:
    text = os.environ.get(name, "")
    if text.isascii() and text.isdigit() and int(text) <= most:
        return int(text)
    raise ValueError(
        f"{name}={text!r}: expected a number of at most {most}, as "
        "ROLLCALL_SOCKET is set; start this process by `rollcall launch` or "
        "`rollcall join`, or set LOCAL_RANK yourself for an agent with "
        "--attach")
