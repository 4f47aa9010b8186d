"""Rank: this process as a rank of a run."""

import os
import time
import traceback
from types import TracebackType
from typing import Callable, List, Optional, Tuple, Type, Union

from . import _wire, errors
from ._connection import (EXCHANGE, FINISHED, LEAVE, NOTICE_SEEN, PROGRESS,
                          SAVED, STOPPED, Connection, Where)
from ._monitor import Monitor
from ._store import LocalStore, RemoteStore, Store, bytes_of
from ._wire import Writer
from .world import Abort, Notice, World

# For processes that this one starts: which process is which rank.
ATTACHED = "ROLLCALL_ATTACHED"
_ABORT_COMES_S = 1.0


class Rank:
    """This process as a rank: its world, values exchanged with all ranks,
    progress, aborts, notices, the next world.

    Make it with `rollcall.attach`. Any thread may call any function, but for
    `next_world`: while it runs, no other thread may use what it replaces.
    Without an agent it is a rank in a world of one, which nothing ends.
    """

    def __init__(self, connection: Optional[Connection], world: World) -> None:
        self._connection = connection
        self._own = Monitor()
        self._world = world
        if connection is not None:
            connection.collectives.new_world(world.size)
        self._store = Store(self._store_backend())
        # What lives as long as this world, and that of the world before.
        self._kept: List[object] = []
        self._kept_before: List[object] = []

    # --- The world ------------------------------------------------------------

    @property
    def world(self) -> World:
        return self._world

    @property
    def alone(self) -> bool:
        """There is no agent."""
        return self._connection is None

    @property
    def news(self) -> Monitor:
        """Notified of all that comes from the agent, and of its end. Without an
        agent nothing notifies it."""
        return self._own if self._connection is None else self._connection.news

    # --- Values to and from all ranks -----------------------------------------

    def exchange(self, key: str, value: Union[bytes, str],
                 timeout: Optional[float] = None) -> List[bytes]:
        """Gives `value` (at most 4 KiB; a str as UTF-8) for `key` (1 to 128
        characters of printable ASCII), waits until all ranks of the world have
        given theirs, and returns all of them, by rank. Every rank must call it
        with the same key. Safe to repeat with the same value.

        Aborted: the generation has ended. TimedOut: not all ranks gave a value
        within `timeout` seconds. Lost, Refused: the agent is gone, or says
        what is wrong. Error: of code UNAVAILABLE, the agent has too much to do,
        and the call can be repeated; of code CANCELLED, another call of this
        process with the same key has taken its place.
        """
        data = bytes_of("a value", value)
        if not 1 <= len(key) <= _wire.EXCHANGE_KEY_BYTES_MAX or not (
                key.isascii() and key.isprintable()):
            raise ValueError(f"exchange: expected a key of 1 to "
                             f"{_wire.EXCHANGE_KEY_BYTES_MAX} characters of "
                             f"printable ASCII, got {key!r:.200}")
        if len(data) > _wire.EXCHANGE_VALUE_BYTES_MAX:
            raise ValueError(f"exchange of {key!r}: the value has {len(data)} "
                             "bytes, expected at most "
                             f"{_wire.EXCHANGE_VALUE_BYTES_MAX}")
        if self._connection is None:
            return [data]
        connection: Connection = self._connection
        world = self._world
        [number] = connection.ask(EXCHANGE, [
            lambda number: Writer().uint(1, number).uint(2, world.generation)
            .text(3, key).data(4, data)])
        try:
            connection.wait(
                lambda: connection.answers[number] is not None, timeout,
                f"exchange of {key!r}: not all {world.size} ranks gave a value")
            answer = connection.answers[number]
        finally:
            connection.forget(number)
        assert answer is not None
        code = answer.uint(2)
        if errors.CODES.get(code) == "ABORTED":
            # The abort itself, which has the reason, may be right behind.
            self._await_abort_on_its_way(connection)
        if code:
            raise errors.error_of(
                code, f"exchange of {key!r} with {world.size} ranks: "
                f"{answer.text(3)}")
        values = list(answer.all_data(4))
        if len(values) != world.size:
            raise errors.Error(f"exchange of {key!r}: got {len(values)} values,"
                               f" expected {world.size}", "INTERNAL")
        return values

    @property
    def store(self) -> Store:
        """The key-value store that all ranks of this generation share. The next
        world has another one."""
        return self._store

    def keep(self, thing: object) -> None:
        """Holds a reference to this until the world after the next one."""
        self._kept.append(thing)

    def _store_backend(self) -> Union[LocalStore, RemoteStore]:
        if self._connection is None:
            return LocalStore()
        connection: Connection = self._connection
        return RemoteStore(connection, self._world.generation,
                           lambda: self._await_abort_on_its_way(connection))

    def _await_abort_on_its_way(self, connection: Connection) -> None:
        connection.news.await_true(
            lambda: self.aborted is not None or connection.ended is not None,
            _ABORT_COMES_S)
        aborted = self.aborted
        if aborted is not None:
            raise _aborted(aborted)

    # --- To the agent ---------------------------------------------------------

    def progress(self, step: int, loss: Optional[float] = None,
                 tokens_per_second: Optional[float] = None,
                 steps: int = 0, *, gradient_norm: Optional[float] = None,
                 flops_utilization: Optional[float] = None,
                 validation_loss: Optional[float] = None,
                 memory_bytes: int = 0) -> None:
        """Publishes that `step` is done. `steps` in all (0: unknown), the loss
        and all that follows are shown only where `loss` and
        `tokens_per_second` are both given. `gradient_norm` is that before
        clipping, `flops_utilization` the MFU from 0 to 1, `validation_loss`
        that of the latest validation, `memory_bytes` the most that was used
        (0: unknown). What is not finite, or below zero, is not shown. Does not
        wait for the agent; if several wait to be sent, only the latest
        is sent. The first call in a world takes up to 10 ms longer, where
        PyTorch's collectives are counted."""
        if self._connection is None:
            return
        message = Writer().uint(1, self._world.generation).uint(
            2, _step(step)).uint(7, _step(steps))
        if loss is not None:
            message.double(3, loss)
        if tokens_per_second is not None:
            message.double(4, tokens_per_second)
        for number, value in ((8, gradient_norm), (9, flops_utilization),
                              (10, validation_loss)):
            if value is not None:
                message.double(number, value)
        message.uint(11, memory_bytes)
        self._connection.collectives.stepped()
        self._connection.send(PROGRESS, message)

    def saved(self, step: int) -> None:
        """Reports that the checkpoint of `step` is complete, so that the ranks
        could continue from it after a loss. It becomes an event, and a world
        that begins below it is named. One rank of the world is enough: rank 0,
        if that publishes its progress. Does not wait for the agent."""
        if self._connection is not None:
            self._connection.send(SAVED, Writer().uint(
                1, self._world.generation).uint(2, _step(step)))

    def when_asked(self, where: Optional[Where]) -> None:
        """Sets the function that answers when the agent asks where this rank
        is, since it has made no progress for long: the numbers (1, 2, ...) of
        the collective of this world that it entered last and of the one that it
        left last, the same on all ranks; None: unknown. Called on another
        thread; it must not block. Without a function, the collectives of
        torch.distributed's default group are counted, from the first
        `progress` of a world on, if the group was made with backend="nccl"
        (PyTorch 2.4 and newer) or "gloo" (2.9 and newer)."""
        if self._connection is not None:
            self._connection.when_asked(where)

    def leave(self) -> None:
        """This process was asked to leave (SIGTERM, SIGUSR1), so its node
        leaves too: a notice follows. Never blocks."""
        self._send(LEAVE, Writer().uint(1, self._world.generation))

    def finish(self, code: int = 0, reason: str = "", permanent: bool = False,
               started_again: bool = False) -> None:
        """This process is about to end with this exit code (0 to 255), and
        why. `permanent`: it failed and would fail again, so the job fails,
        however many restarts are left. `started_again`: it failed, and its
        parent starts it again and counts restarts itself, so the job charges
        none and blames no node. Needed only where the agent did not
        start the process (`join --attach`): there, a rank that ends without it
        counts as killed. `with rollcall.attach() as rank` calls it. Then call
        `close`."""
        text = reason.encode("utf-8", "replace")[-_wire.REASON_BYTES_MAX:]
        self._send(FINISHED, Writer().uint(1, self._world.generation)
                   .uint(2, code & 0xFF)
                   .text(3, text.decode("utf-8", "ignore"))
                   .uint(4, int(permanent)).uint(5, int(started_again)))

    def _send(self, kind: int, message: Writer) -> None:
        if self._connection is not None:
            self._connection.send(kind, message)

    # --- From the agent -------------------------------------------------------

    @property
    def lost(self) -> Optional[errors.Error]:
        """Why the connection to the agent has ended; None: it has not. A rank
        without its agent is supervised by nobody: end."""
        return None if self._connection is None else self._connection.ended

    @property
    def aborted(self) -> Optional[Abort]:
        """Set once the generation has ended."""
        connection = self._connection
        abort = None if connection is None else connection.abort
        if abort is None or abort.generation < self._world.generation:
            return None
        return abort

    @property
    def notice(self) -> Optional[Notice]:
        """Set once a step boundary was asked for in this generation: agree with
        the other ranks on a step, stop after it, call `notice_seen`, and then
        `next_world`."""
        connection = self._connection
        notice = None if connection is None else connection.notice
        if notice is None or notice.generation != self._world.generation:
            return None
        return notice

    def check(self) -> None:
        """Raises Aborted if the generation has ended, and Lost or Refused if
        the connection has. Cheap: a training loop may call it at each step."""
        aborted, lost = self.aborted, self.lost
        if aborted is not None:
            raise _aborted(aborted)
        if lost is not None:
            raise lost

    def when_over(self, wake: Optional[Callable[[], None]]) -> None:
        """Calls `wake` once, on another thread, when this generation ends or
        the agent is lost; at once if that has happened. It must not block; use
        it to wake code that waits (a collective). The function given last
        counts, and only until `next_world`."""
        if self._connection is not None:
            self._connection.when_over(self._world.generation, wake)

    def await_abort(self, timeout: Optional[float] = None) -> Abort:
        """Waits until this generation ends."""
        connection = self._there("await_abort")
        connection.wait(lambda: self.aborted is not None, timeout,
                        f"generation {self._world.generation} has not ended")
        abort = self.aborted
        assert abort is not None
        return abort

    def await_notice(self, timeout: Optional[float] = None) -> Notice:
        """Waits until there is a notice. Aborted: the generation has ended
        first."""
        connection = self._there("await_notice")
        connection.wait(
            lambda: self.notice is not None or self.aborted is not None,
            timeout, "no notice came")
        aborted, notice = self.aborted, self.notice
        if aborted is not None:
            raise _aborted(aborted)
        assert notice is not None
        return notice

    # --- From world to world (elastic) ----------------------------------------

    def notice_seen(self, step: int) -> None:
        """Answers the notice: this rank is at the boundary after `step`."""
        notice = self.notice
        if notice is not None:
            self._send(NOTICE_SEEN, Writer().uint(1, notice.number)
                       .uint(2, notice.generation).uint(3, _step(step)))

    def stopped(self, step: int, whole_state: bool) -> None:
        """Answers an abort: the communicator is torn down, and this rank has
        the training state after `step`, or (not `whole_state`) a part of it."""
        self._send(STOPPED, Writer().uint(1, self._world.generation)
                   .uint(2, _step(step)).uint(3, int(whole_state)))

    def next_world(self, step: int = 0, whole_state: bool = False,
                   timeout: Optional[float] = None) -> World:
        """Waits for the end of this generation, answers it as `stopped` does,
        and waits for the next world, which `world` is from then on. Its
        `state_source` says whose state counts.

        Only for a rank that attached with elastic=True: the agent stops any
        other. Lost, Refused: there is no next world for this process.
        """
        connection = self._there("next_world")
        generation, began = self._world.generation, time.monotonic()
        self.await_abort(timeout)
        self.stopped(step, whole_state)
        connection.wait(
            lambda: connection.world is not None
            and connection.world.generation > generation, timeout,
            f"no world came after generation {generation}", began)
        world = connection.world
        assert world is not None
        self._world = world
        connection.collectives.new_world(world.size)
        self._store = Store(self._store_backend())
        self._kept_before, self._kept = self._kept, []
        return world

    def _there(self, what: str) -> Connection:
        if self._connection is None:
            raise errors.Lost(f"{what}: this process runs alone, without an "
                              "agent, and its world does not end; start it by "
                              "`rollcall launch`")
        return self._connection

    # --- The end --------------------------------------------------------------

    def close(self) -> None:
        """Sends what still waits, and ends the connection. To an agent that did
        not start this process that is its end. Safe to repeat."""
        if self._connection is not None:
            self._connection.close()
            # What this process starts from now on may be the rank.
            if os.environ.get(ATTACHED, "").startswith(f"{os.getpid()}:"):
                del os.environ[ATTACHED]

    def __enter__(self) -> "Rank":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """Reports the exit code that this exception leads to; 0 without one."""
        code, reason = 0, ""
        if isinstance(error, SystemExit):
            code, reason = _exit_code(error)
        elif isinstance(error, KeyboardInterrupt):
            code, reason = 130, "interrupted"
        elif error is not None:
            code = 1
            reason = "".join(traceback.format_exception(kind, error, trace))
        self.finish(code, reason)
        self.close()


def _exit_code(error: SystemExit) -> Tuple[int, str]:
    if error.code is None:
        return 0, ""
    if isinstance(error.code, int):
        return error.code & 0xFF, ""
    return 1, str(error.code)


def _step(step: int) -> int:
    if not 0 <= step <= _wire.STEP_MAX:
        raise ValueError(f"expected a step of 0 to 2^53, got {step}")
    return step


def _aborted(abort: Abort) -> errors.Aborted:
    return errors.Aborted(f"generation {abort.generation} has ended: "
                          f"{abort.reason}")
