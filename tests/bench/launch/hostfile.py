"""Measures how long `launch --hostfile` takes on four hosts until ranks run.

The hosts are network namespaces, with the launcher on the first one and a real
sshd on each. The times are the seconds from the start of the command until its
first and its last rank has printed. For comparison, a shell over ssh on the
three other hosts at once (the lower bound) and mpirun with the same ssh are
measured. All take turns; the results are medians.
"""
import os
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
os.environ.setdefault("ROLLCALL_BIN",
                      os.path.join(PROJECT, "build", "release", "bin"))
sys.path.insert(0, os.path.join(PROJECT, "tests", "e2e", "support"))

import harness  # noqa: E402
from sshd import Sshd  # noqa: E402

HOSTS = 4
RUNS = 7
WANTED_S = 2.0


def printed(stage, lab, argvs, lines):
    """Returns the seconds until all commands together have printed one line,
    and `lines` lines."""
    begun = time.monotonic()
    running = [lab.start(1, argv) for argv in argvs]
    times = []

    def count():
        said = sum(len([x for x in p.out() if x.endswith("here")])
                   for p in running)
        while len(times) < said:
            times.append(time.monotonic() - begun)
        return said >= lines

    stage.pump(count, "no output")
    for process in running:
        process.wait()
    return times[0], times[-1]


def main():
    stage = harness.Stage()
    rows = {}
    try:
        lab = harness.Lab(stage, HOSTS)
        sshd = Sshd(stage, lab, range(1, HOSTS + 1))
        hosts = [f"lab{host}" for host in range(1, HOSTS + 1)]
        with open(stage.path("hostfile"), "w", encoding="utf-8") as f:
            f.write("\n".join(hosts) + "\n")
        peers = {
            "rollcall launch --hostfile": [[
                harness.ROLLCALL, "launch", "--ssh", sshd.ssh, "--hostfile",
                stage.path("hostfile"), "--", "echo", "here"]],
            "ssh to three hosts, at once": [
                [*sshd.ssh.split(), host, "echo", "here"]
                for host in hosts[1:]]}
        if shutil.which("mpirun"):
            peers["mpirun over ssh, no rendezvous"] = [[
                "mpirun", "--allow-run-as-root", "-np", str(HOSTS),
                "--mca", "plm_rsh_agent", sshd.ssh, "--mca",
                "oob_tcp_if_include", "10.77.0.0/24", "--host",
                ",".join(hosts), "echo", "here"]]
        for _ in range(RUNS):
            for name, argvs in peers.items():
                lines = HOSTS if len(argvs) == 1 else len(argvs)
                rows.setdefault(name, []).append(
                    printed(stage, lab, argvs, lines))
    finally:
        stage.end()
    print(f"hostfile: {HOSTS} hosts, medians of {RUNS}; wanted: the first rank "
          f"within {WANTED_S:.0f} s")
    print(f"  {'':32} first   last")
    for name, times in rows.items():
        first, last = (statistics.median(column) for column in zip(*times))
        print(f"  {name:32} {first:5.2f}  {last:5.2f} s")


if __name__ == "__main__":
    main()
