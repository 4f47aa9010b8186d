"""torchrun over rollcall: its agents meet by rollcall's daemon.

    torchrun --rdzv-backend=rollcall --rdzv-endpoint=HOST[:PORT] --rdzv-id=JOB \\
        --nnodes=2:8 --nproc-per-node=8 --max-restarts=3 train.py

The same line on every node. torchrun stays the parent of the ranks and counts
restarts; an agent of rollcall beside it says who is there, names who is missing,
and calls for the next round when a node is lost, fails, leaves or arrives. All
nodes need the shared secret of the job (ROLLCALL_SECRET, or --rdzv-conf
secret_file=PATH; `rollcall token secret` makes one). The node whose address
HOST is starts the daemon, which outlives that node's torchrun.

client/python/README.md of the sources has more.
"""

import atexit
import contextlib
import fcntl
import ipaddress
import os
import socket
import sys
import tempfile
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import api

from .. import _processes, errors
from .._rank import Rank, attach_to
from ..world import World
from . import Store

BACKEND = "rollcall"
_PORT = 29400
# torchrun decides how often it starts its workers again.
_NO_LIMIT = 1_000_000
# For the others to stop their workers, and for this node to be let go.
_LEAVES_S = 20.0
_ENDS_S = 5.0
_STORE_TIMEOUT_S = 300

_JOB_FLAGS = {"join_timeout": "--join-timeout", "grow": "--grow",
              "preflight": "--preflight"}
_KEYS = ("secret_file", "is_host", "name", "read_timeout", *_JOB_FLAGS)
# Of torchrun's own backends, without a meaning here.
_IGNORED = ("close_timeout", "heartbeat_timeout", "keep_alive_interval",
            "keep_alive_max_attempt", "last_call_timeout", "protocol", "rank",
            "store_type", "timeout", "use_libuv")


def get_handler() -> Callable[[Any], "Handler"]:
    """What the entry point `torchrun.handlers` names."""
    return Handler


class Settings:
    """What torchrun's --rdzv flags say: the flags and the environment for an
    agent, and those for a launcher if this node starts one. ValueError names
    what is wrong."""

    def __init__(self, params: Any, environment: Dict[str, str]) -> None:
        """`environment`: of this process; what is secret is taken from it, so
        that no worker has it."""
        config = {key: str(value) for key, value in params.config.items()}
        _check_keys(config)
        endpoint = (params.endpoint or "").strip()
        self.child_environment = dict(environment)
        for name in ("ROLLCALL_SECRET", "ROLLCALL_JOIN"):
            environment.pop(name, None)
        # An agent with --attach that others have started.
        self.socket = environment.pop("ROLLCALL_SOCKET", "")
        self.read_timeout_s = _seconds(config, "read_timeout", _STORE_TIMEOUT_S)
        # What all nodes say of the job, and what this node says of itself.
        self._job = [
            "--nodes", f"{params.min_nodes}:{params.max_nodes}",
            "--max-restarts", str(_NO_LIMIT), "--hang-timeout", "never"]
        for key, flag in _JOB_FLAGS.items():
            if key in config:
                value = config[key]
                # torchrun counts seconds.
                in_seconds = key == "join_timeout" and value.isdigit()
                self._job += [flag, f"{value}s" if in_seconds else value]
        self._node = ["--no-hosts"]
        if "name" in config:
            self._node += ["--name", config["name"]]
        self._endpoint: List[str] = []
        self.address: Optional[Tuple[str, int]] = None
        self.is_host = False
        if self.socket:
            return
        if endpoint.startswith("rc1."):
            self.child_environment["ROLLCALL_JOIN"] = endpoint
        elif endpoint:
            self._use_address(endpoint, params.run_id, config)
        elif "ROLLCALL_JOIN" not in self.child_environment:
            raise ValueError(
                "--rdzv-backend=rollcall: expected --rdzv-endpoint=HOST[:PORT] "
                "(the node that is to start the daemon) or a join string, or "
                "ROLLCALL_JOIN in the environment; got none")

    def _use_address(self, endpoint: str, run_id: str,
                     config: Dict[str, str]) -> None:
        self.address = host, port = _parse_endpoint(endpoint)
        if "secret_file" in config:
            self._job += ["--secret-file", config["secret_file"]]
        elif not self.child_environment.get("ROLLCALL_SECRET"):
            raise ValueError(
                f"--rdzv-endpoint={endpoint}: a daemon that nodes find by its "
                "address needs a secret that all of them have: set "
                "ROLLCALL_SECRET on every node to what `rollcall token secret` "
                "printed once, or --rdzv-conf secret_file=PATH")
        self._job += ["--rdzv-id", run_id]
        self._endpoint = ["--endpoint", _with_port(host, port)]
        is_host = config.get("is_host", "").lower()
        if is_host not in ("", "0", "1", "true", "false"):
            raise ValueError(f"--rdzv-conf is_host={is_host}: expected true or "
                             "false")
        self.is_host = is_host in ("1", "true") or (
            not is_host and _is_here(host))

    @property
    def agent_flags(self) -> List[str]:
        return [*self._job, *self._node, *self._endpoint]

    @property
    def launcher_flags(self) -> List[str]:
        """Requires `is_host`."""
        assert self.address is not None
        host, port = self.address
        return [*self._job, "--listen", _with_port(_listen_address(host), port)]


