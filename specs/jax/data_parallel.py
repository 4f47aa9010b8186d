"""Data-parallel training with JAX, one process a node.

    rollcall launch --nodes 2:4 -- python3 data_parallel.py [STEPS]

`import rollcall.jax` is all that JAX needs: jax.distributed.initialize() takes no
arguments. When a node is lost, the processes of all others are started again in
the next world, so save what you want to keep.
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import rollcall
import rollcall.jax  # noqa: F401

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
BATCH = 64  # For each device.


def loss(weights, x, y):
    return jnp.mean((x @ weights["a"] + weights["b"] - y) ** 2)


@jax.jit
def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def main():
    with rollcall.attach() as rank:
        jax.distributed.initialize()
        mesh = Mesh(jax.devices(), ("data",))
        by_row = NamedSharding(mesh, PartitionSpec("data"))
        rows = BATCH * jax.local_device_count()
        weights = {"a": jnp.zeros((4, 1)), "b": jnp.zeros(1)}
        weights = jax.device_put(weights, NamedSharding(mesh, PartitionSpec()))
        value = None
        for number in range(1, STEPS + 1):
            # This process's own samples.
            random = np.random.default_rng([number, rank.world.rank])
            x = random.normal(size=(rows, 4)).astype(np.float32)
            y = x.sum(1, keepdims=True) * 2 - 1
            value, weights = step(
                weights, jax.make_array_from_process_local_data(by_row, x),
                jax.make_array_from_process_local_data(by_row, y))
            rank.progress(number, steps=STEPS)
        print(f"rank {rank.world.rank} of {rank.world.size}: step {STEPS}, loss "
              f"{float(value):.6f}", flush=True)


if __name__ == "__main__":
    main()
