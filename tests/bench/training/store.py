"""Compares the key-value store with PyTorch's TCPStore.

store.py [NODES [RANKS_PER_NODE]]     default: 16 and 16

First, one rank does operations one after the other. Then all ranks publish an
address and read those of all others, as Gloo does for a full mesh. Then all
ranks count and wait for the last one, as PyTorch does after it makes a group.
Agents are real processes, and the ranks are threads of one process; so are
TCPStore's clients. ROLLCALL_TORCH_PYTHON (/usr/bin/python3) is the Python with
the torch to compare. A TCPStore ends with the process that serves it; ours
outlives every rank and the daemon. The two are measured in the same run, but
not at the same time.
"""
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
os.environ.setdefault("ROLLCALL_BIN",
                      os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

import harness  # noqa: E402

OPERATIONS = 3000
NAMES = {"set": "set, one rank", "get": "get, one rank", "add": "add, one rank",
         "add_elsewhere": "add, another node's key",
         "mesh": "addresses of a full mesh", "barrier": "barrier of all"}


def attached(stage, nodes, ranks):
    """Starts a job whose ranks attach; returns each node's socket path."""
    flags = ["--no-hosts", "--attach", "--nproc-per-node", str(ranks)]
    agents = [stage.start([harness.ROLLCALL, "launch", "--nodes", str(nodes),
                           "--job", "bench", *flags])]
    join = agents[0].await_line(r"rc1\.\S+", "err")[0]
    for number in range(1, nodes):
        agents.append(stage.start([harness.ROLLCALL, "join", join, "--name",
                                   f"w{number}", *flags]))
    return [agent.await_line(r"ROLLCALL_SOCKET=(\S+)", "err")[1]
            for agent in agents]


def ours(nodes, ranks):
    """Returns {name: (seconds, operations)} for our store."""
    stage = harness.Stage()
    try:
        sockets = attached(stage, nodes, ranks)
        measured = stage.run([os.path.join(harness.BIN, "store_ranks"),
                              str(ranks), *sockets])
        if measured.code != 0:
            raise SystemExit("\n".join(measured.err()))
        return {name: (float(seconds), int(operations))
                for name, seconds, operations in (
                    line.split() for line in measured.out())}
    finally:
        stage.end()


def all_threads(count, work):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begun


def one_after_the_other(operation):
    begun = time.monotonic()
    for _ in range(OPERATIONS):
        operation()
    return time.monotonic() - begun, OPERATIONS


def theirs(size):
    """Returns the same for TCPStore, or None if there is no torch."""
    try:
        from torch.distributed import TCPStore
    except ImportError:
        return None
    server = TCPStore("127.0.0.1", 0, None, True)
    stores = [TCPStore("127.0.0.1", server.port, None, False)
              for _ in range(size)]
    one = stores[0]
    times = {"set": one_after_the_other(lambda: one.set("mine", "value")),
             "get": one_after_the_other(lambda: one.get("mine")),
             "add": one_after_the_other(lambda: one.add("number", 1))}
    times["add_elsewhere"] = times["add"]
    address = "a" * 200

    def mesh(rank):
        stores[rank].set(f"rank/{rank}", address)
        for i in range(1, size):
            stores[rank].get(f"rank/{(rank + i) % size}")

    def barrier(rank):
        if stores[rank].add("barrier", 1) == size:
            stores[rank].set("all", "1")
        stores[rank].wait(["all"])

    times["mesh"] = all_threads(size, mesh), size * size
    times["barrier"] = all_threads(size, barrier), 2 * size
    return times


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--theirs":
        for name, (seconds, operations) in (
                theirs(int(sys.argv[2])) or {}).items():
            print(name, seconds, operations)
        return
    nodes, ranks = (list(map(int, sys.argv[1:])) + [16, 16][len(sys.argv) - 1:])
    table = ours(nodes, ranks)
    python = os.environ.get("ROLLCALL_TORCH_PYTHON", "/usr/bin/python3")
    said = subprocess.run([python, "-B", __file__, "--theirs",
                           str(nodes * ranks)], stdout=subprocess.PIPE,
                          text=True, check=False).stdout
    peer = {name: float(seconds)
            for name, seconds, _ in map(str.split, said.splitlines())}
    print(f"store: {nodes} nodes with {ranks} ranks each"
          + ("" if peer else "; no torch here, so no peer"))
    print(f"  {'':26} {'ours':>10} {'per second':>11} {'TCPStore':>10} "
          f"{'ratio':>6}")
    for name, (seconds, operations) in table.items():
        beside = (f"{peer[name]:9.3f}s {peer[name] / seconds:6.2f}"
                  if name in peer else "")
        print(f"  {NAMES[name]:26} {seconds:9.3f}s {operations / seconds:11.0f}"
              f" {beside}")


if __name__ == "__main__":
    main()
