"""JAX under rollcall: `import rollcall.jax`, and `jax.distributed.initialize()`
needs no arguments.

Importing this module is enough: JAX asks each ClusterEnv that it knows, and this
one first, since an agent may itself run under Slurm or Open MPI. The
coordinator is node rank 0's reserved port. Where an agent has started the
process, all comes from its environment; a process that runs beside its agent
(`rollcall join --attach`) is attached, see `rollcall.attach`.
"""

import os
from typing import Any, List, Optional

from jax._src import clusters

from ._attach import attach, current


class RollcallCluster(clusters.ClusterEnv):
    """Where this process is, for jax.distributed."""

    name: str = "rollcall"

    @classmethod
    def is_env_present(cls) -> bool:
        return bool(os.environ.get("ROLLCALL_SOCKET"))

    @classmethod
    def get_coordinator_address(
            cls, timeout_secs: Any = None,
            override_coordinator_port: Optional[str] = None) -> str:
        host, port = _places()[:2]
        return f"{host}:{override_coordinator_port or port}"

    @classmethod
    def get_process_count(cls) -> int:
        return int(_places()[2])

    @classmethod
    def get_process_id(cls) -> int:
        return int(_places()[3])

    @classmethod
    def get_local_process_id(cls) -> Optional[int]:
        return int(_places()[4])


# JAX takes the first that is present, in the order of their declaration.
_kinds: Any = getattr(clusters.ClusterEnv, "_cluster_types", None)
if isinstance(_kinds, list) and RollcallCluster in _kinds:
    _kinds.remove(RollcallCluster)
    _kinds.insert(0, RollcallCluster)

_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK")


def _places() -> List[str]:
    """The values of _VARIABLES, in the world that counts now."""
    rank = current()
    if rank is None and all(name in os.environ for name in _VARIABLES):
        return [os.environ[name] for name in _VARIABLES]
    world = (rank if rank is not None else attach()).world
    # An IPv6 address is told from its port by brackets.
    host = world.master_address
    return [f"[{host}]" if ":" in host else host, str(world.master_port),
            str(world.size), str(world.rank), str(world.local_rank)]
