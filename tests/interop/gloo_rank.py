"""A program of PyTorch, as torchrun and DeepSpeed's launcher start it.

Argument: a file that each rank reads to its end before it ends.
"""
import os
import sys

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
    # In one write: lines of two ranks must not mix.
    os.write(1, (f"gloo {dist.get_rank()} of {dist.get_world_size()} "
                 f"local {os.environ['LOCAL_RANK']} total {int(total)} "
                 f"process {os.getpid()}\n").encode())
    with open(sys.argv[-1], "rb") as f:
        f.read()
    dist.barrier()


if __name__ == "__main__":
    main()
