"""Measures how soon a training continues after a node is lost or added.

Three agents train on this machine with one rank each, in a world of two to
three. One agent and all processes below it are killed with -9: the time is
until the other two have done a step without it. Another agent joins: the time
is until all three have done a step together. This is done for rollcall with
rollcall-train, and for torchrun with a small model of PyTorch's
DistributedDataParallel (specs/pytorch/elastic_ddp.py).

rollcall waits reconnect_grace (1 s) for an agent whose stream broke. This is a
setting and not counted here; the figures marked "in all" include it.
"""
import glob
import itertools
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

RUNS = int(os.environ.get("ROLLCALL_ELASTIC_RUNS", "5"))
TORCH_RUNS = int(os.environ.get("ROLLCALL_ELASTIC_TORCH_RUNS", "1"))
GRACE_S = 1.0
WANTED_S = 1.0
PYTHON = "/usr/bin/python3"
SCRIPT = os.path.join(PROJECT, "specs", "pytorch", "elastic_ddp.py")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
STEP = re.compile(r"step \d+ loss \S+ .*?\bworld (\d)")


def worlds(agent, after):
    """Yields (time, world size) for each step printed after that time."""
    for at, stream, text in agent.lines:
        m = STEP.search(text) if stream == "out" and at > after else None
        if m:
            yield at, int(m[1])


def until_all_step(stage, agents, size, since, deadline_s):
    """Returns the seconds until each has printed a step in such a world."""
    def first(agent):
        return next((at for at, world in worlds(agent, since)
                     if world == size), None)
    stage.pump(lambda: all(first(a) is not None for a in agents),
               f"steps in a world of {size}", deadline_s)
    return max(first(a) for a in agents) - since


def measure(stage, begin, add, runs, deadline_s):
    """Returns [(lost, joined)] in seconds. `begin` starts two agents."""
    agents = begin()
    agents.append(add())
    until_all_step(stage, agents, 3, 0, deadline_s)
    took = []
    for _ in range(runs):
        until = time.monotonic() + 3
        stage.pump(lambda: time.monotonic() >= until, "a while", 4)
        victim = agents.pop()
        doomed = [victim.pid, *harness.descendants(victim.pid)]
        killed = time.monotonic()
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        lost = until_all_step(stage, agents, 2, killed, deadline_s)
        victim.wait()
        begun = time.monotonic()
        agents.append(add())
        took.append((lost, until_all_step(stage, agents, 3, begun,
                                          deadline_s)))
    return took  # The stage ends the remaining processes.


def rollcall(stage):
    command = [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
               "--steps", "100000000", "--log-all-ranks"]
    state = {"names": itertools.count(1)}

    def begin():
        launcher = stage.start([harness.ROLLCALL, "launch", "--nodes", "2:3",
                                "--no-hosts", "--name", "w0", "--", *command])
        state["join"] = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        return [launcher, add()]

    def add():
        # A new name each time, since a lost one may have to wait.
        name = f"w{next(state['names'])}"
        return stage.start([harness.ROLLCALL, "join", state["join"],
                            "--no-hosts", "--name", name, "--", *command])
    return measure(stage, begin, add, RUNS, 30)


def torchrun(stage):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = stage.path("torch")
    os.mkdir(folder)

    def add():
        # This release of torch fails on its own enum without the redirects.
        return stage.start(
            [PYTHON, "-m", "torch.distributed.run", "--nnodes", "2:3",
             "--nproc_per_node", "1", "--max_restarts", "100", "--redirects",
             "2", "--tee", "1", "--log_dir", folder,
             "--rdzv_backend", "c10d", "--rdzv_id", "bench",
             "--rdzv_endpoint", f"127.0.0.1:{port}", SCRIPT, folder,
             "100000000"])

    def begin():
        return [add(), add()]
    return measure(stage, begin, add, TORCH_RUNS, 180)


def tell(who, took, grace_s):
    for what, column, grace in (("one of three is lost", 0, grace_s),
                                ("a third one joins", 1, 0)):
        values = sorted(t[column] for t in took)
        counted = [v - grace for v in values]
        print(f"  {who:9} {what:22} median {statistics.median(counted):6.2f} s"
              f"   worst {counted[-1]:6.2f} s   in all "
              f"{statistics.median(values):6.2f} s   of {len(values)}")


def main():
    print("elastic: until all that are left, or all three, have done a step")
    for who, run, grace in (("rollcall", rollcall, GRACE_S),
                            ("torchrun", torchrun, 0)):
        stage = harness.Stage()
        try:
            tell(who, run(stage), grace)
        finally:
            stage.end()
    print(f"(wanted: at most {WANTED_S:g} s each, reconnect_grace not "
          "counted)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
