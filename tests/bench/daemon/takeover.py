"""Measures how long agents have no leader after the leading daemon is killed.

Three rollcalld share their state in an etcd of three members, all on this
machine; sixteen agents run a world. The leader is killed with -9. The time is
until all agents attend at the next leader. No rank may be restarted.

The lower bound is printed, too: etcd ends a lease only when its time to live
has passed since the last renewal, and the shortest one that it grants is 2 s.
"""
import os
import signal
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
os.environ.setdefault("ROLLCALL_BIN",
                      os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

import harness  # noqa: E402
from etcd import ETCD, Etcd  # noqa: E402

AGENTS = 16
RUNS = 5
LEASE_S = 2.0
WANTED_S = 4.0


def daemon(stage, etcd, secret):
    process = stage.start(
        [os.path.join(harness.BIN, "rollcalld"), "--listen", "127.0.0.1:0",
         "--secret-file", secret, "--state",
         f"etcd://{','.join(etcd.endpoints)}/bench"])
    port = process.await_line(r"listening on port (\d+)")[1]
    process.at = f"127.0.0.1:{port}"
    return process


def first_at(process, pattern, after):
    """Returns when the first such line was printed after that time, or None."""
    for at, _, text in process.lines:
        if at > after and pattern in text:
            return at
    return None


def take_over(stage, daemons, agents):
    """Kills the leader; returns the seconds until the next one leads and until
    all agents are back."""
    leading = max(daemons, key=lambda d: max(
        [at for at, _, text in d.lines if "event=leads" in text], default=0))
    killed = time.monotonic()
    leading.signal(signal.SIGKILL)
    left = [d for d in daemons if d is not leading]
    stage.pump(lambda: any(first_at(d, "event=leads", killed) for d in left),
               "the next leader")
    stage.pump(lambda: all(first_at(a, "attending again", killed)
                           for a in agents), "all agents")
    leads = min(at for d in left
                for at in [first_at(d, "event=leads", killed)] if at)
    back = max(first_at(a, "attending again", killed) for a in agents)
    leading.wait()
    daemons.remove(leading)
    return leads - killed, back - killed


def measure(stage):
    secret = stage.secret_file("secret")
    etcd = Etcd(stage)
    daemons = [daemon(stage, etcd, secret) for _ in range(3)]
    stage.pump(lambda: any(d.find("event=leads") for d in daemons), "a leader")
    took = []
    for run in range(RUNS):
        # Each run has three daemons and a world of its own.
        gate = harness.Gate(stage)
        agents = [stage.start(
            [harness.ROLLCALL, "join", "--endpoint",
             ",".join(d.at for d in daemons), "--job", f"run-{run}",
             "--secret-file", secret, "--nodes", AGENTS, "--name", f"n{i}",
             "--no-hosts", "--", "sh", "-c", f"echo up; cat {gate.path}"])
            for i in range(AGENTS)]
        for agent in agents:
            agent.await_line(r"\] up$")
        took.append(take_over(stage, daemons, agents))
        gate.open()
        for agent in agents:
            if agent.wait() != 0 or len(agent.out()) != 1:
                stage.fail(f"{agent}: a rank was restarted, or failed")
        daemons.append(daemon(stage, etcd, secret))
    return took


def main():
    print(f"takeover: the leader of three daemons on etcd is killed, "
          f"{AGENTS} agents")
    if not os.access(ETCD, os.X_OK):
        print(f"  there is no {ETCD} here")
        return 1
    stage = harness.Stage()
    try:
        took = measure(stage)
    finally:
        stage.end()
    for name, column in (("the next daemon leads", 0),
                         ("all agents are back", 1)):
        values = sorted(t[column] for t in took)
        print(f"  {name:36} median {statistics.median(values):6.2f} s   "
              f"best {values[0]:6.2f} s   worst {values[-1]:6.2f} s   "
              f"of {RUNS}")
    print(f"  {'floor: time to live of the lease':36} {LEASE_S:13.2f} s")
    print(f"(wanted: at most {WANTED_S:g} s; no rank was restarted)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
