"""Compares the training speed on one GPU (tokens per second) with PyTorch.

Each trains GPT-2 (124M) on random tokens in whole steps (loss, gradients,
clipping, AdamW), with sequences of 1,024 tokens. The two take turns in one run;
the results are medians. PyTorch is used in its fastest way (torch_gpu_steps.py)
and runs in ROLLCALL_TORCH_PYTHON (default python3), which needs a torch with
CUDA.

    gpu.py [ROUNDS]
"""
import os
import statistics
import sys

from train import BIN, HERE, Runner

PYTHON = os.environ.get("ROLLCALL_TORCH_PYTHON", "python3")
CONTEXT = 1024
BATCHES = [4, 16, 32]
STEPS = 20


def compare(batch, rounds):
    runners = [
        Runner([os.path.join(BIN, "train_steps"), "gpt2", batch, STEPS, "cuda"],
               threads=1),
        Runner([PYTHON, "-B", os.path.join(HERE, "torch_gpu_steps.py"), batch,
                CONTEXT, STEPS], threads=1)]
    try:
        for number in range(rounds + 1):
            for runner in runners:
                runner.round()
            if number == 0:  # Warm-up, and PyTorch's compilation.
                for runner in runners:
                    runner.rounds.clear()
    finally:
        for runner in runners:
            runner.end()
    ours, theirs = (statistics.median(batch * CONTEXT * STEPS / s
                                      for s in runner.rounds)
                    for runner in runners)
    print(f"  {batch:5} {ours:10,.0f} {theirs:10,.0f} {ours / theirs:6.2f}",
          flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(f"gpu: GPT-2 (124M), {CONTEXT} tokens a sequence, tokens/s, median of "
          f"{rounds} rounds\n  batch   rollcall    PyTorch  ratio")
    for batch in BATCHES:
        compare(batch, rounds)


if __name__ == "__main__":
    main()
