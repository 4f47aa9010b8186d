"""Elastic training in PyTorch: the processes live on when others come and go.

    from rollcall.torch import elastic

    state = elastic.State(model, optimizer,
                          sampler=elastic.Sampler(len(data), batch=64), best=0.0)

    @elastic.run
    def train(state):
        model = DistributedDataParallel(state.model)
        for indices in state.sampler:          # this rank's share of a batch
            loss = criterion(model(data[indices]), labels[indices])
            (loss * state.sampler.weight).backward()
            state.commit(loss.item())          # optimizer.step(), and one step more

    train(state, backend="gloo")

When a rank is lost, or a node joins or leaves, `train` is entered again in the
next world, with the state of the rank that has most steps, which the group itself
sends. `state.model` stays the same object; wrap it inside of `train`. A step is done
by all ranks or by none.

What comes after `commit` in a step may not run, where all stop for a notice. Ask
`state.rank` and `state.size` who this is: once a world has ended, torch.distributed
says rank 0 of 1 until `train` is entered again. Catch no bare `except` in `train`.
Not for subgroups and device meshes yet (PyTorch numbers groups in each process by
itself, so that a newcomer's numbers differ), nor for models whose ranks hold
different parts.

Needs torch 2.14 or newer: there a group is re-formed in place. Seen over Gloo only.
"""

import copy
import functools
import json
import random
import signal
import sys
import threading
import time
from datetime import timedelta
from typing import (Any, Callable, Dict, Iterator, List, Optional, Tuple,
                    TypeVar)

import torch

from .. import errors
from .._rank import Rank, attach
from .._store import LocalStore
from .._store import Store as KeyValueStore
from . import Store, dist

# How long a failed collective waits for the daemon to say that the world has
# ended; longer than it takes to notice a silent loss.
_SOON_S, _PATIENCE_S = 3.0, 30.0
# Steps are reported no more often than this, and the last one in any case.
_REPORT_S = 0.05
# Said of a rank that has returned while others go on.
_RETURNED_S = 30.0

_Result = TypeVar("_Result")


class _AtBoundary(BaseException):
    """All ranks stop after this step, for a notice."""


# --- The sampler --------------------------------------------------------------


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
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self._epoch

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
        if not self._given:
            return
        self._given = False
        self._taken += self._step()
        left = self._length - self._taken
        if left < (self._batch if self._drop_last else 1):
            self._epoch, self._taken = self._epoch + 1, 0

    def __iter__(self) -> Iterator[List[int]]:
        while self._epoch < self._epochs:
            if self._given:
                raise ValueError("the next batch is asked for before the last "
                                 "one is done: call state.commit() once for "
                                 "each batch; a DataLoader with workers, which "
                                 "reads ahead, cannot take it as its sampler")
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


# --- The state ----------------------------------------------------------------


