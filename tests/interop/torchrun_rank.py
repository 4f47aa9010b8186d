"""A training script as torchrun starts it; it does not use rollcall.

Arguments: ENDS FAILS OTHERS. All ranks wait until ENDS can be read to its end.
Unless FAILS is `-`, the last rank of the first round waits for FAILS instead
and exits with 7. OTHERS is `meet` (the other ranks are in a collective with
that rank, and so fail with it), `slow` (a rank ends only 17 s after it is told
to, when its agent has given up), or any other word.
"""
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist


def main():
    ends, fails, others = sys.argv[1:4]
    if others == "slow":
        signal.signal(signal.SIGTERM, end_late)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([rank + 1])
    dist.all_reduce(total)
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    left = sorted(name for name in os.environ if name.startswith(
        ("ROLLCALL_", "GLOO_ENABLE_")))
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "-")
    # One write, so that lines of two ranks do not mix.
    os.write(1, (f"entered {rank} of {size} total {int(total)} restarts "
                 f"{restarts} interface {interface} left {left}\n").encode())
    if fails != "-" and restarts == "0":
        if rank == size - 1:
            read(fails)
            sys.exit(7)
        if others == "meet":
            dist.barrier()
    read(ends)
    dist.barrier()


def end_late(_number, _frame):
    threading.Event().wait(17)
    sys.exit(1)


def read(path):
    with open(path, "rb") as f:
        f.read()


if __name__ == "__main__":
    main()
