"""What torchrun's --rdzv flags say: flags and environment of an agent, and of a
launcher if this node starts one."""

import ipaddress
import socket
from typing import Any, Dict, List, MutableMapping, Optional, Tuple

_PORT = 29400
_STORE_TIMEOUT_S = 300

# torchrun counts these in seconds.
_SECONDS = {"join_timeout": "--join-timeout",
            "last_call_timeout": "--last-call"}
_JOB_FLAGS = {**_SECONDS, "grow": "--grow", "preflight": "--preflight"}
_KEYS = ("secret_file", "is_host", "name", "read_timeout", *_JOB_FLAGS)
# Keys of torchrun's own backends; they have no effect here.
_IGNORED = ("close_timeout", "heartbeat_timeout", "keep_alive_interval",
            "keep_alive_max_attempt", "protocol", "rank", "store_type",
            "timeout", "use_libuv")


# What was removed from the environment.
_taken: Dict[str, str] = {}


class Settings:
    """`params`: torchrun's RendezvousParameters. ValueError names what is
    wrong."""

    def __init__(self, params: Any,
                 environment: MutableMapping[str, str]) -> None:
        """Removes rollcall's variables from `environment`, so that workers
        inherit no secret."""
        for key in params.config:
            if key not in _KEYS and key not in _IGNORED:
                raise ValueError(f"--rdzv-conf {key}: --rdzv-backend=rollcall "
                                 f"knows {', '.join(sorted(_KEYS))}")
        config = {key: str(value) for key, value in params.config.items()}
        # For the next rendezvous of this process as well.
        for name in ("ROLLCALL_SECRET", "ROLLCALL_JOIN", "ROLLCALL_SOCKET"):
            if name in environment:
                _taken[name] = environment.pop(name)
        self.child_environment = {**environment, **_taken}
        # The socket of an agent that already runs; empty: start one.
        self.socket = self.child_environment.pop("ROLLCALL_SOCKET", "")
        self.read_timeout_s = params.get_as_int("read_timeout",
                                                _STORE_TIMEOUT_S)
        # What all nodes say of the job, and what this node says of itself.
        self._job = [
            "--nodes", f"{params.min_nodes}:{params.max_nodes}",
            # torchrun itself makes no steps.
            "--hang-timeout", "never"]
        for key, flag in _JOB_FLAGS.items():
            if key in config:
                value = config[key]
                in_seconds = key in _SECONDS and value.isdigit()
                self._job += [flag, f"{value}s" if in_seconds else value]
        self._node = ["--no-hosts"]
        if "name" in config:
            self._node += ["--name", config["name"]]
        self._endpoint: List[str] = []
        self.address: Optional[Tuple[str, int]] = None
        # This node starts the launcher.
        self.is_host = False
        endpoint = (params.endpoint or "").strip()
        if endpoint:
            self.socket = ""
        elif self.socket:
            return
        if endpoint.startswith("rc1."):
            self.child_environment["ROLLCALL_JOIN"] = endpoint
        elif endpoint:
            self._use_address(endpoint, params, config)
        elif "ROLLCALL_JOIN" not in self.child_environment:
            raise ValueError(
                "--rdzv-backend=rollcall: expected --rdzv-endpoint=HOST[:PORT] "
                "(the node that is to start the daemon) or a join string, or "
                "ROLLCALL_JOIN in the environment; got none")

    def _use_address(self, endpoint: str, params: Any,
                     config: Dict[str, str]) -> None:
        self.address = host, port = _parse_endpoint(endpoint)
        # `rollcall join` would prefer it to --endpoint.
        self.child_environment.pop("ROLLCALL_JOIN", None)
        if "secret_file" in config:
            self._job += ["--secret-file", config["secret_file"]]
        elif not self.child_environment.get("ROLLCALL_SECRET"):
            raise ValueError(
                f"--rdzv-endpoint={endpoint}: a daemon that nodes find by its "
                "address needs a secret that all of them have: set "
                "ROLLCALL_SECRET on every node to what `rollcall token secret` "
                "printed once, or --rdzv-conf secret_file=PATH")
        self._job += ["--rdzv-id", str(params.run_id)]
        self._endpoint = ["--endpoint", _with_port(host, port)]
        is_host = params.get_as_bool("is_host")
        self.is_host = _is_here(host) if is_host is None else is_host

    @property
    def agent_flags(self) -> List[str]:
        return [*self._job, *self._node, *self._endpoint]

    @property
    def launcher_flags(self) -> List[str]:
        """Requires `is_host`."""
        assert self.address is not None
        host, port = self.address
        return [*self._job, "--listen", _with_port(_listen_address(host), port)]


def listens(address: Tuple[str, int]) -> bool:
    """Whether something listens there."""
    try:
        with socket.create_connection(address, timeout=2):
            return True
    except OSError:
        return False


def _parse_endpoint(endpoint: str) -> Tuple[str, int]:
    host, port = endpoint, str(_PORT)
    if endpoint.startswith("["):
        host, _, rest = endpoint[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else rest or port
        if rest and not rest.startswith(":"):
            host = ""
    elif endpoint.count(":") == 1:
        host, _, port = endpoint.partition(":")
    if not host or not (port.isascii() and port.isdigit()) or not (
            0 < int(port) < 1 << 16):
        raise ValueError(f"--rdzv-endpoint={endpoint}: expected HOST[:PORT] with "
                         "a port of 1 to 65535, or a join string (rc1....)")
    return host, int(port)


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_here(host: str) -> bool:
    """Whether it is a name of this machine, or an address that can be bound."""
    if host in (socket.gethostname(), socket.getfqdn()):
        return True
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
    """All addresses, unless the endpoint itself is loopback. What the name of
    this machine resolves to here does not count: Debian says 127.0.1.1."""
    try:
        return host if ipaddress.ip_address(host).is_loopback else "::"
    except ValueError:
        return "127.0.0.1" if host == "localhost" else "::"
