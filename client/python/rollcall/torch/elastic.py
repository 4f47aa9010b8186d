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

    with rollcall.attach(elastic=True):
        train(state)

When a rank is lost, or a node joins or leaves, `train` is entered again in the
next world, with the state of the rank that has most steps, which the group itself
sends. `state.model` stays the same object; wrap it inside of `train`. A step is done
by all ranks or by none.

At the step where all ranks stop for a notice, `commit` does not return, so code
after it is skipped. Ask `state.rank` and `state.size` who this is: once a world has
ended, torch.distributed says rank 0 of 1 until `train` is entered again. Catch no
BaseException in `train`. Not for models whose ranks hold different parts. Make
subgroups and device meshes inside of `train`, over NCCL only: where Gloo's group is
re-formed in place, PyTorch numbers groups in each process by itself, and a
newcomer's numbers differ.

Needs torch 2.14 or newer over Gloo, 2.5 or newer over NCCL.
"""

import functools
import json
import sys
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, TypeVar

import torch

from .. import errors
from .._attach import attach, refuse_alone
from .._boundary import Boundary, Due
from .._leave_signals import LeaveSignals
from .._rank import Rank
from . import dist
from ._groups import Groups, default_backend, groups_over
from ._sampler import BatchNotDone, Sampler
from ._state import State, send_state

__all__ = ["Sampler", "State", "run"]

# How long a failed collective waits for the daemon to say that the world has
# ended; longer than it takes to notice a silent loss.
_SOON_S, _PATIENCE_S = 3.0, 30.0
# Steps are reported no more often than this, and the last one in any case.
_REPORT_S = 0.05
# How often a rank that has returned says that it waits.
_RETURNED_S = 30.0

_Result = TypeVar("_Result")


class _EndOfWorld(BaseException):
    """Leaves the training function: all ranks stop after this step, for a notice,
    or the world has ended. Not an Exception, since programs catch those."""


class _NoticeFailed(BaseException):
    """What `on_notice` raised, which says nothing about the world."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _may_follow_a_loss(error: Optional[BaseException]) -> bool:
    """A collective that has lost a peer raises a RuntimeError, which the program
    may have caught (then it has not committed the batch) or turned into
    another error."""
    while error is not None:
        if isinstance(error, (RuntimeError, BatchNotDone)):
            return True
        error = error.__cause__ or error.__context__
    return False


