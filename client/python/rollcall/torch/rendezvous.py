"""A rendezvous for torchrun: rollcall says which nodes take part.

    torchrun --rdzv-backend=rollcall --rdzv-endpoint=HOST[:PORT] --rdzv-id=JOB \\
        --nnodes=2:8 --nproc-per-node=8 --max-restarts=3 train.py

The same line on every node. torchrun stays the parent of the ranks and counts
restarts; an agent of rollcall beside it says who is there, names who is missing,
and calls for the next round when a node is lost, fails, leaves or arrives. All
nodes need the shared secret of the job. The node whose address HOST is starts
the daemon, which outlives that node's torchrun.

client/python/README.md of the sources has more.
"""

import atexit
import os
import sys
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Dict, Optional, Tuple, Union

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import api

from .. import _processes, errors
from .._attach import attach_to
from .._rank import Rank
from ..world import World
from . import Store
from ._rendezvous_settings import Settings, listens

BACKEND = "rollcall"
# How long a leaving node waits for the others to stop, and for its agent to end.
_LEAVES_S = 20.0
_ENDS_S = 5.0
# A daemon whose job is over ends within a lease of 5 s. A torchrun that comes
# meanwhile, for the next job, tries again.
_FORMER_JOB_S = 7.0
# How long another torchrun of this machine may take to start the daemon.
_STARTS_S = 10.0
# Between tries where nothing can be awaited.
_PAUSE_S = 0.5


def get_handler() -> Callable[[Any], "Handler"]:
    """Entry point of the group `torchrun.handlers`."""
    return Handler


class _AgentStore(Store):
    """torchrun's own: its workers, which inherit its environment, have others."""

    _for_groups = False


class _OlderStore(_AgentStore):
    """torchrun before 2.4 chooses MASTER_ADDR and MASTER_PORT itself and writes
    them to the store. This store writes the world's instead."""

    def set(self, key: str, value: Union[str, bytes]) -> None:
        world = self.rank.world
        super().set(key, {"MASTER_ADDR": world.master_address,
                          "MASTER_PORT": str(world.master_port)}.get(key, value))


