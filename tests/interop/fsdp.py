"""A usual training for torchrun with PyTorch's FSDP on the CPU; it does not use
rollcall. All ranks print the same loss."""
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(),
                                torch.nn.Linear(32, 1))
    mesh = init_device_mesh("cpu", (size,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    points = torch.rand(16 * size, 8)[rank::size]
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(points) - points.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / size)
    here = sum(p.to_local().numel() for p in model.parameters())
    # One write, so that lines of two ranks do not mix.
    os.write(1, (f"sharded {rank} of {size} has {here} loss {losses[0]:.4f} to "
                 f"{losses[-1]:.4f}\n").encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
