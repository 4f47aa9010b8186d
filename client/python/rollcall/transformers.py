"""Hugging Face's Trainer under rollcall.

    from rollcall.transformers import Callback

    trainer = Trainer(..., callbacks=[Callback()])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))

Steps, loss and tokens per second go to `rollcall status`. When a step boundary is
asked for (a drain, a newcomer, a preemption), all ranks agree on a step, the
Trainer saves it, and `train` ends the process with exit code 75: rollcall starts
it again in the next world, or requeues the job, and it continues from that step.

A process that no agent has started trains as without the callback. Beside an agent
that has not started it (`rollcall join --attach`), put the script into
`with rollcall.attach():`, which tells the agent how it ends.
"""

import os
import signal
import sys
import time
from typing import Any, Dict, Optional

from transformers import TrainerCallback

from ._attach import attach, current
from ._leave_signals import LeaveSignals
from ._rank import Rank
from .errors import Aborted, Error

# The exit code of a rank that has saved and is to be started again.
REQUEUE = 75

# Limit for answers that normally come at once; longer than a loss takes to be
# noticed.
_PATIENCE_S = 60.0


class Callback(TrainerCallback):
    """Attaches this process to its agent, at once.

    `agree_every`: the ranks ask each other every so many steps whether one of
    them has a notice, by a sum of one number over torch.distributed, or, where
    that is not in use, by `Rank.exchange`. All ranks must give the same.

    ValueError, Lost, Refused: see `rollcall.attach`.
    """

    def __init__(self, agree_every: int = 1) -> None:
        if agree_every < 1:
            raise ValueError("agree_every: expected 1 or more, found "
                             f"{agree_every}")
        self._agree_every = agree_every
        self._rank: Rank = current() or attach()
        self._stops_at: Optional[int] = None
        self._saved = False
        # The latest of each that the Trainer has logged.
        self._logged: Dict[str, Optional[float]] = {
            "loss": None, "grad_norm": None, "eval_loss": None}
        self._tokens = 0
        self._tokens_at = 0.0
        self._speed: Optional[float] = None
        if not self._rank.alone:
            # They stay until the process ends.
            LeaveSignals(self._rank, lambda: self._stops_at is not None
                         and not self._saved)
            # The end of the world ends the process, also while a collective
            # waits for a rank that is gone and no Python handler runs.
            self._rank.when_over(self._when_over)

    # --- What the Trainer calls -----------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any,
                       **_: Any) -> None:
        """Where a resumed training begins."""
        self._tokens = _tokens_seen(state)
        self._tokens_at = time.monotonic()
        self._progress(state)

    def on_log(self, args: Any, state: Any, control: Any,
               logs: Any = None, **_: Any) -> None:
        """Takes the loss, which the Trainer averages between two logs, and what
        else it logs."""
        for name in self._logged:
            value = (logs or {}).get(name)
            if isinstance(value, (int, float)):
                self._logged[name] = float(value)
        now, tokens = time.monotonic(), _tokens_seen(state)
        if tokens > self._tokens and now > self._tokens_at:
            self._speed = (tokens - self._tokens) / (now - self._tokens_at)
            self._tokens, self._tokens_at = tokens, now

    def on_step_end(self, args: Any, state: Any, control: Any,
                    **_: Any) -> None:
        """Reports the step, and stops at it if a rank has a notice."""
        step = int(state.global_step)
        self._progress(state)
        if (self._rank.alone or step % self._agree_every != 0
                or step >= state.max_steps > 0
                or not self._agree(args, step)):
            return
        self._stops_at = step
        control.should_save = True
        control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Reports the checkpoint. Ends the process once the step of a notice is
        saved: at once, since the Trainer may remove checkpoints before it calls
        on_train_end."""
        # Each rank is called once its own part is written.
        if self._rank.world.rank == 0:
            self._rank.saved(int(state.global_step))
        if self._stops_at is None:
            return
        self._meet()
        print(f"rollcall: saved step {self._stops_at} for a notice",
              file=sys.stderr, flush=True)
        self._saved = True
        # The daemon ends the world once it knows that all are there. An exit
        # before that would count as a failure.
        try:
            self._rank.await_notice(_PATIENCE_S)
            self._rank.notice_seen(self._stops_at)
            self._rank.await_abort(_PATIENCE_S)
        except Error:
            pass  # The world has ended, or the agent is gone: end as well.
        raise SystemExit(REQUEUE)

    # --- Between the ranks ----------------------------------------------------

    def _agree(self, args: Any, step: int) -> bool:
        """Whether any rank has a notice; the same answer on all."""
        asked = self._rank.notice is not None or _notice_file()
        if self._rank.world.size == 1:
            return asked
        distributed = _distributed()
        if distributed is None:
            try:
                return b"1" in self._rank.exchange(
                    f"rollcall.transformers/{step}", b"1" if asked else b"0")
            except Aborted:
                raise SystemExit(128 + signal.SIGTERM) from None
        torch = sys.modules["torch"]
        flag = torch.tensor([1 if asked else 0], device=args.device)
        distributed.all_reduce(flag)
        return bool(flag.item())

    def _meet(self) -> None:
        """No rank exits before the state of all is saved."""
        distributed = _distributed()
        if distributed is not None:
            distributed.barrier()
        elif self._rank.world.size > 1:
            self._rank.exchange("rollcall.transformers/saved", b"")

    def _progress(self, state: Any) -> None:
        self._rank.progress(int(state.global_step), self._logged["loss"],
                            self._speed, max(int(state.max_steps or 0), 0),
                            gradient_norm=self._logged["grad_norm"],
                            validation_loss=self._logged["eval_loss"])

    def _when_over(self) -> None:
        if self._stops_at is None:
            os._exit(128 + signal.SIGTERM)


def _tokens_seen(state: Any) -> int:
    """0: the Trainer does not count (`include_num_input_tokens_seen`)."""
    return int(getattr(state, "num_input_tokens_seen", 0) or 0)


def _notice_file() -> bool:
    return os.path.exists(os.environ.get("ROLLCALL_NOTICE", ""))


def _distributed() -> Any:
    """torch.distributed where the ranks are connected by it, else None."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return None
    return distributed if distributed.is_initialized() else None
