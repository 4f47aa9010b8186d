"""A rank that the kernel kills for memory, in a memory cgroup with a limit."""
import os
import re
import sys
import unittest

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


def read_text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def own_cgroups():
    """Yields ("1" or "2", folder) of this process's memory cgroups."""
    own = dict(line.split(":", 2)[1:]
               for line in read_text("/proc/self/cgroup").splitlines())
    for line in read_text("/proc/self/mountinfo").splitlines():
        fields, _, mount = line.partition(" - ")
        root, at = fields.split()[3:5]
        kind, _, options = mount.split()[:3]
        controllers = [c for c in own if "memory" in c.split(",")]
        if kind == "cgroup" and "memory" in options.split(",") and controllers:
            path = own[controllers[0]]
            yield "1", os.path.join(at, os.path.relpath(path, root))
        if kind == "cgroup2" and "" in own:
            yield "2", os.path.join(at, os.path.relpath(own[""], root))


def make_cgroup(name):
    """Makes a memory cgroup with LIMIT_BYTES that this process may enter.

    Returns its folder, or None. Prefers one below this process's own, which the
    limits of this process still bind; cgroup v2 permits only one beside it.
    """
    for version, own in own_cgroups():
        folder = os.path.normpath(os.path.join(
            own if version == "1" else os.path.dirname(own), name))
        limit = "memory.limit_in_bytes" if version == "1" else "memory.max"
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            with open(os.path.join(folder, limit), "r+", encoding="ascii") as f:
                f.write(str(LIMIT_BYTES))
            with open(os.path.join(folder, "cgroup.procs"), "r+",
                      encoding="ascii"):
                return folder
        except OSError:
            os.rmdir(folder)
    return None


class Oom(E2E):
    def setUp(self):
        self.cgroup = make_cgroup(f"rollcall-oom-test-{os.getpid()}")
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
