"""A rank that the kernel kills for memory, in a memory cgroup with a limit."""
import os
import re
import sys
import unittest

from cgroups import make_cgroup
from harness import E2E, Gate, ROLLCALL

LIMIT_BYTES = 256 << 20

# In its first process it uses memory until it is killed; in its second, it
# waits and then kills itself.
RANK = f"""
import os, signal, sys
if os.environ["ROLLCALL_GENERATION"] == "1":
    kept = []
    while sum(map(len, kept)) < {4 * LIMIT_BYTES}:
        kept.append(b"x" * (1 << 20))
with open(sys.argv[1]) as gate:
    gate.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


class Oom(E2E):
    def setUp(self):
        self.cgroup = make_cgroup(
            f"rollcall-oom-test-{os.getpid()}", "memory",
            {"memory.limit_in_bytes": str(LIMIT_BYTES)},
            {"memory.max": str(LIMIT_BYTES)})
        if self.cgroup is None:
            self.skipTest("no memory cgroup with a limit can be made here")
        # Clean-ups run in reverse order: this one once all processes are gone.
        self.addCleanup(os.rmdir, self.cgroup)
        super().setUp()

    def test_the_oom_killer_is_told_from_kill_9(self):
        gate = Gate(self.stage)
        state = self.stage.path("state")
        launcher = self.stage.start([
            "sh", "-c", f'echo 0 > {self.cgroup}/cgroup.procs; exec "$@"', "-",
            ROLLCALL, "launch", "--no-hosts", "--max-restarts", "1",
            "--state", state, "--", sys.executable, "-c", RANK, gate.path])
        found = launcher.await_line(
            r"generation 2: rank 0 on \S+ was killed by the kernel for memory "
            r"\(OOM killer\): (?:peak (\S+) MiB, )?limit 256 MiB "
            rf"\(cgroup {re.escape(self.cgroup)}\); the rank's largest process "
            r"had (\S+) MiB")
        # The launcher, the daemon, the agent and its guard have the rest.
        self.assertTrue(100 < float(found[2]) <= 256, found[2])
        if found[1] is not None:
            self.assertTrue(200 < float(found[1]) <= 256, found[1])
        cause = self.status(self.kept_join(state))["root_cause"]
        self.assertEqual(cause["code"], "out_of_memory")
        self.assertIn(f"limit 256 MiB (cgroup {self.cgroup})", cause["detail"])
        # The kill that explained the first rank does not explain the second.
        gate.open()
        self.assert_code(launcher, 137)
        self.assertTrue(launcher.find(
            r"rank 0 on \S+ was ended by signal 9 \(SIGKILL\)$"))
        text = launcher.text()
        # In the line of the next world, and in the summary.
        self.assertEqual(text.count("OOM killer"), 2, text)
