"""Measures how long nodes probe each other before their first world is formed.

There are 64 hosts by default. Each is a network namespace with an agent; a
standing daemon runs on the first one. All pairs are probed in both directions,
at both addresses of each host. The times are from the daemon's log: the round
of probes, and the formation that follows it, from the proposal to the commit.
"""
import datetime
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
os.environ.setdefault("ROLLCALL_BIN",
                      os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

import harness  # noqa: E402

HOSTS = int(sys.argv[1]) if len(sys.argv) > 1 else 64
RUNS = 3
WANTED_S = 1.0


def measure(lab, daemon, port, secret, job):
    """Returns the seconds of the probes, and from proposal to commit."""
    agents = [lab.start(host, [
        harness.ROLLCALL, "join", "--endpoint", f"10.77.0.1:{port}", "--job",
        job, "--secret-file", secret, "--nodes", str(HOSTS), "--", "true"])
        for host in range(1, HOSTS + 1)]
    for agent in agents:
        agent.wait(deadline_s=300)

    def at(event):
        line = daemon.find(rf"time=(\S+)Z .* job={job} event={event} ")
        return datetime.datetime.fromisoformat(line[1])

    probe, form, ran = at("probe"), at("form"), at("run")
    return (form - probe).total_seconds(), (ran - form).total_seconds()


def main():
    stage = harness.Stage()
    try:
        secret = stage.secret_file("secret")
        lab = harness.Lab(stage, HOSTS)
        daemon = lab.start(1, [
            os.path.join(harness.BIN, "rollcalld"), "--listen",
            "0.0.0.0:0", "--secret-file", secret])
        port = daemon.await_line(r"listening on port (\d+)")[1]
        rounds, formations = zip(*[
            measure(lab, daemon, port, secret, f"bench-{run}")
            for run in range(RUNS)])
    finally:
        stage.end()
    print(f"probing: {HOSTS} hosts, {HOSTS * (HOSTS - 1)} pairs, medians of "
          f"{RUNS}")
    print(f"  round of probes     {statistics.median(rounds):6.2f} s   worst "
          f"{max(rounds):6.2f} s   (wanted: at most {WANTED_S:g} s)")
    print(f"  proposal to commit  {statistics.median(formations):6.2f} s\n")


main()
