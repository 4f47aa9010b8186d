"""Measures how long a node takes to collect its facts, with 8 HCAs and 8 GPUs.

The machine is a sysfs tree, and its libraries are the fakes of the tests, so
the figures do not include the time of a real driver. The doctor checks the
machine on which it runs. For comparison, the start of the program is measured,
too.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
BIN = os.environ.get("ROLLCALL_BIN",
                     os.path.join(PROJECT, "build", "release", "bin"))
RUNS = 21


def timed(argv):
    """Returns the milliseconds of each run, sorted."""
    took = []
    for _ in range(RUNS):
        begun = time.monotonic()
        # The exit code is ignored, since the doctor's depends on its findings.
        subprocess.run(argv, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=False)
        took.append(1e3 * (time.monotonic() - begun))
    return sorted(took)


def main():
    rollcall = os.path.join(BIN, "rollcall")
    with tempfile.TemporaryDirectory(prefix="rc-bench.") as folder:
        root = os.path.join(folder, "dgx_h100")
        subprocess.run([
            os.path.join(BIN, "sysfs_tree"),
            os.path.join(PROJECT, "tests", "facts", "dgx_h100.txt"), root],
            check=True)
        machine = ["--sysroot", root,
                   "--verbs-lib", os.path.join(BIN, "fakes/libibverbs.so.1"),
                   "--nvml-lib", os.path.join(BIN, "fakes/libnvidia-ml.so.1")]
        print(f"facts: 8 HCAs and 8 GPUs, of {RUNS} runs")
        for name, argv, wanted in (
                ("version (the program's start)", [rollcall, "version"], ""),
                ("facts", [rollcall, "facts", "--json", *machine],
                 "   (wanted: at most 50 ms)"),
                ("doctor, of this machine", [rollcall, "doctor"],
                 "   (wanted: at most 2000 ms)")):
            took = timed(argv)
            print(f"  {name:30} median {statistics.median(took):7.1f} ms   "
                  f"worst {took[-1]:7.1f} ms{wanted}")
    print()


if __name__ == "__main__":
    sys.exit(main())