class Handler(api.RendezvousHandler):
    """torchrun's handler. torchrun's main thread calls all of it."""

    def __init__(self, params: Any) -> None:
        self._run_id = params.run_id
        self._pid = os.getpid()
        # An exception handled before this object was made is no failure of
        # torchrun.
        self._error_before = sys.exc_info()[1]
        # os.environ itself: workers do not inherit what is removed from it.
        self._settings = Settings(params, os.environ)
        self._agent: Optional[_processes.Agent] = None
        self._launcher: Optional[_processes.Launcher] = None
        self._rank: Optional[Rank] = None
        self._network: Dict[str, str] = {}
        self._closed = ""
        # Until then, an agent that ends before its first world is taken to have
        # met a job that is over, and is replaced. None: there was a world.
        self._former_until: Optional[float] = time.monotonic() + _FORMER_JOB_S
        # Until when agents that are killed are replaced; None: none was killed
        # since the latest world.
        self._killed_until: Optional[float] = None
        atexit.register(self._leave)

    def get_backend(self) -> str:
        return BACKEND

    def get_run_id(self) -> str:
        return str(self._run_id)

    @property
    def use_agent_store(self) -> bool:
        """The workers make their own TCPStore at MASTER_ADDR: this store speaks
        no TCP."""
        return False

    # --- Rounds ---------------------------------------------------------------

    def next_rendezvous(self) -> Any:
        """Waits until all torchruns of the next world are there. If the current
        world has not ended, this node's workers have failed, and this call ends
        it."""
        rank = self._meet()
        self._set_network(rank.world)
        timeout = timedelta(seconds=self._settings.read_timeout_s)
        store, world = _AgentStore(rank, timeout), rank.world
        if not hasattr(api, "RendezvousInfo"):  # Before torch 2.4.
            return _OlderStore(rank, timeout), world.rank, world.size
        return api.RendezvousInfo(
            store, world.rank, world.size, api.RendezvousStoreInfo(
                world.master_address, world.master_port))

    def _set_network(self, world: World) -> None:
        """For the workers, which get the environment of this process. What the
        user has set is kept."""
        for name in self._network:
            os.environ.pop(name, None)
        self._network = {name: value for name, value in world.network
                         if name not in os.environ}
        os.environ.update(self._network)

    def _meet(self) -> Rank:
        over = False
        while True:
            if self._closed:
                raise api.RendezvousClosedError(self._closed)
            try:
                rank = self._next_rank(over)
                self._former_until = self._killed_until = None
                if rank.world.size != len(rank.world.nodes):
                    raise errors.Error(
                        "an agent for torchrun has one rank, which is torchrun "
                        f"itself; in this world {len(rank.world.nodes)} nodes "
                        f"have {rank.world.size}: start all agents without "
                        "--nproc-per-node", "FAILED_PRECONDITION")
                _await_torchruns(rank)
                return rank
            except errors.Aborted:
                over = True
            except errors.Error as error:
                self._rank = None
                ended = self._end_of_agent()
                if ended is None:
                    if isinstance(error, errors.Refused) and (
                            error.code == "ABORTED"):
                        # The workers took longer to stop than the agent waits
                        # for an answer (15 s).
                        continue
                    raise self._close(error) from error
                if not self._may_start_another(ended):
                    raise self._close(ended.error()) from error

    def _next_rank(self, over: bool) -> Rank:
        """`over`: the world has ended, though its abort may not be here yet."""
        rank = self._rank
        if rank is not None and rank.lost is None:
            if over or rank.aborted is not None or rank.notice is not None:
                rank.notice_seen(0)
                rank.next_world()
                return rank
            rank.finish(1, "its workers failed; torchrun starts them again",
                        started_again=True)
            rank.close()
        self._rank = None
        self._rank = attach_to(self._agent_socket())
        return self._rank

    def _agent_socket(self) -> str:
        settings = self._settings
        if settings.socket:
            return settings.socket
        if self._agent is None:
            if settings.is_host:
                self._launch()
            self._agent = _processes.Agent(settings.agent_flags,
                                           settings.child_environment)
        if self._agent.failed:
            raise self._agent.error()
        return self._agent.socket

    def _launch(self) -> None:
        """Starts a launcher, unless a daemon already listens there: that of
        another torchrun of this machine, or of an earlier life of this one."""
        address = self._settings.address
        assert address is not None
        if listens(address):
            return
        launcher = _processes.Launcher(self._settings.launcher_flags,
                                       self._settings.child_environment)
        if not launcher.failed:
            self._launcher = launcher
            return
        # Another torchrun may have been quicker.
        until = time.monotonic() + _STARTS_S
        while launcher.has_rival and time.monotonic() < until:
            threading.Event().wait(_PAUSE_S)
            if listens(address):
                return
        launcher.show()
        raise errors.Error(launcher.reason, "UNAVAILABLE")

    def _end_of_agent(self) -> Optional[_processes.Agent]:
        """The agent, if it has ended or is about to."""
        agent = self._agent
        if agent is None or not agent.await_end(_ENDS_S):
            return None
        self._agent = None
        return agent

    def _may_start_another(self, ended: _processes.Agent) -> bool:
        now, until = time.monotonic(), self._former_until
        if ended.was_killed:
            if self._killed_until is None:
                self._killed_until = now + _FORMER_JOB_S
                return True
            until = self._killed_until
        elif ended.error().code != "ABORTED":
            return False
        if until is None or now > until:
            return False
        # There is nothing to await: it is another machine's daemon, or what
        # kills the agent is not known.
        threading.Event().wait(_PAUSE_S)
        return True

    def _close(self, error: errors.Error) -> Exception:
        text = str(error)
        if "--name" in text:
            text += " (for torchrun: --rdzv-conf=name=NAME)"
        self._closed = text
        kind = {"UNAVAILABLE": api.RendezvousConnectionError,
                "DEADLINE_EXCEEDED": api.RendezvousTimeoutError}.get(
                    error.code, api.RendezvousClosedError)
        closed: Exception = kind(f"rollcall: {text}")
        return closed

    def num_nodes_waiting(self) -> int:
        """1: another round is due, since a node is lost, fails, leaves, or
        waits to take part."""
        rank = self._rank
        return int(rank is not None and (
            rank.lost is not None or rank.aborted is not None
            or rank.notice is not None))

    # --- The end --------------------------------------------------------------

    def is_closed(self) -> bool:
        return bool(self._closed)

    def set_closed(self) -> None:
        """The job fails on all nodes."""
        self._fail(1, "its torchrun closed the rendezvous")

    def shutdown(self) -> bool:
        """torchrun calls this in a `finally`: sys.exc_info() has the error that
        ended it, if any. Reports this node's result."""
        error = sys.exc_info()[1]
        if error is None or error is self._error_before:
            self._finish()
        elif isinstance(error, ChildFailedError):
            self._fail(*_first_failure(error))
        else:
            self._fail(1, f"its torchrun failed: {error}")
        # The next job on this port must find it free.
        if self._launcher is not None:
            self._end_launcher_without_world()
            self._launcher.await_end(_FORMER_JOB_S)
        return True

    def _finish(self) -> None:
        """This node's workers are done. Waits until those of all nodes are."""
        rank, self._rank = self._rank, None
        if rank is None or rank.lost is not None:
            return
        rank.finish(0)
        rank.close()
        try:
            # Either the job ends, or another node's workers failed and a world
            # is made again, which this torchrun cannot be in.
            self._rank = attach_to(self._agent_socket())
        except errors.Error:
            if self._agent is not None:
                self._agent.await_end()
            self._closed = "the job has ended"
            return
        self._leave()

    def _fail(self, code: int, reason: str) -> None:
        rank, self._rank = self._rank, None
        self._closed = self._closed or reason
        had_rank = rank is not None and rank.lost is None
        if rank is not None and had_rank:
            rank.finish(code, reason, permanent=True)
            rank.close()
        # If the world had ended before, others may go on without this node.
        if self._agent is not None and not (
                had_rank and self._agent.await_end(_ENDS_S)):
            self._agent.end(_LEAVES_S)

    def _leave(self) -> None:
        """At the end of this process. After a signal torchrun calls nothing of
        this class. The node leaves, and the others go on without it if they are
        enough."""
        if os.getpid() != self._pid:
            return
        rank, self._rank = self._rank, None
        self._closed = self._closed or "its torchrun has ended"
        try:
            if rank is not None and rank.lost is None:
                rank.leave()
                if rank.aborted is None:
                    rank.await_notice(_ENDS_S)
                    rank.notice_seen(0)
                    rank.await_abort(_LEAVES_S)
                rank.stopped(0, False)
        except errors.Error:
            pass
        finally:
            if rank is not None:
                rank.close()
            if self._agent is not None:
                self._agent.end(_ENDS_S)
            self._end_launcher_without_world()

    def _end_launcher_without_world(self) -> None:
        """Else it would wait for nodes until its join timeout, and the next job
        would find its port and state in use."""
        if self._launcher is not None and self._former_until is not None:
            self._launcher.end()


def _await_torchruns(rank: Rank) -> None:
    """Daemon and agents have agreed on the world. Waits for each node's torchrun
    too."""
    while True:
        try:
            rank.exchange("torchrun", b"")
            return
        except errors.Error as error:
            # The agent is behind with its work.
            if error.code != "UNAVAILABLE" or rank.lost is not None:
                raise
            threading.Event().wait(_PAUSE_S)


def _first_failure(error: Any) -> Tuple[int, str]:
    """(Exit code, reason) of the worker that failed first."""
    rank, failure = error.get_first_failure()
    code = int(failure.exitcode)
    how = (f"was ended by signal {-code}" if code < 0
           else f"exited with code {code}")
    reason = f"torchrun's rank {rank} (process {failure.pid}) {how}"
    message = failure.message
    if isinstance(message, dict):
        message = message.get("message", "")
    if failure.error_file_data and message:
        reason += f": {message}"
    return (128 - code if code < 0 else code & 0xFF) or 1, reason