class State:
    """What training goes on from: a model; an optimizer, or a list of them; a
    sampler; a learning rate scheduler, or a list of them, which `commit` steps; a
    GradScaler, whose `step` and `update` `commit` calls in the optimizer's place;
    and plain values, which are its attributes (`State(..., best=0.0)`,
    `state.best`).

    `step`: how many are done. `rank`, `size`: of this process in the world. `state_dict` and `load_state_dict` are for
    checkpoints; load one before `run`'s function is called, on all ranks or on
    one.
    """

    _OWN = ("model", "optimizers", "sampler", "schedulers", "scaler", "step",
            "rank", "size", "_values", "_kept", "_buffers", "_buffers_kept",
            "_applied", "_committing", "_driver")

    def __init__(self, model: Any = None, optimizer: Any = None,
                 sampler: Optional[Sampler] = None, scheduler: Any = None,
                 scaler: Any = None, **values: Any) -> None:
        for name, value in values.items():
            if name in State._OWN or hasattr(State, name):
                raise ValueError(f"State: {name} is a name of its own; choose "
                                 "another one")
            if hasattr(value, "state_dict"):
                raise ValueError(f"State: {name} is no plain value; give its "
                                 "state_dict(), and load it in the function")
        self.model = model
        self.optimizers = _list_of(optimizer)
        self.sampler = sampler
        self.schedulers = _list_of(scheduler)
        self.scaler = scaler
        self.step, self.rank, self.size = 0, 0, 1
        self._committing = False
        self._values = values
        self._driver: Optional["_Driver"] = None
        # Optimizers that the training function has called itself.
        self._applied: List[Any] = []
        for one in self.optimizers:
            if hasattr(one, "register_step_pre_hook"):  # torch 2
                one.register_step_pre_hook(self._before_step)
        self.enter()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"State has no {name}; give it to "
                                 f"State(..., {name}=...)") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in State._OWN:
            object.__setattr__(self, name, value)
        else:
            self._values[name] = value

    def commit(self, loss: Optional[float] = None,
               tokens_per_second: Optional[float] = None) -> None:
        """The gradients of a step are in: applies them (`optimizer.step()`, where
        that was not called already), and counts the step. Call it once in each
        step, after `backward`; the step is reported to `rollcall status`.

        Raises what `run` catches if the world has ended: nothing is applied
        then.
        """
        if self._driver is not None:
            self._driver.check()
        self._committing = True
        try:
            left = [one for one in self.optimizers if one not in self._applied]
            self._applied.append(None)  # Torn, until all of it is done.
            for one in left:
                one.step() if self.scaler is None else self.scaler.step(one)
            if self.scaler is not None and left:
                self.scaler.update()
            for one in self.schedulers:
                one.step()
        finally:
            self._committing = False
        for one in self.optimizers:
            one.zero_grad(set_to_none=True)
        if self.sampler is not None:
            self.sampler.advance()
        self.step += 1
        self._keep()
        if self._driver is not None:
            self._driver.committed(loss, tokens_per_second)

    def state_dict(self) -> Dict[str, Any]:
        return {
            "step": self.step,
            "values": copy.deepcopy(self._values),
            "sampler": self.sampler.state() if self.sampler else None,
            "model": self.model.state_dict() if self.model is not None else None,
            "optimizers": [one.state_dict() for one in self.optimizers],
            "others": [one.state_dict() for one in self._others()],
        }

    def _others(self) -> List[Any]:
        return self.schedulers + _list_of(self.scaler)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.step = int(state["step"])
        self._values.update(copy.deepcopy(state["values"]))
        if self.sampler is not None and state["sampler"] is not None:
            self.sampler.load(state["sampler"])
        if self.model is not None:
            self.model.load_state_dict(state["model"])
        for one, saved in zip(self.optimizers, state["optimizers"]):
            one.load_state_dict(saved)
        for one, saved in zip(self._others(), state["others"]):
            one.load_state_dict(saved)
        self.enter()

    # --- A step that is not done yet ------------------------------------------

    @property
    def whole(self) -> bool:
        """No optimizer has changed anything since the last commit."""
        return not self._applied

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        """The function steps an optimizer itself."""
        if not self._committing:
            if self._driver is not None:
                self._driver.check()
            self._applied.append(optimizer)

    def enter(self) -> None:
        """A world begins; `run` calls it."""
        # What forward changes (running means), and not the weights. Walking
        # through the model at each step would cost more than the rest.
        self._buffers = [] if self.model is None else list(self.model.buffers())
        self._keep()

    def _keep(self) -> None:
        self._applied = []
        self._kept = copy.deepcopy(self._values) if self._values else {}
        self._buffers_kept = [buffer.detach().clone()
                              for buffer in self._buffers]

    def undo(self) -> None:
        """Back to the last commit. `run` calls it."""
        self._values = copy.deepcopy(self._kept)
        with torch.no_grad():
            for buffer, kept in zip(self._buffers, self._buffers_kept):
                buffer.copy_(kept)
        for one in self.optimizers:
            one.zero_grad(set_to_none=True)


def _list_of(one: Any) -> List[Any]:
    if one is None:
        return []
    return list(one) if isinstance(one, (list, tuple)) else [one]


# --- From world to world ------------------------------------------------------


