"""PyTorch over rollcall: a store for torch.distributed, and a process group that
begins with it.

    from rollcall.torch import init_process_group

    rank = init_process_group("gloo")      # instead of torch.distributed's own

The process attaches to its agent, and its group meets in the key-value store of
the generation: no TCPStore, no MASTER_ADDR, and nothing to lose with the first
rank. Without an agent it is a world of one.
"""

import os
from datetime import timedelta
from typing import Any, List, Optional, Sequence, Union

import torch.distributed

from .. import errors
from .._attach import attach, current, refuse_alone
from .._rank import Rank
from .._store import Store as KeyValueStore
from .._store import bytes_of

dist: Any = torch.distributed
_TIMEOUT = timedelta(minutes=5)
# With "1", Gloo asks a store that can (has_extended_api) for the addresses of all
# ranks at once, and not for one after the other. What it asks for is the same,
# so that each rank may have it or not.
_GLOO_READS_AT_ONCE = "GLOO_ENABLE_STORE_V2_API"
# PyTorch takes a RuntimeError for a time-out, to say who is missing.
_TimedOut: Any = getattr(dist, "DistStoreError", RuntimeError)


class Store(dist.Store):
    """The key-value store of the generation (`Rank.store`) as PyTorch's C++ and
    Python know a store. It is gone with the generation: make another one in the
    next world.

    `rank`: what `rollcall.attach` returned; by default, attaches. `timeout`: of
    `get` and `wait`, which then raise DistStoreError (torch 1: RuntimeError).
    Any thread may call any function. rollcall.Aborted: the generation has
    ended. Sets GLOO_ENABLE_STORE_V2_API=1 in this process's environment, unless
    it is set: groups over Gloo are made faster.
    """

    # Groups of this process meet in it.
    _for_groups = True

    def __init__(self, rank: Optional[Rank] = None,
                 timeout: timedelta = _TIMEOUT) -> None:
        super().__init__()
        self.set_timeout(timeout)
        self._rank = rank or current() or attach()
        self._store = self._rank.store
        # C++ keeps its own part of this object, and not the Python part, without
        # which it cannot call it.
        self._rank.keep(self)
        if self._for_groups:
            os.environ.setdefault(_GLOO_READS_AT_ONCE, "1")

    def use(self, store: KeyValueStore) -> None:
        """From now on it is that store."""
        self._store = store

    @property
    def rank(self) -> Rank:
        return self._rank

    def set(self, key: str, value: Union[str, bytes]) -> None:
        self._store.set(key, _bytes(value))

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def add(self, key: str, amount: int) -> int:
        return self._store.add(key, amount)

    def compare_set(self, key: str, expected: Union[str, bytes],
                    desired: Union[str, bytes]) -> bytes:
        return self._store.compare_set(key, _bytes(expected), _bytes(desired))

    def wait(self, keys: Sequence[str],
             timeout: Optional[timedelta] = None) -> None:
        seconds = (self.timeout if timeout is None else timeout).total_seconds()
        try:
            self._store.wait(list(keys), seconds)
        except errors.TimedOut as error:
            raise _TimedOut(str(error)) from error

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check(list(keys))

    def multi_get(self, keys: Sequence[str]) -> List[bytes]:
        try:
            return self._store.multi_get(list(keys),
                                         self.timeout.total_seconds())
        except errors.TimedOut as error:
            raise _TimedOut(str(error)) from error

    def multi_set(self, keys: Sequence[str],
                  values: Sequence[Union[str, bytes]]) -> None:
        self._store.multi_set(dict(zip(keys, map(_bytes, values))))

    def append(self, key: str, value: Union[str, bytes]) -> None:
        """Adds to the end of the value, which is empty if there is none."""
        self._store.append(key, _bytes(value))

    def delete_key(self, key: str) -> bool:
        return self._store.delete(key)

    def num_keys(self) -> int:
        return self._store.num_keys()

    def clone(self) -> "Store":
        clone = type(self)(self._rank, self.timeout)
        clone.use(self._store)
        return clone

    def has_extended_api(self) -> bool:
        """`append`, `multi_get` and `multi_set`."""
        return True

    # What C++ calls, by its own names.
    # pylint: disable=invalid-name
    deleteKey = delete_key
    getNumKeys = num_keys


def _bytes(value: Any) -> bytes:
    if isinstance(value, (list, tuple)):  # torch 1 passes a list of numbers.
        return bytes(value)
    return bytes_of("a value", value)


def init_process_group(backend: Optional[str] = None,
                       timeout: Optional[timedelta] = None,
                       **options: Any) -> Rank:
    """torch.distributed.init_process_group with all ranks of the world that this
    process is in. `backend`: None is PyTorch's default (torch 1 has none).
    `timeout`: of collectives and of the store; None is PyTorch's default for
    collectives. `options` go to it as they are; not `init_method`, `store`,
    `rank` and `world_size`, which come from the world. In the next world, call
    it again. Returns the rank.
    """
    for name in ("init_method", "store", "rank", "world_size"):
        if name in options:
            raise ValueError(f"init_process_group: {name} comes from the world; "
                             "leave it out")
    if backend is not None:
        options["backend"] = backend
    if timeout is not None:
        options["timeout"] = timeout
    rank = current() or attach()
    refuse_alone(rank)
    dist.init_process_group(
        store=Store(rank, _TIMEOUT if timeout is None else timeout),
        rank=rank.world.rank, world_size=rank.world.size, **options)
    return rank
