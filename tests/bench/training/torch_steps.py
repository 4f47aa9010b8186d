"""Does the work of train_steps in PyTorch.

    torch_steps.py LAYERS HEADS WIDTH CONTEXT SEQUENCES STEPS THREADS FUSED

OPENBLAS_NUM_THREADS sets the number of threads of BLAS, THREADS that of all
else. FUSED (0 or 1) selects how attention is computed; which one is faster
depends on the size.
"""
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "e2e", "trainer"))
from torch_gpt2 import Gpt2, adamw  # noqa: E402


def main():
    layers, heads, width, context, sequences, steps, threads, fused = (
        int(n) for n in sys.argv[1:])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Gpt2(layers, heads, width, context, 256)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    for block in model.h:
        block.attn.fused = bool(fused)
    optimizer = adamw(model)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    tokens = torch.randint(0, 256, (sequences, context))
    targets = torch.randint(0, 256, (sequences, context))
    for _ in sys.stdin:
        begun = time.monotonic()
        for _ in range(steps):
            loss = model(tokens, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"{time.monotonic() - begun:.6f}", flush=True)


if __name__ == "__main__":
    main()
