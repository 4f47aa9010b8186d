"""A training script as torchrun starts it; knows no rollcall.

Arguments: a file that the first rank reads to its end before all end, and one
that the last rank reads to its end before it fails, once, instead; `-`: it does
not.
"""
import os
import sys

import torch
import torch.distributed as dist


def main():
    ends, fails = sys.argv[1:3]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([rank + 1])
    dist.all_reduce(total)
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    secret = sum(name.startswith("ROLLCALL_") for name in os.environ)
    # In one write: lines of two ranks must not mix.
    os.write(1, (f"entered {rank} of {size} total {int(total)} restarts "
                 f"{restarts} secrets {secret}\n").encode())
    if fails != "-" and restarts == "0":
        if rank == size - 1:
            read(fails)
            sys.exit(7)
    elif rank == 0:
        read(ends)
    dist.barrier()


def read(path):
    with open(path, "rb") as f:
        f.read()


if __name__ == "__main__":
    main()
