"""Compares how soon torchrun's agents meet: through rollcall and through
torchrun's own c10d.

torchrun.py [AGENTS]     default: 16

Each agent is torchrun's own code with one worker, `true`, in the torch of
ROLLCALL_PYTORCH_VENV (scripts/packages.sh pytorch). All agents are forked from
one process that has imported torch, so that the start of Python does not count.
The time is the seconds from the common start until the last agent has ended; it
includes the start and the end of rollcall's daemon and agents. The two take
turns.
"""
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
BIN = os.environ.get("ROLLCALL_BIN",
                     os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

from paths import PYTORCH_VENV  # noqa: E402

PYTHON = os.path.join(PYTORCH_VENV, "bin", "python3")
RUNS = 5

MEETS = """
import os, socket, sys, time
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.run import main
from rollcall.torch.rendezvous import get_handler

rendezvous_handler_registry.register("rollcall", get_handler())
agents, runs = int(sys.argv[1]), int(sys.argv[2])


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def agent(backend, place, run, at, begins, ended):
    os.read(begins, 1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    # As on machines of their own, one of which the endpoint names.
    flags = [f"--rdzv-conf=name=n{at},is_host={int(at == 0)}"] if (
        backend == "rollcall") else []
    main([f"--rdzv-backend={backend}", f"--rdzv-endpoint=127.0.0.1:{place}",
          f"--rdzv-id={run}", f"--nnodes={agents}", *flags, "--no-python",
          "true"])
    os.write(ended, f"{time.monotonic()}\\n".encode())


for run in range(runs):
    for backend in ("rollcall", "c10d"):
        begins, go = os.pipe()
        heard, ended = os.pipe()
        place, pids = port(), []
        for at in range(agents):
            pids.append(os.fork())
            if pids[-1] == 0:
                os.close(go)
                code = 1
                try:
                    agent(backend, place, f"{backend}-{run}", at, begins, ended)
                    code = 0
                finally:
                    os._exit(code)
        os.close(ended)
        began = time.monotonic()
        os.close(go)
        with os.fdopen(heard) as lines:
            times = [float(line) for line in lines]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                 for pid in pids]
        os.close(begins)
        if codes != [0] * agents:
            sys.exit(f"{backend}: exit codes {codes}")
        print(backend, max(times) - began, flush=True)
"""


def main():
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    if not os.access(PYTHON, os.X_OK):
        print(f"torchrun: left out; there is no {PYTHON}, which "
              "scripts/packages.sh pytorch makes")
        return
    secret = subprocess.run([os.path.join(BIN, "rollcall"), "token", "secret"],
                            check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [PYTHON, "-c", MEETS, str(agents), str(RUNS)], check=True,
            stdout=subprocess.PIPE, text=True, env={
                **os.environ, "PATH": f"{BIN}:{os.environ['PATH']}",
                "PYTHONPATH": os.path.join(PROJECT, "client", "python"),
                "ROLLCALL_SECRET": secret.stdout.strip(),
                "XDG_STATE_HOME": state, "OMP_NUM_THREADS": "1"})
    times = {"rollcall": [], "c10d": []}
    for line in done.stdout.splitlines():
        backend, seconds = line.split()
        times[backend].append(float(seconds))
    print(f"{agents} agents of torchrun with `true`, seconds: median (worst)")
    for backend, seconds in times.items():
        print(f"  {backend:9} {statistics.median(seconds):6.2f} "
              f"({max(seconds):.2f})")


if __name__ == "__main__":
    main()
