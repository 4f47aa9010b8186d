"""A PyTorch program as torchrun and DeepSpeed's launcher start it.

Argument: a file that each rank reads to its end before it exits.
"""
import os
import sys

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
    # One write, so that lines of two ranks do not mix.
    os.write(1, (f"gloo {dist.get_rank()} of {dist.get_world_size()} "
                 f"local {os.environ['LOCAL_RANK']} total {int(total)} "
                 f"process {os.getpid()}\n").encode())
    with open(sys.argv[-1], "rb") as f:
        f.read()
    dist.barrier()


if __name__ == "__main__":
    main()
