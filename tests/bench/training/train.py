"""Training speed of the CPU model: tokens per second, rollcall and PyTorch.

Each trains gpt2-nano on random bytes in whole steps (loss, gradients, clipping,
AdamW). The programs take turns in one run, so that other load on the machine
affects all of them; the results are medians. PyTorch's attention is written in
two ways, and the faster one counts. PyTorch runs once with its package's
default BLAS kernels, and once with the kernels that rollcall-train uses.

A second table compares a batch that is computed in several parts
(--micro-batch) with the whole batch at once.

    train.py [ROUNDS]
"""
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("ROLLCALL_BIN", os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "build", "release",
    "bin"))
PYTHON = "/usr/bin/python3"
MODEL = "gpt2-nano"
NANO = [3, 4, 128, 64]  # Layers, heads, width, context.
BATCHES = [16, 64]
TOKENS = 8192  # The minimum per round.


class Runner:
    """A process that executes one round of steps per request."""

    def __init__(self, argv, threads, core=None):
        env = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads))
        env.pop("OMP_NUM_THREADS", None)
        if core is not None:
            env["OPENBLAS_CORETYPE"] = core
        self.rounds = []
        self.process = subprocess.Popen(
            [str(a) for a in argv], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with "
                               f"{self.process.wait()}")
        self.rounds.append(float(line))

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def best_core():
    """Returns the kernels that trainer/model/cpu/openblas.cc would choose."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = set(file.read().partition("flags")[2].partition("\n")[0]
                    .split())
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        return "SkylakeX"
    return "Haswell" if {"avx2", "fma"} <= flags else None


def torch_is_here():
    return subprocess.run([PYTHON, "-c", "import torch"],
                          stderr=subprocess.DEVNULL).returncode == 0


def take_turns(runners, rounds):
    """Runs the rounds of all runners in turn, and ends the runners."""
    try:
        for number in range(rounds + 1):
            for runner in runners.values():
                runner.round()
            if number == 0:  # The first round is a warm-up.
                for runner in runners.values():
                    runner.rounds.clear()
    finally:
        for runner in runners.values():
            runner.end()


def ours(batch, threads, micro_batch=None):
    steps = max(1, TOKENS // (batch * NANO[3]))
    return Runner([os.path.join(BIN, "train_steps"), MODEL,
                   f"{batch}/{micro_batch or batch}", steps], threads)


def accumulate(batch, threads, rounds):
    """Prints the time of a step in parts, as a multiple of the whole one's."""
    sizes = [batch, batch // 2, batch // 4]
    runners = {size: ours(batch, threads, size) for size in sizes}
    take_turns(runners, rounds)
    whole = statistics.median(runners[batch].rounds)
    cells = []
    for size in sizes[1:]:
        # Of neighbouring rounds, so that a slow spell of the machine cancels.
        ratio = statistics.median(
            part / all_of_it for part, all_of_it in zip(
                runners[size].rounds, runners[batch].rounds))
        cells.append(f"{size:5} at once {ratio:6.3f}")
    print(f"  {batch:5} {threads:7} {whole * 1000:8.1f} ms   "
          + "   ".join(cells), flush=True)


def compare(batch, threads, rounds):
    steps = max(1, TOKENS // (batch * NANO[3]))
    runners = {"rollcall": ours(batch, threads)}
    if torch_is_here():
        for core in (None, best_core()):
            for fused in (0, 1):
                runners[core, fused] = Runner(
                    [PYTHON, "-B", os.path.join(HERE, "torch_steps.py"), *NANO,
                     batch, steps, threads, fused], threads, core)
    take_turns(runners, rounds)
    tokens = steps * batch * NANO[3]
    rates = {name: [tokens / s for s in runner.rounds]
             for name, runner in runners.items()}
    median = {name: statistics.median(r) for name, r in rates.items()}
    rate = median.pop("rollcall")

    def spread(name):
        return (max(rates[name]) - min(rates[name])) / \
            statistics.median(rates[name])

    line = (f"  {batch:5} {threads:7} {rate:10,.0f} "
            f"±{50 * spread('rollcall'):3.0f}%")
    for core in (None, best_core()):
        faster = max((n for n in median if n[0] == core), key=median.get,
                     default=None)
        if faster is None:
            line += "   torch is not installed here"
            break
        line += (f" {median[faster]:10,.0f} ±{50 * spread(faster):3.0f}%"
                 f" {rate / median[faster]:6.2f}")
    print(line, flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    print(f"train: {MODEL}, tokens/s, median of {rounds} rounds (± half the "
          f"range); BLAS is OpenBLAS\n"
          f"                             |      torch as installed      |"
          f"   torch, kernels {best_core()}\n"
          f"  batch threads   rollcall          tokens/s        ratio"
          f"        tokens/s        ratio")
    for threads in (1, 2):
        for batch in BATCHES:
            compare(batch, threads, rounds)
    print("(wanted: ratios of at least 1)\n\n"
          "  batch threads   at once       in parts: time of a round, as a "
          "multiple")
    for threads in (1, 2):
        accumulate(64, threads, 2 * rounds)
    print("(wanted: at most 1.02)\n")


if __name__ == "__main__":
    sys.exit(main())
