"""Measures how soon PyTorch's processes continue after a node is lost or added.

torch_elastic.py [NODES [cpu|cuda]]     default: 8 cpu

There is one rank a node. Each has one thread over Gloo; over NCCL all ranks
share one GPU, and only rollcall is measured. rollcall.torch.elastic runs with
the torch of ROLLCALL_TEST_TORCH_PYTHON or ROLLCALL_PYTORCH_VENV
(scripts/packages.sh pytorch).

Node killed: the seconds from a kill -9 of an agent and its rank until the last
survivor has done a step in the next world. reconnect_grace (1 s), for which
rollcall waits for the agent, is a setting and is not counted.
Newcomer: the seconds from the first line of a new process (without the start of
Python) until all ranks have done a step with it.
All-reduce freed: all processes of a node are stopped (SIGSTOP), and the others
block in their all-reduce. The seconds, in each survivor, from the time at which
its package gets the abort until the training thread has left the collective.

For comparison, torchrun of the same torch (its own rendezvous restarts the
workers) and torchft (its processes keep running) are measured once each. The
time of a commit is compared with that of the optimizer alone.
"""
import os
import re
import signal
import socket
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
os.environ.setdefault("ROLLCALL_BIN",
                      os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

import harness  # noqa: E402
from gpus import apart  # noqa: E402
from paths import PYTORCH_VENV  # noqa: E402

RUNS = 5
# The number of torchrun's nodes; 8 need more than five minutes on two cores.
PEERS = 3
# How long torchrun's survivors may take.
TORCHRUN_S = 300
GRACE_S = 1.0
ON_GPU = sys.argv[2:] == ["cuda"]
PYTHON = os.environ.get("ROLLCALL_TEST_TORCH_PYTHON",
                        os.path.join(PYTORCH_VENV, "bin", "python3"))
ENV = {"PYTHONPATH": os.path.join(PROJECT, "client", "python"),
       "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
if not ON_GPU:
    ENV["CUDA_VISIBLE_DEVICES"] = ""
STEP = re.compile(r"t=(\S+) step \d+ of (\d+)$")
BEGUN = re.compile(r"t=(\S+) begins")
FREED = re.compile(r"freed after (\S+)")

TRAINS = """
import sys, time
import rollcall, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rollcall.torch import elastic
rank = rollcall.attach(elastic=True)
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 8).to(device)
state = elastic.State(model, torch.optim.SGD(model.parameters(), lr=1e-3))
print(f"t={time.time():.6f} begins", flush=True)

@elastic.run
def train(state):
    ddp = DistributedDataParallel(state.model)
    size, told, heard = dist.get_world_size(), 0, []
    rank.when_over(lambda: heard.append(time.monotonic()))
    x = torch.ones(4, 8).to(device)
    while True:
        try:
            ddp(x).sum().backward()
        except RuntimeError:
            out = time.monotonic()
            if heard:
                print(f"freed after {out - heard[0]:.6f}", flush=True)
            raise
        state.commit()
        if told < 3 or state.step % 200 == 0:
            print(f"t={time.time():.6f} step {state.step} of {size}", flush=True)
            told += 1

train(state)
"""

# The same training under torchrun, with a new process group at each start.
TORCHRUN_TRAINS = """
import time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
ddp = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
size, step, x = dist.get_world_size(), 0, torch.ones(4, 8)
while True:
    ddp(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if step <= 3 or step % 200 == 0:
        print(f"t={time.time():.6f} step {step} of {size}", flush=True)
"""

# torchft's processes keep running, too. In each step they ask the lighthouse
# which processes are there. Its DDP does not survive a lost peer (torchft 0.2,
# torch 2.11), so the gradients are summed without DDP.
LIGHTHOUSE = """
import signal
from torchft.coordination import LighthouseServer
server = LighthouseServer(bind="127.0.0.1:0", min_replicas=2,
                          join_timeout_ms=1000)
print("lighthouse", server.address(), flush=True)
signal.pause()
"""
TORCHFT_TRAINS = """
import sys, time
from datetime import timedelta
import torch, torch.distributed as dist
from torchft import Manager, Optimizer, ProcessGroupGloo
torch.set_num_threads(1)
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
limit = timedelta(seconds=60)
manager = Manager(
    pg=ProcessGroupGloo(timeout=limit), min_replica_size=2, timeout=limit,
    load_state_dict=model.load_state_dict, state_dict=model.state_dict,
    replica_id=sys.argv[1], lighthouse_addr=sys.argv[2], hostname="127.0.0.1",
    rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port)
stepper = Optimizer(manager, optimizer)
x, told, was = torch.ones(4, 8), 0, 0
while True:
    stepper.zero_grad()
    model(x).sum().backward()
    for sent in [manager.allreduce(p.grad) for p in model.parameters()]:
        sent.wait()
    stepper.step()
    size, step = manager.num_participants(), manager.current_step()
    told, was = (told if size == was else 0), size
    if told < 3 or step % 200 == 0:
        print(f"t={time.time():.6f} step {step} of {size}", flush=True)
        told += 1
"""

# Prints the microseconds of a commit, or of the optimizer alone. A process runs
# one elastic function only.
COMMITS = """
import sys, time, torch
from rollcall.torch import elastic
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
times = []
def steps(step):
    x = torch.ones(4, 8)
    for _ in range(3000):
        model(x).sum().backward()
        begun = time.perf_counter()
        step()
        times.append(time.perf_counter() - begun)
def plain():
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
if sys.argv[1] == "commit":
    elastic.run(lambda state: steps(lambda: state.commit(0.5)))(
        elastic.State(model, optimizer))
    torch.distributed.destroy_process_group()
else:
    steps(plain)
print(f"{sorted(times)[len(times) // 2] * 1e6:.1f}")
"""


def last_step(stage, agents, size, since, deadline_s=120):
    """Returns when the last agent did its first step after `since` in a world
    of that size."""
    def first(agent):
        for line in agent.out():
            m = STEP.search(line)
            if m and float(m[1]) > since and int(m[2]) == size:
                return float(m[1])
        return None
    stage.pump(lambda: all(first(agent) is not None for agent in agents),
               f"steps in a world of {size}", deadline_s)
    return max(first(agent) for agent in agents)


def measure(nodes):
    rows = {"node killed (s)": [], "newcomer taken in (s)": [],
            "all-reduce freed (s)": []}
    stage = harness.Stage()
    try:
        command = apart([PYTHON, "-c", TRAINS])
        launcher = stage.start(
            [harness.ROLLCALL, "launch", "--no-hosts", "--job", "bench",
             "--nodes", f"{nodes - 1}:{nodes}", "--max-restarts", "100", "--",
             *command], ENV)
        join = launcher.await_line(r"rc1\.\S+", "err")[0]

        def worker(number):
            return stage.start([harness.ROLLCALL, "join", join, "--no-hosts",
                                "--name", f"w{number}", "--", *command], ENV)
        workers = [worker(number) for number in range(1, nodes)]
        last_step(stage, [launcher, *workers], nodes, 0)
        for number in range(RUNS):
            lost = workers.pop()
            since = kill(lost)
            at = last_step(stage, [launcher, *workers], nodes - 1, since)
            rows["node killed (s)"].append(at - since - GRACE_S)
            comes = worker(100 + number)
            begins = float(comes.await_line(BEGUN.pattern)[1])
            workers.insert(0, comes)
            at = last_step(stage, [launcher, *workers], nodes, begins)
            rows["newcomer taken in (s)"].append(at - begins)
        # With NCCL no thread blocks inside a collective's call.
        for number in range(0 if ON_GPU else RUNS):
            rows["all-reduce freed (s)"] += freed_by_abort(
                stage, workers.pop(), [launcher, *workers])
            workers.insert(0, worker(200 + number))
            last_step(stage, [launcher, *workers], nodes, time.time())
    finally:
        stage.end()
    return rows


def freed_by_abort(stage, silent, survivors):
    """Stops `silent`. Returns for how many seconds each survivor is still in
    the collective after it got the abort. Survivors that had left the
    collective before, because a freed peer closed its connections, are left
    out."""
    before = {agent: len(agent.out()) for agent in survivors}
    since = kill(silent, signal.SIGSTOP)
    last_step(stage, survivors, len(survivors), since)
    kill(silent)
    return [float(m[1]) for agent in survivors
            for m in map(FREED.search, agent.out()[before[agent]:]) if m]


def kill(process, number=signal.SIGKILL):
    """Sends the signal to a process and all its descendants; returns the time
    just before."""
    since = time.time()
    for pid in [process.pid, *harness.descendants(process.pid)]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    return since


def measure_torchrun(nodes):
    """Returns the seconds from the kill -9 of the last node until all others
    have done a step, as text. The first node has torchrun's store, without
    which all nodes end."""
    stage = harness.Stage()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        script = stage.path("trains.py")
        with open(script, "w", encoding="ascii") as f:
            f.write(TORCHRUN_TRAINS)
        agents = [stage.start(
            [PYTHON, "-m", "torch.distributed.run",
             "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
             f"--rdzv-conf=is_host={int(number == 0)}",
             f"--nnodes={nodes - 1}:{nodes}", "--max-restarts=100", script],
            ENV) for number in range(nodes)]
        last_step(stage, agents, nodes, 0)
        since = kill(agents.pop())
        try:
            at = last_step(stage, agents, nodes - 1, since, TORCHRUN_S)
        except AssertionError:
            return f"no step of all survivors within {TORCHRUN_S} s"
        return f"{at - since:6.1f}"
    finally:
        stage.end()


def measure_torchft(nodes):
    """Returns the same as measure_torchrun, as text. Nodes are not killed in
    the first steps, while members still take over the state: survivors then
    waited for their time limit (60 s), and one ended."""
    stage = harness.Stage()
    try:
        if stage.run([PYTHON, "-c", "import torchft"], ENV).code != 0:
            return "not installed"
        # Both programs log each step to stderr, which is dropped.
        quiet = ["sh", "-c", 'exec "$@" 2>/dev/null', "sh", PYTHON, "-c"]
        address = stage.start([*quiet, LIGHTHOUSE], ENV).await_line(
            r"lighthouse (http\S+)", deadline_s=120)[1]
        agents = [stage.start([*quiet, TORCHFT_TRAINS, f"r{number}", address],
                              ENV) for number in range(nodes)]
        for agent in agents:
            agent.await_line(rf"step [1-9]\d\d+ of {nodes}$", deadline_s=120)
        since = kill(agents.pop())
        try:
            at = last_step(stage, agents, nodes - 1, since)
        except AssertionError:
            return "no step of all survivors within 120 s"
        return f"{at - since:.3f}"
    finally:
        stage.end()


def main():
    if not os.access(PYTHON, os.X_OK):
        raise SystemExit(f"there is no {PYTHON}; scripts/packages.sh pytorch "
                         "makes it")
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    rows = measure(nodes)
    print(f"torch_elastic: {nodes} nodes, median (worst) of {RUNS}; wanted 0.5 s, "
          f"an all-reduce freed in 0.1 s ({len(rows['all-reduce freed (s)'])} "
          "ranks)")
    for name, times in rows.items():
        if times:
            print(f"  {name:24} {statistics.median(times):6.3f} "
                  f"({max(times):.3f})")
    if ON_GPU:
        return
    print(f"  node killed, torchrun of {PEERS} nodes {measure_torchrun(PEERS)}")
    print(f"  node killed, torchft   {measure_torchft(nodes)}", flush=True)
    stage = harness.Stage()

    def step_us(what):
        one = stage.run([harness.ROLLCALL, "launch", "--no-hosts", "--job",
                         what, "--", PYTHON, "-c", COMMITS, what], ENV)
        if one.code != 0:
            raise RuntimeError(one.text())
        return float(one.out()[-1].split()[-1])

    try:
        alone, with_commit = step_us("optimizer"), step_us("commit")
    finally:
        stage.end()
    print(f"  commit, median of 3,000: {with_commit:.1f} us, the optimizer alone "
          f"{alone:.1f} us; wanted 10 us more, 1% of a step of 1 ms")


if __name__ == "__main__":
    main()
