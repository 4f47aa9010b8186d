"""How long training steps wait for checkpoints, with one every 100 steps.

rollcall-train runs with one rank: with the nano model, and with a model four
times as large whose steps are as short, which is harder. rollcall-train itself
measures the share of time: the copy of the state, and the wait for a running
save. In the same rounds the same training runs without checkpoints; the
difference shows what writing in the background costs in addition on a machine
with few cores.
"""
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
BIN = os.environ.get("ROLLCALL_BIN",
                     os.path.join(PROJECT, "build", "release", "bin"))
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
ROUNDS = 3
STEPS = 300
WANTED = 2.0
HELD = re.compile(r"blocked its steps for (\S+) s of (\S+) s \((\S+)%\)")


def train(width, batch, folder):
    """Returns steps per second, the percentage of time that steps waited, and
    the number of checkpoints."""
    command = [os.path.join(BIN, "rollcall-train"), "--data", *TEXT, "--steps",
               str(STEPS), "--width", str(width), "--batch", str(batch),
               "--log-json", "--device", "cpu"]
    if folder:
        command += ["--checkpoints", folder, "--save-every", "100"]
    run = subprocess.run(command, check=True, text=True, capture_output=True)
    held = HELD.search(run.stderr)
    saved = len(re.findall(r"checkpoint \S+/step-", run.stderr))
    last = re.findall(r'"samples_per_second":([\d.]+)', run.stdout)
    # The mean of the reported values, without the first fifth.
    speed = statistics.mean(float(x) for x in last[len(last) // 5:])
    return speed, float(held[3]) if held else 0.0, saved


def main():
    print(f"checkpoint: one every 100 of {STEPS} steps, {ROUNDS} rounds, "
          f"{os.cpu_count()} cores")
    for width, batch in ((128, 16), (256, 4)):
        with_speed, without_speed, shares = [], [], []
        for _ in range(ROUNDS):
            folder = tempfile.mkdtemp(prefix="rollcall-bench-")
            try:
                speed, share, saved = train(width, batch, folder)
            finally:
                shutil.rmtree(folder)
            with_speed.append(speed)
            shares.append(share)
            without_speed.append(train(width, batch, None)[0])
        ratio = statistics.median(with_speed) / statistics.median(without_speed)
        print(f"  width {width}, batch {batch}: steps waited {statistics.median(shares):.2f}% "
              f"of their time (most {max(shares):.2f}%), {saved} saved; "
              f"{statistics.median(with_speed):.1f} samples/s beside "
              f"{statistics.median(without_speed):.1f} without ({ratio:.3f})", flush=True)
    print(f"(wanted: at most {WANTED:g}%)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
