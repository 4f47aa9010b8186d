"""How soon PyTorch's process group is made: with our store and with TCPStore.

torch_init.py [NODES [RANKS_PER_NODE]]     default: 2 and 16

Each rank calls init_process_group("gloo"), which makes the full mesh and then
does a barrier. The torch is that of ROLLCALL_PYTORCH_VENV (scripts/packages.sh
pytorch); the two stores take turns. All ranks are forked from one process that
has imported torch, and already have their store. The time is the seconds from
the common start until the last rank has its group.
"""
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
os.environ.setdefault("ROLLCALL_BIN",
                      os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

import harness  # noqa: E402
from paths import PYTORCH_VENV  # noqa: E402
from store import attached  # noqa: E402

RUNS = 5
PYTHON = os.path.join(PYTORCH_VENV, "bin", "python3")
ENV = {"PYTHONPATH": os.path.join(PROJECT, "client", "python"),
       "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

RANKS = """
import os, socket, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
from rollcall._attach import attach_to
from rollcall.torch import Store

name, sockets, per_node = sys.argv[1], sys.argv[3:], int(sys.argv[2])
size = len(sockets) * per_node


def rank(at, place, ready, go, ended):
    if name == "rollcall":
        mine = attach_to(sockets[at // per_node], at % per_node)
        at = mine.world.rank
        store = Store(mine)
    else:
        store = dist.TCPStore("127.0.0.1", place, size, at == 0,
                              timedelta(seconds=60))
    os.write(ready, b"r")
    os.read(go, 1)
    dist.init_process_group("gloo", store=store, rank=at, world_size=size)
    os.write(ended, f"{time.monotonic()}\\n".encode())
    # Rank 0's process has the TCPStore.
    dist.barrier()
    if name == "rollcall":
        mine.finish()


with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    place = probe.getsockname()[1]
(begins, go), (heard, ended), (hears, ready) = os.pipe(), os.pipe(), os.pipe()
pids = []
for at in range(size):
    pids.append(os.fork())
    if pids[-1] == 0:
        os.close(go)
        code = 1
        try:
            rank(at, place, ready, begins, ended)
            code = 0
        finally:
            os._exit(code)
os.close(ended)
for _ in range(size):
    os.read(hears, 1)
began = time.monotonic()
os.close(go)
with os.fdopen(heard) as lines:
    times = [float(line) for line in lines]
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
if codes != [0] * size:
    sys.exit(f"exit codes {codes}")
print(max(times) - began)
"""


def seconds(stage, name, per_node, sockets):
    done = stage.run([PYTHON, "-c", RANKS, name, str(per_node), *sockets], ENV,
                     deadline_s=300)
    if done.code != 0:
        raise SystemExit(done.text())
    return float(done.out()[-1])


def ours(nodes, per_node):
    stage = harness.Stage()
    try:
        return seconds(stage, "rollcall", per_node,
                       attached(stage, nodes, per_node))
    finally:
        stage.end()


def tcpstore(nodes, per_node):
    stage = harness.Stage()
    try:
        return seconds(stage, "TCPStore", per_node, ["-"] * nodes)
    finally:
        stage.end()


def main():
    if not os.access(PYTHON, os.X_OK):
        raise SystemExit(f"there is no {PYTHON}; scripts/packages.sh pytorch "
                         "makes it")
    nodes, per_node = map(int, (sys.argv[1:] + ["2", "16"][len(sys.argv) - 1:]))
    times = {"rollcall": [], "TCPStore": []}
    for _ in range(RUNS):
        times["rollcall"].append(ours(nodes, per_node))
        times["TCPStore"].append(tcpstore(nodes, per_node))
    print(f"init_process_group of {nodes * per_node} ranks on {nodes} nodes over "
          f"Gloo, median (worst) of {RUNS}; wanted: no slower")
    for name, row in times.items():
        print(f"  {name:9} {statistics.median(row):6.3f} s ({max(row):.3f})")


if __name__ == "__main__":
    main()