def run(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Makes `function(state, ...)` elastic. Call what this returns with

    `backend`: of torch.distributed, "gloo" or "nccl"; default: "nccl" if the
    model of the state has parameters on GPUs, else "gloo".
    `on_notice`: called with the notice on every rank at the step where all stop
    for it (a drain, a newcomer, a preemption), to save a checkpoint, say. It must
    not call collectives: a rank that hears of the notice late has left the group.

    Returns what `function` returned, once it has returned on all ranks. What it
    raises ends the process, but for what a world that has ended raises: then it
    is entered again. rollcall.Lost, Refused: there is no next world for this
    process. SystemExit: it was asked to end. ValueError: torch.distributed has a
    default group already (a process can run one elastic function); another
    program than rollcall has started several ranks; or `function` has returned
    without committing its last step.
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
        if dist.is_initialized():
            raise ValueError(
                "elastic: torch.distributed has a default group already, and this "
                "makes it itself: leave init_process_group out; a process can run "
                "one elastic function, so do all that it trains in one")
        self._rank: Rank = attach(elastic=True)
        refuse_alone(self._rank)
        self._state = state
        self._on_notice = on_notice
        self._groups: Groups = kind(self._rank)
        self._fresh = True  # Has not been in a world.
        self._saving = False
        self._saved = 0  # In this generation.
        self._signals: Optional[LeaveSignals] = None
        self._reports_at = 0.0
        self._report: Callable[[], None] = lambda: None

        self._news = self._rank.news
        # Guarded by the lock of `_news`.
        self._boundary = Boundary()
        # The group is, or is about to be, of this process alone.
        self._leaving_group = False
        # It is.
        self._left_group = False
        self._closed = False

        self._watcher = threading.Thread(target=self._watch, daemon=True,
                                         name="rollcall elastic")

    # --- The training thread --------------------------------------------------

    def run(self, function: Callable[[], _Result]) -> _Result:
        self._state._driver = self
        if not self._rank.alone:
            self._signals = LeaveSignals(self._rank, lambda: self._saving)
            self._watcher.start()
        try:
            return self._run_in_worlds(function)
        except _NoticeFailed as failed:
            error = failed.error
        raise error

    def _run_in_worlds(self, function: Callable[[], _Result]) -> _Result:
        while True:
            try:
                self._join()
                step = self._state.step
                result = function()
                self._state.check_returned(step)
                self._await_all()
                return result
            except (_EndOfWorld, errors.Aborted):
                pass
            except Exception as error:  # pylint: disable=broad-except
                if not self._has_ended(error):
                    raise
            self._state.undo()
            self._next_world()

    def check(self) -> None:
        """Raises if the world has ended. `_leaving_group` is set before the group
        of this process alone is made, so gradients without the other ranks are
        never applied."""
        if self._backend != "gloo":
            torch.cuda.current_stream().synchronize()
        if self._leaving_group or self._rank.aborted is not None:
            raise _EndOfWorld()
        self._rank.check()

    def committed(self, loss: Optional[float],
                  tokens_per_second: Optional[float]) -> None:
        step, boundary = self._state.step, self._boundary
        with self._news.lock:
            boundary.done, boundary.is_busy = step, True
        try:
            self._report = lambda: self._rank.progress(step, loss,
                                                       tokens_per_second)
            now = time.monotonic()
            if now >= self._reports_at:
                self._reports_at = now + _REPORT_S
                self._report()
            if self._rank.notice is not None:
                self._name_boundary()
                if boundary.is_reached():
                    self._report()
                    self._save_and_answer()
                    raise _EndOfWorld()
        finally:
            with self._news.lock:
                boundary.is_busy = False
                self._tell_watcher()

    def _has_ended(self, error: Exception) -> bool:
        """Whether this is of the end of the world: what a collective raises whose
        peer is gone, or what follows from one that has lost the others."""
        rank = self._rank
        if rank.aborted is not None or self._leaving_group:
            return True
        if rank.lost is not None:
            raise rank.lost from error
        if rank.alone or isinstance(error, torch.cuda.OutOfMemoryError):
            return False
        try:
            # Answered once there is a daemon, which may take a while.
            rank.store.num_keys()
        except errors.Aborted:
            return True
        except errors.Error:
            pass  # The program's own error is of more use.
        if self._await_end(_SOON_S):
            return True
        if rank.lost is not None or not _may_follow_a_loss(error):
            return False
        print(f"rollcall: rank {rank.world.rank}: {error}; waiting "
              f"{_PATIENCE_S:g} s for the daemon to say that the world has ended",
              file=sys.stderr, flush=True)
        return self._await_end(_PATIENCE_S)

    def _await_end(self, patience: float) -> bool:
        """Whether the world ends within `patience` seconds."""
        rank = self._rank

        def has_ended() -> bool:
            # _leaving_group: the peer left for a notice that this rank had not
            # heard of.
            return self._leaving_group or rank.aborted is not None

        self._news.await_true(lambda: has_ended() or rank.lost is not None, patience)
        return rank.lost is None and has_ended()

    def _await_all(self) -> None:
        """Until all ranks have returned, this one may be needed to send its
        state."""
        self._report()
        with self._news.lock:
            self._boundary.returned = True
            self._news.notify_all()
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
        with self._news.lock:
            self._boundary.leave()

    def _next_world(self) -> None:
        if self._leaving_group and self._rank.aborted is None:
            # Too late for a notice, and freed from a collective of the step
            # after its boundary.
            self._await_left()
            self._save_and_answer()
        self._rank.await_abort()
        if self._boundary.generation != 0:
            self._await_left()
        with self._news.lock:
            self._boundary.leave()
        self._rank.next_world(self._state.step, self._state.whole)

    def _await_left(self) -> None:
        self._news.await_true(lambda: self._left_group)

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
            except errors.Aborted:
                raise
            except Exception as error:  # pylint: disable=broad-except
                raise _NoticeFailed(error) from None
            finally:
                self._saving = False
        self._answer(notice.number)

    def _join(self) -> None:
        """Connects all ranks of this world, and gives them one state."""
        rank, state, world = self._rank, self._state, self._rank.world
        self._left_group = self._leaving_group = False
        mine = {"handle": self._groups.handle(),
                "step": state.step, "fresh": self._fresh, "whole": state.whole,
                "shape": state.shape()}
        all_of = [json.loads(one) for one in rank.exchange(
            "elastic/join", json.dumps(mine))]
        whole = [r for r in range(world.size)
                 if all_of[r]["whole"] and not all_of[r]["fresh"]]
        # All ranks decide this from the same values.
        source = max(whole or range(world.size),
                     key=lambda r: (all_of[r]["step"], -r))
        self._compare([one["shape"] for one in all_of], source)
        self._groups.join(
            rank, [one["handle"] for one in all_of],
            # Below the time that a rank has to answer an abort (15 s).
            timedelta(seconds=min(8 + world.size / 50, 12)))
        with self._news.lock:
            self._boundary.enter(world.generation)
            self._news.notify_all()
        if not whole and not all(one["fresh"] for one in all_of):
            raise ValueError(
                "elastic: no rank has the whole state of a step: an optimizer "
                "was called, and the world ended before state.commit(); leave "
                "optimizer.step() to state.commit()")
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
        with self._news.lock:
            self._boundary.begin(state.step)
            self._tell_watcher()

    def _compare(self, shapes: List[Dict[str, str]], source: int) -> None:
        """A rank whose state has another shape than the one that is sent fails.
        The others wait for the next world, since collectives with it would give
        wrong values or end the process."""
        differs = [rank for rank, shape in enumerate(shapes)
                   if shape != shapes[source]]
        if self._rank.world.rank not in differs:
            if differs:
                self._rank.await_abort()
                raise _EndOfWorld()
            return
        own = shapes[self._rank.world.rank]
        part = next(name for name in own if own[name] != shapes[source][name])
        raise ValueError(
            f"elastic: the {part} of rank {self._rank.world.rank} differs from "
            f"that of rank {source}" + (
                f": {own[part]}, there {shapes[source][part]}"
                if part == "sampler" else " in names, sizes or types")
            + "; give all ranks the same, and a newcomer what the others have")

    def _tell_watcher(self) -> None:
        """With the lock held: a notice that came meanwhile is the watcher's."""
        if self._rank.notice is not None:
            self._news.notify_all()

    def _device(self) -> Any:
        """Where tensors are that the group sends."""
        if self._backend == "gloo":
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())

    # --- Notices --------------------------------------------------------------

    def _name_boundary(self) -> None:
        """Both threads may call it; afterwards the boundary of this world is
        known."""
        boundary = self._boundary
        with self._news.lock:
            if boundary.generation == 0 or boundary.step is not None:
                return
            # Once the world has ended for the training thread, the store is the
            # next world's.
            generation, store = boundary.generation, self._rank.store
            proposal = boundary.proposal()
        step = int(store.compare_set("elastic/boundary", "", str(proposal)))
        with self._news.lock:
            if boundary.generation == generation:
                boundary.step = step

    def _answer(self, notice: int) -> None:
        with self._news.lock:
            if not self._boundary.answer(notice):
                return
        self._rank.notice_seen(self._state.step)

    # --- The watcher's thread -------------------------------------------------

    def _watch(self) -> None:
        while True:
            self._news.await_true(
                lambda: self._closed or self._is_over()
                or self._due() != Due.NOTHING)
            if self._closed:
                return
            try:
                self._act()
            except errors.Error:
                pass  # The world has ended, or the agent: the next turn.
            except Exception as error:  # pylint: disable=broad-except
                print(f"rollcall: rank {self._rank.world.rank} could not leave "
                      f"its group: {error!r}", file=sys.stderr, flush=True)

    def _act(self) -> None:
        with self._news.lock:
            over, due = self._is_over(), self._due()
            notice = self._rank.notice
            if over or due == Due.FREE:
                self._leaving_group = True
                self._news.notify_all()
        if over or due == Due.FREE:
            self._free()
        elif due == Due.NAME:
            self._name_boundary()
        elif due == Due.ANSWER and notice is not None:
            self._answer(notice.number)

    def _is_over(self) -> bool:
        return self._boundary.generation != 0 and not self._left_group and (
            self._rank.aborted is not None or self._rank.lost is not None)

    def _due(self) -> Due:
        notice = self._rank.notice
        if notice is None or self._leaving_group or self._rank.aborted is not None:
            return Due.NOTHING
        return self._boundary.due(notice.number)

    def _free(self) -> None:
        """What waits in the group ends, and what it got is not applied."""
        try:
            self._groups.free()
        finally:
            with self._news.lock:
                self._left_group = True
                self._news.notify_all()

    # --- The end --------------------------------------------------------------

    def close(self) -> None:
        with self._news.lock:
            self._closed = True
            self._news.notify_all()
        if self._watcher.is_alive():
            self._watcher.join(1.0)
        self._state._driver = None
        if self._signals is not None:
            self._signals.close()
