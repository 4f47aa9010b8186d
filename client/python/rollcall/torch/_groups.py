"""How the default group of torch.distributed is made again in the next world,
and how a thread that waits in one of its collectives is freed."""

import contextlib
import os
import random
import re
import socket
import stat
from datetime import timedelta
from typing import Any, Dict, Iterator, List, Tuple, Type

import torch

from .._rank import Rank
from .._store import LocalStore
from .._store import Store as KeyValueStore
from . import Store, dist


class Groups:
    """The default group, one world after the other."""

    def __init__(self, rank: Rank) -> None:
        self._store = Store(rank)

    def handle(self) -> str:
        """What the other ranks need from this one to connect to it."""
        return ""

    def join(self, rank: Rank, handles: List[str], timeout: timedelta) -> None:
        """Connects the ranks of the world. `handles`: of all of them, by rank.
        The training thread calls it."""
        raise NotImplementedError

    def free(self) -> None:
        """A group of this process alone takes the place of the one that all
        had: collectives that wait end, and later ones do no harm. The watcher's
        thread calls it, at most once in a world."""
        raise NotImplementedError


class InPlace(Groups):
    """PyTorch 2.14 and newer form a Gloo group again in place."""

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        before = set(_epolls())
        dist.init_process_group(
            "gloo", store=self._store, rank=rank.world.rank,
            world_size=rank.world.size, enable_reconfigure=True)
        # By which Gloo waits for its connections, and for new ones. Another
        # thread may have opened an epoll descriptor meanwhile.
        self._epolls = [(epoll, listening) for epoll in _epolls()
                        if epoll not in before
                        for listening in _listening(epoll)]

    def handle(self) -> str:
        return str(dist._get_reconfigure_handle())

    def join(self, rank: Rank, handles: List[str], timeout: timedelta) -> None:
        self._store.use(rank.store)
        dist._reconfigure(uuid=rank.world.generation, handles=handles,
                          timeout=timeout).wait()

    def free(self) -> None:
        self._store.use(KeyValueStore(LocalStore()))
        # To form the group again is not enough: a collective that waits for a
        # peer whose machine is gone, or stands still, would wait on.
        for epoll, listening in self._epolls:
            _end_connections(epoll, listening)
        # Gloo takes no uuid twice, and those of worlds are small numbers.
        dist._reconfigure(
            uuid=random.getrandbits(62) | 1 << 62,
            handles=[dist._get_reconfigure_handle()]).wait()


def _epolls() -> List[str]:
    """The epoll descriptors of this process."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == "anon_inode:[eventpoll]":
                found.append(number)
        except OSError:
            pass  # It was the one of this listing.
    return found


def _listening(epoll: str) -> List[int]:
    """The inodes of the sockets that listen, of those that this descriptor
    watches."""
    found = []
    with _watched(epoll) as watched:
        found += [inode for inode, one in watched.items() if _listens(one)]
    return found


def _end_connections(epoll: str, listening: int) -> None:
    """Shuts down the sockets that this epoll descriptor watches, other than those
    that listen: their owner sees the end of each, as if the peer had closed it.
    Does nothing if the number is another descriptor's by now: one that does not
    watch the socket with the inode `listening`."""
    with _watched(epoll) as watched:
        for one in watched.values() if listening in watched else ():
            try:
                if not _listens(one):
                    one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # Not connected any more.


def _listens(one: socket.socket) -> bool:
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) != 0


@contextlib.contextmanager
def _watched(epoll: str) -> Iterator[Dict[int, socket.socket]]:
    """Copies of the sockets that this epoll descriptor watches, by their inodes;
    none if it is closed, or no such descriptor any more."""
    try:
        with open(f"/proc/self/fdinfo/{epoll}", encoding="ascii") as f:
            numbers = re.findall(r"^tfd:\s*(\d+).*\bino:(\w+)", f.read(), re.M)
    except OSError:
        numbers = []
    with contextlib.ExitStack() as stack:
        found = {}
        for number, inode in numbers:
            try:
                copy = os.dup(int(number))
            except OSError:
                continue  # Closed meanwhile.
            status = os.fstat(copy)
            # The number may be another file's by now.
            if status.st_ino == int(inode, 16) and stat.S_ISSOCK(status.st_mode):
                found[status.st_ino] = stack.enter_context(
                    socket.socket(fileno=copy))
            else:
                os.close(copy)
        yield found


# Read where an NCCL group is made; a user's own values stay.
_NCCL_VARIABLES = {
    # When a peer is lost, PyTorch's watchdog would end the process.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    # An error would first wait for dumps, 60 s long (four times this), and an
    # abort for that.
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    # A communicator that is not connected yet can be aborted.
    "TORCH_NCCL_USE_COMM_NONBLOCKING": "1",
}


class Replaced(Groups):
    """PyTorch 2.5 and newer can abort an NCCL group. A new one takes its place."""
    _BACKEND = "nccl"

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        for name, value in _NCCL_VARIABLES.items():
            os.environ.setdefault(name, value)

    def join(self, rank: Rank, handles: List[str], timeout: timedelta) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        self._store.use(rank.store)
        # NCCL itself connects at the first collective.
        self._make(rank.world.rank, rank.world.size)

    def free(self) -> None:
        self._store.use(KeyValueStore(LocalStore()))
        dist.distributed_c10d._abort_process_group()
        self._make(0, 1)

    def _make(self, rank: int, size: int) -> None:
        dist.init_process_group(self._BACKEND, store=self._store, rank=rank,
                                world_size=size)


def groups_over(backend: str) -> Type[Groups]:
    """Raises ValueError if the backend is none whose groups can be made again, and
    RuntimeError if this PyTorch is too old for it."""
    kinds: Dict[str, Tuple[Type[Groups], str, bool]] = {
        "gloo": (InPlace, "2.14", hasattr(dist, "_reconfigure")),
        "nccl": (Replaced, "2.5", hasattr(dist.distributed_c10d,
                                          "_abort_process_group"))}
    if backend not in kinds:
        raise ValueError('rollcall.torch.elastic: expected backend "gloo" or '
                         f'"nccl", got "{backend}"')
    kind, needed, is_able = kinds[backend]
    if not is_able:
        raise RuntimeError(
            f"rollcall.torch.elastic over {backend} needs torch {needed} or "
            f"newer, found {torch.__version__}; use "
            "rollcall.torch.init_process_group, and let rollcall start the ranks "
            "again")
    return kind


def default_backend(model: Any) -> str:
    """NCCL for a model on GPUs, Gloo for any other."""
    tensors = [] if model is None else list(model.parameters())
    return "nccl" if any(one.is_cuda for one in tensors) else "gloo"