def _check_keys(config: Dict[str, str]) -> None:
    for key in config:
        if key in _IGNORED:
            continue
        if key not in _KEYS:
            raise ValueError(f"--rdzv-conf {key}: --rdzv-backend=rollcall knows "
                             f"{', '.join(sorted(_KEYS))}")


def _seconds(config: Dict[str, str], key: str, default: int) -> int:
    text = config.get(key, str(default))
    if not text.isdigit():
        raise ValueError(f"--rdzv-conf {key}={text}: expected seconds")
    return int(text)


def _parse_endpoint(endpoint: str) -> Tuple[str, int]:
    host, port = endpoint, str(_PORT)
    if endpoint.startswith("["):
        host, _, rest = endpoint[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else rest or port
    elif endpoint.count(":") == 1:
        host, _, port = endpoint.partition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"--rdzv-endpoint={endpoint}: expected HOST[:PORT] with "
                         "a port of 1 to 65535, or a join string (rc1....)")
    return host, int(port)


def _is_here(host: str) -> bool:
    """Whether it is an address or a name of this machine: it can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as bound:
                bound.bind(address)
                return True
        except OSError:
            continue
    return False


def _listen_address(host: str) -> str:
    """All addresses, unless others cannot reach this machine by `host`."""
    try:
        first = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][4][0]
        address = ipaddress.ip_address(first)
    except (OSError, ValueError):
        return "0.0.0.0"
    if address.is_loopback:
        return str(address)
    return "::" if address.version == 6 else "0.0.0.0"


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listens(address: Tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=2):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Among the processes of this user on this machine."""
    path = os.path.join(tempfile.gettempdir(), name)
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class _OlderStore(Store):
    """For a torchrun that chooses the master's address and port itself, by its
    hostname, and tells them the others by the store: it tells the world's."""

    def set(self, key: str, value: Union[str, bytes]) -> None:
        world = self.rank.world
        super().set(key, {"MASTER_ADDR": world.master_address,
                          "MASTER_PORT": str(world.master_port)}.get(key, value))


