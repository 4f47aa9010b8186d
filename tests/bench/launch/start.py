"""Measures how long a whole command takes: four nodes that run `true`.

rollcall (one launcher, three local workers), torchrun (four processes, c10d)
and mpirun (four processes, no rendezvous) take turns on the same machine. The
results are medians.
"""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
BIN = os.environ.get("ROLLCALL_BIN",
                     os.path.join(PROJECT, "build", "release", "bin"))
NODES = 4


def ended(commands, env=None):
    """Runs all at once; returns the seconds until the last has ended."""
    begun = time.monotonic()
    running = [subprocess.Popen(c, stdin=subprocess.DEVNULL, env=env,
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL) for c in commands]
    codes = [p.wait() for p in running]
    took = time.monotonic() - begun
    if any(codes):
        raise RuntimeError(f"{' '.join(commands[0])[:100]} ended with {codes}")
    return took


def rollcall(folder):
    return ended([[os.path.join(BIN, "rollcall"), "launch", "--local-workers",
                   str(NODES - 1), "--no-hosts", "--", "true"]],
                 dict(os.environ, XDG_STATE_HOME=folder))


def torchrun(folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # This release of torch fails on its own enum without the redirects.
    return ended([["/usr/bin/python3", "-m", "torch.distributed.run",
                   "--nnodes", str(NODES), "--nproc_per_node", "1",
                   "--rdzv_backend", "c10d", "--rdzv_id", "bench",
                   "--rdzv_endpoint", f"127.0.0.1:{port}", "--redirects", "1",
                   "--tee", "2", "--log_dir", os.path.join(folder, str(i)),
                   "--no_python", "true"] for i in range(NODES)])


def mpirun(_):
    return ended([["mpirun", "--allow-run-as-root", "--oversubscribe", "-np",
                   str(NODES), "true"]])


def torch_is_here():
    return subprocess.run(["/usr/bin/python3", "-c",
                           "import torch.distributed"],
                          stderr=subprocess.DEVNULL).returncode == 0


def main():
    # Name, function, number of runs, whether the program is installed.
    peers = [("rollcall launch --local-workers 3", rollcall, 9, True),
             ("torchrun, 4 of it (c10d)", torchrun, 3, torch_is_here()),
             ("mpirun -np 4, no rendezvous", mpirun, 9,
              shutil.which("mpirun") is not None)]
    print(f"start: {NODES} nodes that run `true`, whole command")
    for name, run, times, here in peers:
        if not here:
            print(f"  {name:36} is not installed here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                took = sorted(run(folder) for _ in range(times))
            except (OSError, RuntimeError) as error:
                print(f"  {name:36} failed: {error}")
                continue
        print(f"  {name:36} median {statistics.median(took):6.2f} s   "
              f"best {took[0]:6.2f} s   of {times}")
    print("(wanted: at most 0.3 s)\n")


if __name__ == "__main__":
    sys.exit(main())
