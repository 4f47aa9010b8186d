"""Sampler: which samples the ranks take, whatever their number."""

from typing import Any, Dict, Iterator, List, Tuple

import torch


class BatchNotDone(ValueError):
    """The next batch is asked for before the last one is committed."""


class Sampler:
    """Which samples the ranks take, whatever their number: each epoch is a
    permutation of range(`length`), of which each step takes the next `batch`.
    Iterating gives this rank's share of each step's batch as a list, until
    `epochs` are over. Call `State.commit` once for each.

    A step that is done by no rank is given again, so no sample is lost and none
    doubled when the world changes. With the same `batch`, runs with other world
    sizes train on the same batches. `drop_last`: leave out the last batch of an
    epoch if it is smaller. `weight`: multiply the loss (a mean over the share) by
    it, so that the mean over the ranks is that over the batch where shares differ.
    A rank for which nothing is left gets a sample of the batch and weight 0.
    """

    def __init__(self, length: int, batch: int, epochs: int = 1, seed: int = 0,
                 shuffle: bool = True, drop_last: bool = True) -> None:
        if length < 1 or batch < 1 or epochs < 0:
            raise ValueError("Sampler: expected a length and a batch of 1 or "
                             f"more and 0 or more epochs, got {length}, {batch} "
                             f"and {epochs}")
        if drop_last and batch > length:
            raise ValueError(f"Sampler: a batch of {batch} is more than all "
                             f"{length} samples; drop_last would leave none")
        self._length, self._batch, self._epochs = length, batch, epochs
        self._seed, self._shuffle, self._drop_last = seed, shuffle, drop_last
        self._epoch = 0
        self._taken = 0  # Of this epoch, by all ranks.
        self._given = False  # A share that no commit has followed yet.
        self._place = (0, 1)
        self._order: Tuple[int, Any] = (-1, None)
        self.weight = 1.0

    @property
    def given(self) -> bool:
        """A batch was given and is not done."""
        return self._given

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self._epoch

    def settings(self) -> str:
        """What must be the same on all ranks, as text."""
        return (f"length={self._length} batch={self._batch} "
                f"epochs={self._epochs} seed={self._seed} "
                f"shuffle={self._shuffle} drop_last={self._drop_last}")

    def state(self) -> Dict[str, int]:
        """What `load` takes: where the next batch begins."""
        return {"epoch": self._epoch, "taken": self._taken}

    def load(self, state: Dict[str, int]) -> None:
        if not 0 <= state["taken"] < self._length:
            raise ValueError(f"Sampler: expected a state of {self._length} "
                             f"samples, got one that has taken {state['taken']}")
        self._epoch, self._taken = state["epoch"], state["taken"]
        self._given = False

    def enter(self, rank: int, size: int) -> None:
        """This process is that rank of so many; `run` calls it."""
        self._place = (rank, size)
        self._given = False

    def advance(self) -> None:
        """The batch that was given last is done; `State.commit` calls it."""
        self._given = False
        self._taken += self._step()
        left = self._length - self._taken
        if left < (self._batch if self._drop_last else 1):
            self._epoch, self._taken = self._epoch + 1, 0

    def __iter__(self) -> Iterator[List[int]]:
        while self._epoch < self._epochs:
            if self._given:
                raise BatchNotDone(
                    "the next batch is asked for before the last one is done: "
                    "call state.commit() once for each batch; a DataLoader with "
                    "workers, which reads ahead, cannot take it as its sampler")
            step = self._step()
            rank, size = self._place
            first, last = rank * step // size, (rank + 1) * step // size
            self.weight = (last - first) * size / step
            self._given = True
            at = self._taken
            # A rank for which nothing is left takes the batch's first one.
            begin, end = (first, last) if last > first else (0, 1)
            yield self._permutation()[at + begin:at + end].tolist()

    def _step(self) -> int:
        return min(self._batch, self._length - self._taken)

    def _permutation(self) -> Any:
        if self._order[0] != self._epoch:
            order = torch.arange(self._length)
            if self._shuffle:
                order = torch.randperm(
                    self._length, generator=torch.Generator().manual_seed(
                        self._seed * 1_000_003 + self._epoch))
            self._order = (self._epoch, order)
        return self._order[1]
