"""Measures how long it takes to prepare a world, NCCL ids included.

nccl_id.py [RUNS]    RUNS: 1 to 1000, default 9

Four nodes of 8 ranks run on this machine; each rank prints whether it got ids.
The phase `prepare` of the daemon's spans lasts from the proposal until all
nodes are prepared; node rank 0 makes the ids in it. The process that makes an
id is measured in turn with it, as the lower bound. The first round warms up the
library and does not count.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
ROLLCALL = os.path.join(
    os.environ.get("ROLLCALL_BIN",
                   os.path.join(PROJECT, "build", "release", "bin")),
    "rollcall")
NODES = 4
RANK = ["sh", "-c", 'test ! -s "$ROLLCALL_NCCL_ID_FILE" || echo ids']


def prepared():
    """Returns the milliseconds of a launch's phase `prepare`, and whether its
    world had ids."""
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [ROLLCALL, "launch", "--state", state, "--no-hosts",
             "--local-workers", str(NODES - 1), "--nproc-per-node", "8",
             "--listen", "127.0.0.1:0", "--max-restarts", "0", "--", *RANK],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the launcher ended with {done.returncode} and "
                               f"said:\n{done.stderr}")
        with open(os.path.join(state, "spans.jsonl"), encoding="utf-8") as file:
            spans = [span for line in file
                     for resource in json.loads(line)["resourceSpans"]
                     for scope in resource["scopeSpans"]
                     for span in scope["spans"]]
    took = [int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
            for span in spans if span["name"] == "prepare"]
    if len(took) != 1:
        raise RuntimeError(f"expected one phase `prepare`, found {len(took)}; "
                           f"the launcher said:\n{done.stderr}")
    return took[0] / 1e6, "ids" in done.stdout


def minted():
    """Returns the milliseconds of the process that makes one id."""
    begun = time.monotonic()
    subprocess.run([ROLLCALL, "mint-nccl-id", "--count", "1"], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.monotonic() - begun) * 1e3


def main(arguments):
    runs = int(arguments[0]) if arguments else 9
    if not 1 <= runs <= 1000:
        print("nccl_id.py [RUNS], 1 to 1000", file=sys.stderr)
        return 2
    first, ids = prepared()
    if not ids:
        print("nccl_id: no libnccl is found here, so no ids are made; a world "
              f"without them was prepared in {first:.1f} ms\n")
        return 0
    worlds, floor = [], []
    minted()
    for _ in range(runs):
        worlds.append(prepared()[0])
        floor.append(minted())
    print(f"nccl_id: from the proposal until all {NODES} nodes are prepared, "
          f"with ids: median {statistics.median(worlds):.1f} ms, worst of "
          f"{runs} {max(worlds):.1f} ms, library cold {first:.1f} ms\n"
          "  the process that makes an id, alone: median "
          f"{statistics.median(floor):.1f} ms\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