class Handler(api.RendezvousHandler):
    """Of torch.distributed.elastic. Its functions are called by torchrun's main
    thread."""

    def __init__(self, params: Any) -> None:
        self._run_id = params.run_id
        # All of the environment is torchrun's to pass on.
        self._settings = Settings(params, os.environ)  # type: ignore[arg-type]
        self._agent: Optional[_processes.Agent] = None
        self._rank: Optional[Rank] = None
        self._closed = ""
        self._network: Dict[str, str] = {}
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
        """Waits until all torchruns of the next world are there. If the world
        before has not ended, it ends: this node's workers have failed."""
        rank = self._meet()
        self._set_network(rank.world)
        timeout = timedelta(seconds=self._settings.read_timeout_s)
        store, world = Store(rank, timeout), rank.world
        if not hasattr(api, "RendezvousInfo"):  # Before torch 2.4.
            return _OlderStore(rank, timeout), world.rank, world.size
        return api.RendezvousInfo(
            store, world.rank, world.size, api.RendezvousStoreInfo(
                world.master_address, world.master_port))

    def _set_network(self, world: World) -> None:
        """For the workers, which get the environment of this process."""
        for name in self._network:
            os.environ.pop(name, None)
        self._network = dict(world.network)
        os.environ.update(self._network)

    def _meet(self) -> Rank:
        while True:
            if self._closed:
                raise api.RendezvousClosedError(self._closed)
            try:
                rank = self._next_rank()
                # Daemon and agents have agreed on the world; its torchruns may
                # be late.
                rank.exchange("torchrun", b"")
                return rank
            except errors.Aborted:
                continue
            except errors.Error as error:
                self._rank = None
                agent, self._agent = self._agent, None
                if agent is None or not agent.await_end(_ENDS_S):
                    self._agent = agent
                    raise self._close(error) from error
                # One that was killed has let go of its node: begin again.
                if (agent.code or 0) >= 0:
                    raise self._close(agent.error()) from error

    def _next_rank(self) -> Rank:
        rank = self._rank
        if rank is not None and rank.lost is None:
            if rank.aborted is not None or rank.notice is not None:
                rank.notice_seen(0)
                rank.next_world()
                return rank
            rank.finish(1, "its workers failed; torchrun starts them again")
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
        return self._agent.socket

    def _launch(self) -> None:
        """Unless a daemon is there: of another torchrun of this machine, or of
        an earlier life of this one."""
        address = self._settings.address
        assert address is not None
        with _one_at_a_time(f"rollcall-torchrun-{os.getuid()}-{address[1]}"):
            if _listens(address):
                return
            reason = _processes.launch(self._settings.launcher_flags,
                                       self._settings.child_environment)
        if reason is not None:
            raise errors.Error(reason, "UNAVAILABLE")

    def _close(self, error: errors.Error) -> Exception:
        self._closed = str(error)
        kind = {"UNAVAILABLE": api.RendezvousConnectionError,
                "DEADLINE_EXCEEDED": api.RendezvousTimeoutError}.get(
                    error.code, api.RendezvousClosedError)
        closed: Exception = kind(f"rollcall: {error}")
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
        """torchrun calls it while the error that ended it, if any, is on its
        way: the job ends as this node's workers did."""
        error = sys.exc_info()[1]
        if error is None:
            self._finish()
        elif isinstance(error, ChildFailedError):
            self._fail(*_first_failure(error))
        else:
            self._fail(1, f"its torchrun failed: {error}")
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
            again = attach_to(self._agent_socket())
        except errors.Error:
            if self._agent is not None:
                self._agent.await_end()
            self._closed = "the job has ended"
            return
        self._rank = again
        self._leave()

    def _fail(self, code: int, reason: str) -> None:
        rank, self._rank = self._rank, None
        self._closed = self._closed or reason
        if rank is not None and rank.lost is None:
            rank.finish(code, reason, permanent=True)
            rank.close()
        agent, self._agent = self._agent, None
        # If the world had ended before, others may go on without this node.
        if agent is not None and not agent.await_end(_ENDS_S):
            agent.end(_LEAVES_S)

    def _leave(self) -> None:
        """At the end of this process: a torchrun that got a signal calls nothing
        of this. The node leaves, and the others go on without it if they are
        enough."""
        rank, self._rank = self._rank, None
        agent, self._agent = self._agent, None
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
            if agent is not None:
                agent.end(_ENDS_S)


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
