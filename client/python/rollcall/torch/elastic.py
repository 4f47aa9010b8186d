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

    train(state)

When a rank is lost, or a node joins or leaves, `train` is entered again in the
next world, with the state of the rank that has most steps, which the group itself
sends. `state.model` stays the same object; wrap it inside of `train`. A step is done
by all ranks or by none.

What comes after `commit` in a step may not run, where all stop for a notice. Ask
`state.rank` and `state.size` who this is: once a world has ended, torch.distributed
says rank 0 of 1 until `train` is entered again. Catch no bare `except` in `train`.
Not for models whose ranks hold different parts. Make subgroups and device meshes
inside of `train`, over NCCL only: where Gloo's group is re-formed in place, PyTorch
numbers groups in each process by itself, and a newcomer's numbers differ.

Needs torch 2.14 or newer over Gloo, 2.5 or newer over NCCL.
"""

import functools
import json
import signal
import sys
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Optional, Tuple, TypeVar

import torch

from .. import errors
from .._rank import Rank, attach
from . import dist
from ._groups import Groups, default_backend, groups_over
from ._sampler import Sampler
from ._state import State, send_state

__all__ = ["Sampler", "State", "run"]

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


def run(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Makes `function(state, ...)` elastic. Call what this returns with

    `backend`: of torch.distributed, "gloo" or "nccl"; default: "nccl" if the
    model of the state has parameters on GPUs, else "gloo".
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
        self._backend = backend or default_backend(state.model)
        kind = groups_over(self._backend)
        self._rank: Rank = attach(elastic=True)
        self._state = state
        self._on_notice = on_notice
        self._groups: Groups = kind(self._rank)
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
        mine = {"handle": self._groups.handle(),
                "step": state.step, "fresh": self._fresh, "whole": state.whole}
        all_of = [json.loads(one) for one in rank.exchange(
            "elastic/join", json.dumps(mine))]
        self._groups.join(
            rank, [one["handle"] for one in all_of],
            # Below the time that a rank has to answer an abort.
            timedelta(seconds=8 + world.size / 50))
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
            send_state(state, source, world.rank == source, self._device(),
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
        """What waits in the group ends, and what it got is not applied."""
        self._cut = True
        try:
            self._groups.free()
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
