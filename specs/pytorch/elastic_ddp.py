"""Elastic data-parallel training with only PyTorch: a notice loses no step.

    rollcall launch --nodes 2:4 -- python3 elastic_ddp.py DIR [STEPS]

Every node must see DIR (on NFS, for example). When rollcall asks for a boundary
(the file ROLLCALL_NOTICE appears: a drain, a newcomer, a preemption), all ranks
agree on a step, rank 0 saves it, and all exit. They are started again in the
next world, which may have another size, and continue from that step. The script
also works with torchrun.
"""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOLDER, STEPS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
BATCH, SAVE_EVERY, REQUEUE = 64, 100, 75


def save(path, state):
    """Atomic: after a crash the file has the old or the new state."""
    torch.save(state, path + ".partial")
    with open(path + ".partial", "rb") as file:
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)


def tell(step):
    """Reports the step, for `rollcall status` and --hang-timeout."""
    if "ROLLCALL_PROGRESS" in os.environ:
        with open(os.environ["ROLLCALL_PROGRESS"], "w") as file:
            file.write(str(step))


def batch(step, rank, size):
    """This rank's share of a step's samples, which depend only on the step."""
    points = torch.rand(BATCH, 4, generator=torch.Generator().manual_seed(step))
    share = points[rank * BATCH // size:(rank + 1) * BATCH // size]
    return share, share.sum(1, keepdim=True).sin()


def main():
    notice = os.environ.get("ROLLCALL_NOTICE", "")
    if notice:
        # SIGTERM also means a notice; the file is enough, and this step must
        # finish. Of torchrun it means the end.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(),
                                torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    path, first = os.path.join(FOLDER, "state.pt"), 1
    if os.path.exists(path):
        state = torch.load(path, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    ddp = DistributedDataParallel(model)
    for step in range(first, STEPS + 1):
        inputs, targets = (t.to(device) for t in batch(step, rank, size))
        # DDP averages over ranks, and their shares may differ in size.
        loss = ((ddp(inputs) - targets) ** 2).sum() * size / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        asked = torch.tensor([loss.item() / size, float(os.path.exists(notice))],
                             device=device)
        dist.all_reduce(asked)
        stop = asked[1] > 0
        if rank == 0 and (stop or step % SAVE_EVERY == 0 or step == STEPS):
            save(path, {"step": step, "model": model.state_dict(),
                        "optimizer": optimizer.state_dict()})
        tell(step)
        print(f"step {step} loss {asked[0]:.6f} world {size}", flush=True)
        if stop and step < STEPS:
            dist.barrier()  # No rank exits before the state is saved.
            sys.exit(REQUEUE)


if __name__ == "__main__":
    main()