def run(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Makes `function(state, ...)` elastic. Call what this returns with

    `backend`: of torch.distributed, one that can be re-formed in place ("gloo",
    the default; "nccl2" was not tried).
    `on_notice`: called with the notice on every rank at the step where all stop
    for it (a drain, a newcomer, a preemption), to save a checkpoint, say.

    Returns what `function` returned, once it has returned on all ranks. What it
    raises ends the process, but for what a world that has ended raises: then it
    is entered again. rollcall.Lost, Refused: there is no next world for this
    process. SystemExit: it was asked to end.
    """

    @functools.wraps(function)
    def enter(state: State, *arguments: Any, backend: Optional[str] = None,
              on_notice: Optional[Callable[[Any], None]] = None,
              **options: Any) -> _Result:
        driver = _Driver(state, backend, on_notice)
        try:
            return driver.run(lambda: function(state, *arguments, **options))
        finally:
            driver.close()

    return enter


class _Driver:
    """One run of a training function. The training thread steps; the watcher
    hears that a world is over, or that there is a notice, while the other one is
    stuck in a collective."""

    def __init__(self, state: State, backend: Optional[str],
                 on_notice: Optional[Callable[[Any], None]]) -> None:
        if not hasattr(dist, "_reconfigure"):
            raise RuntimeError(
                "rollcall.torch.elastic needs torch 2.14 or newer, found "
                f"{torch.__version__}; use rollcall.torch.init_process_group, "
                "and let rollcall start the ranks again")
        self._rank: Rank = attach(elastic=True)
        self._state = state
        self._backend = backend or "gloo"
        self._on_notice = on_notice
        self._store = Store(self._rank)
        self._fresh = True  # Has not been in a world.
        self._saving = False
        self._saved = 0  # In this generation.
        self._handler: Any = None
        self._reports_at = 0.0
        self._report: Callable[[], None] = lambda: None

        # Guarded by the lock.
        self._lock = threading.Lock()
        self._stepping = 0  # In this generation; 0: not now.
        self._committed = 0
        self._boundary: Tuple[int, int] = (0, 0)  # Of this generation: a step.
        self._in_commit = False
        self._returned = False  # The function has, and others have not.
        self._cut = False  # The group is, or is about to be, of this one alone.
        self._answered = 0  # This notice.
        self._answered_in = 0  # In this generation.
        self._closed = False

        # The group of this process alone has taken the place of the other one.
        self._freed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True,
                                         name="rollcall elastic")

    # --- The training thread --------------------------------------------------

    def run(self, function: Callable[[], _Result]) -> _Result:
        self._take_signals()
        world = self._rank.world
        dist.init_process_group(
            self._backend, store=self._store, rank=world.rank,
            world_size=world.size, enable_reconfigure=True)
        self._state._driver = self
        if not self._rank.alone:
            self._watcher.start()
        while True:
            try:
                self._join()
                result = function()
                self._await_all()
                return result
            except (_AtBoundary, errors.Aborted):
                pass
            except Exception as error:  # pylint: disable=broad-except
                if not self._has_ended(error):
                    raise
            self._state.undo()
            self._next_world()

    def check(self) -> None:
        """Before anything is applied. Gradients that are not those of all ranks
        come from a group without the others, and that is made only after this
        was told."""
        if self._backend != "gloo":
            torch.cuda.current_stream().synchronize()
        self._rank.check()
        if self._cut:
            raise _AtBoundary()

    def committed(self, loss: Optional[float],
                  tokens_per_second: Optional[float]) -> None:
        step = self._state.step
        with self._lock:
            self._committed, self._in_commit = step, True
        try:
            self._report = lambda: self._rank.progress(step, loss,
                                                       tokens_per_second)
            now = time.monotonic()
            if now >= self._reports_at:
                self._reports_at = now + _REPORT_S
                self._report()
            notice = self._rank.notice
            if notice is not None and step >= self._boundary_at(step):
                self._report()
                self._save_and_answer()
                raise _AtBoundary()
        finally:
            self._in_commit = False

    def _has_ended(self, error: Exception) -> bool:
        """Whether this is of the end of the world: what a collective raises whose
        peer is gone, or what follows from one that has lost the others."""
        rank = self._rank
        if rank.aborted is not None or self._cut:
            return True
        if rank.lost is not None:
            raise rank.lost from error
        if rank.alone or not isinstance(error, RuntimeError):
            return False
        try:
            # Answered once there is a daemon, which may take a while.
            rank.store.num_keys()
        except errors.Aborted:
            return True
        for patience, said in ((_SOON_S, False), (_PATIENCE_S, True)):
            if said:
                print(f"rollcall: rank {self._rank.world.rank}: {error}; waiting "
                      f"{_PATIENCE_S:g} s for the daemon to say that the world "
                      "has ended", file=sys.stderr, flush=True)
            try:
                self._rank.await_abort(patience)
                return True
            except errors.Error:
                pass
        return False

    def _await_all(self) -> None:
        """Until all ranks have returned, this one may be needed to send its
        state."""
        self._report()
        with self._lock:
            # It stands at every boundary.
            self._committed, self._returned = 1 << 60, True
        store, world = self._rank.store, self._rank.world
        if store.add("elastic/returned", 1) == world.size:
            store.set("elastic/all", "")
        while True:
            try:
                store.wait(["elastic/all"], _RETURNED_S)
                break
            except errors.TimedOut:
                print(f"rollcall: rank {world.rank} has returned after step "
                      f"{self._state.step} and waits for the others: "
                      f"{store.get('elastic/returned').decode()} of "
                      f"{world.size} have returned", file=sys.stderr, flush=True)
        with self._lock:
            self._stepping = 0

    def _next_world(self) -> None:
        if self._cut and self._rank.aborted is None:
            # Too late for a notice, and freed from a collective of the step
            # after its boundary.
            self._freed.wait()
            self._save_and_answer()
        self._rank.await_abort()
        if self._stepping != 0:
            self._freed.wait()
        with self._lock:
            self._stepping = 0
        self._rank.next_world(self._state.step, self._state.whole)

    def _save_and_answer(self) -> None:
        """At the boundary."""
        notice = self._rank.notice
        if notice is None:
            return
        if self._on_notice is not None and (
                self._saved != self._rank.world.generation):
            self._saved = self._rank.world.generation
            self._saving = True
            try:
                self._on_notice(notice)
            finally:
                self._saving = False
        self._answer(notice.number)

    def _join(self) -> None:
        """Connects all ranks of this world, and gives them one state."""
        rank, state, world = self._rank, self._state, self._rank.world
        self._freed.clear()
        self._cut = self._returned = False
        self._store.use(rank.store)
        mine = {"handle": dist._get_reconfigure_handle(),
                "step": state.step, "fresh": self._fresh, "whole": state.whole}
        all_of = [json.loads(one) for one in rank.exchange(
            "elastic/join", json.dumps(mine))]
        dist._reconfigure(
            uuid=world.generation,
            handles=[one["handle"] for one in all_of],
            # Below the time that a rank has to answer an abort.
            timeout=timedelta(seconds=8 + world.size / 50)).wait()
        with self._lock:
            self._stepping = world.generation
            self._committed = state.step
        self._ring()
        whole = [r for r in range(world.size)
                 if all_of[r]["whole"] and not all_of[r]["fresh"]]
        if not whole and not all(one["fresh"] for one in all_of):
            raise ValueError(
                "elastic: no rank has the whole state of a step: an optimizer "
                "was called, and the world ended before state.commit(); leave "
                "optimizer.step() to state.commit()")
        # All ranks decide this from the same values.
        source = max(whole or range(world.size),
                     key=lambda r: (all_of[r]["step"], -r))
        if any(one["fresh"] or not one["whole"]
               or one["step"] != all_of[source]["step"] for one in all_of):
            _send_state(state, source, world.rank == source, self._device(),
                        state.whole and not self._fresh
                        and state.step == all_of[source]["step"], self.check)
        state.rank, state.size = world.rank, world.size
        if state.sampler is not None:
            state.sampler.enter(world.rank, world.size)
        state.enter()
        self._fresh = False
        with self._lock:
            self._committed = state.step

    def _device(self) -> Any:
        """Where tensors are that the group sends."""
        if self._backend == "gloo":
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())

    # --- Notices --------------------------------------------------------------

    def _boundary_at(self, step: int) -> int:
        """The step after which all ranks stop, for whatever notices this world
        has. Who hears of the first one names the next step: as no rank can be
        further ahead of another, none is past it. `step`: what this rank has
        done."""
        generation = self._rank.world.generation
        if self._boundary[0] != generation:
            named = self._rank.store.compare_set("elastic/boundary", "",
                                                 str(step + 1))
            self._boundary = (generation, int(named))
        return self._boundary[1]

    def _answer(self, notice: int) -> None:
        with self._lock:
            if self._answered == notice:
                return
            self._answered = notice
            self._answered_in = self._rank.world.generation
        self._rank.notice_seen(self._state.step)

    # --- The watcher's thread -------------------------------------------------

    def _watch(self) -> None:
        connection = self._rank._connection
        assert connection is not None
        while True:
            with connection.changed:
                connection.changed.wait_for(lambda: self._closed or (
                    self._stepping != 0 and (
                        self._is_over() or self._is_asked())))
                if self._closed:
                    return
                over = self._is_over()
            try:
                if over or self._is_past_the_boundary():
                    self._free()
            except errors.Error:
                pass  # The world has ended, or the agent: the next turn.
            except Exception as error:  # pylint: disable=broad-except
                print(f"rollcall: rank {self._rank.world.rank} could not leave "
                      f"its group: {error!r}", file=sys.stderr, flush=True)

    def _is_over(self) -> bool:
        return not self._freed.is_set() and (
            self._rank.aborted is not None or self._rank.lost is not None)

    def _is_asked(self) -> bool:
        notice = self._rank.notice
        if (notice is None or self._in_commit or self._cut
                or self._rank.aborted is not None):
            return False
        known = self._boundary[0] == self._rank.world.generation
        return (self._answered != notice.number
                and (not known or self._committed >= self._boundary[1]))

    def _is_past_the_boundary(self) -> bool:
        """The training thread may wait, in a collective of the next step, for
        ranks that stop at this one: it heard of the notice too late. Or it
        stands there already, and a further notice came."""
        with self._lock:
            step = self._committed
        if step < self._boundary_at(step):
            return False
        with self._lock:
            if self._in_commit:
                return False
            at_boundary = self._returned or (
                self._answered_in == self._rank.world.generation)
            self._cut = self._cut or not at_boundary
        if at_boundary:
            notice = self._rank.notice
            if notice is not None:
                self._answer(notice.number)
        return not at_boundary

    def _free(self) -> None:
        """A group of this process alone takes the place of the one that all had:
        collectives that wait fail; later ones do no harm, as nothing is applied
        any more."""
        self._cut = True
        try:
            self._store.use(KeyValueStore(LocalStore()))
            dist._reconfigure(
                uuid=random.getrandbits(62) | 1 << 62,
                handles=[dist._get_reconfigure_handle()]).wait()
        finally:
            self._freed.set()

    def _ring(self) -> None:
        """The watcher looks again."""
        connection = self._rank._connection
        if connection is not None:
            with connection.changed:
                connection.changed.notify_all()

    # --- The end --------------------------------------------------------------

    def _take_signals(self) -> None:
        # SIGTERM from a scheduler or a user asks to leave: the daemon answers
        # with a notice.
        if not self._rank.alone:
            try:
                self._handler = signal.signal(signal.SIGTERM, self._on_sigterm)
            except ValueError:
                pass  # Not the main thread: the program's handlers stay.

    def _on_sigterm(self, *_: Any) -> None:
        if self._saving:
            return  # The agent bounds the time.
        if self._rank.aborted is not None or self._rank.lost is not None:
            raise SystemExit(128 + signal.SIGTERM)
        if self._rank.notice is None:
            self._rank.leave()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._ring()
        if self._watcher.is_alive():
            self._watcher.join(1.0)
        self._state._driver = None
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)


# --- One state for all --------------------------------------------------------


class _Slot:
    """Where a tensor stands in what is sent apart from it."""

    def __init__(self, tensor: Any) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _send_state(state: State, source: int, sends: bool, device: Any,
                alike: bool, check: Callable[[], None]) -> None:
    """All ranks call it: those whose state does not count take that of `source`.
    `alike`: this rank's is the same. Nothing is taken before `check` has said
    that all of it came from the source: a group of one's own receives nothing,
    without an error."""
    tensors: List[Any] = []
    apart: List[Any] = [None]
    if sends:
        apart[0] = _take_apart({
            "step": state.step, "values": state._values,
            "sampler": state.sampler.state() if state.sampler else None,
            "optimizers": [one.state_dict() for one in state.optimizers],
            "others": [one.state_dict() for one in state._others()],
        }, tensors)
    dist.broadcast_object_list(apart, src=source)
    model = _model_tensors(state.model)
    received = []
    for tensor in model:
        # A copy, where it is taken only once all is there.
        sent = tensor.to(device).contiguous() if sends else torch.empty(
            tensor.shape, dtype=tensor.dtype, device=device)
        dist.broadcast(sent, src=source)
        received.append(sent)
    if sends:
        for tensor in tensors:
            dist.broadcast(tensor.detach().to(device).contiguous(), src=source)
    got = None if sends else _put_together(apart[0], source, device)
    check()
    if got is None or alike:
        return
    state._applied.append(None)  # Not whole until all of it is taken.
    for tensor, sent in zip(model, received):
        tensor.copy_(sent)
    state.step = got["step"]
    state._values = got["values"]
    if state.sampler is not None and got["sampler"] is not None:
        state.sampler.load(got["sampler"])
    for one, saved in zip(state.optimizers, got["optimizers"]):
        one.load_state_dict(saved)
    for one, saved in zip(state._others(), got["others"]):
        one.load_state_dict(saved)
    state._keep()


def _model_tensors(model: Any) -> List[Any]:
    if model is None:
        return []
    return [value.detach() for value in model.state_dict().values()
            if isinstance(value, torch.Tensor)]


def _take_apart(value: Any, tensors: List[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Slot(value)
    if isinstance(value, dict):
        return {key: _take_apart(one, tensors) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_take_apart(one, tensors) for one in value)
    return value


def _put_together(value: Any, source: int, device: Any) -> Any:
    if isinstance(value, _Slot):
        tensor = torch.empty(value.shape, dtype=value.dtype, device=device)
        dist.broadcast(tensor, src=source)
        return tensor
    if isinstance(value, dict):
        return {key: _put_together(one, source, device)
                for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_put_together(one, source, device) for one in value)
    return value
