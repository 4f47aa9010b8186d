"""A JAX program that takes only the three arguments of
jax.distributed.initialize from its launcher. With the argument `cluster`, JAX
gets them from rollcall.jax, which is imported then."""
import os
import sys

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec


def main():
    env = os.environ
    if sys.argv[1:] == ["cluster"]:
        import rollcall.jax  # noqa: F401  pylint: disable=unused-import
        jax.distributed.initialize()
    else:
        jax.distributed.initialize(
            coordinator_address=f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}",
            num_processes=int(env["WORLD_SIZE"]),
            process_id=int(env["RANK"]))
    mesh = jax.make_mesh((jax.process_count(),), ("ranks",))
    each, all_of_them = PartitionSpec("ranks"), PartitionSpec()
    own = jax.make_array_from_process_local_data(
        NamedSharding(mesh, each), np.array([jax.process_index() + 1]))
    total = jax.jit(jax.shard_map(
        lambda one: jax.lax.psum(one, "ranks"), mesh=mesh, in_specs=each,
        out_specs=all_of_them))(own)
    print(f"jax {jax.process_index()} of {jax.process_count()} "
          f"total {int(total.addressable_data(0)[0])}", flush=True)


if __name__ == "__main__":
    main()
