"""Measures the paired check (--node-check) of 64 nodes on this machine.

All nodes share the machine's cores, so a node's product takes as many times
longer; on a cluster it takes about a second a round.
"""
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
BIN = os.environ.get("ROLLCALL_BIN",
                     os.path.join(PROJECT, "build", "release", "bin"))
NODES = int(os.environ.get("NODES", "64"))


def run(folder, flags):
    """Returns the seconds of the whole command, and the events by kind."""
    begun = time.monotonic()
    subprocess.run([os.path.join(BIN, "rollcall"), "launch", "--local-workers",
                    str(NODES - 1), "--no-hosts", "--state", folder, *flags,
                    "--", "true"], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.monotonic() - begun
    events = {}
    with open(os.path.join(folder, "events.jsonl"), encoding="utf-8") as f:
        for line in f:
            event = json.loads(line)
            events.setdefault(event["event"], []).append(event)
    return took, events


def seconds(event):
    at = event["time"].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(at).timestamp()


def main():
    print(f"node_check: {NODES} nodes that run `true`, on {os.cpu_count()} "
          "cores")
    with tempfile.TemporaryDirectory() as folder:
        took, _ = run(os.path.join(folder, "without"), [])
        print(f"  without the check, whole command {took:24.2f} s")
        took, events = run(os.path.join(folder, "with"), ["--node-check"])
        print(f"  with it {took:49.2f} s")
        [begun] = events["node_check_begun"]
        [check] = events["node_check"]
        print(f"  the check alone, {check['rounds']} round(s) "
              f"{seconds(check) - seconds(begun):31.2f} s")
        print(f"  matrix product, median {float(check['product_ms']):34.1f} ms")
        print(f"  all-reduce, median {float(check['all_reduce_ms']):38.1f} ms")
        found = [e["node"] for e in events.get("quarantined", [])]
        print(f"  found: {check['found']}; left out: {', '.join(found) or '-'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
