"""A JAX program that takes only the three arguments of
jax.distributed.initialize from its launcher. With the argument `cluster`, JAX
gets them from rollcall.jax, which is imported then."""
import os
import sys

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils


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
    ranks = multihost_utils.process_allgather(
        jnp.array([jax.process_index() + 1]))
    print(f"jax {jax.process_index()} of {jax.process_count()} "
          f"total {int(ranks.sum())}", flush=True)


if __name__ == "__main__":
    main()
