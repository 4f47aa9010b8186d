"""Tests what a rank can read of its agent and daemon, and what an agent keeps.

Ranks run as their agent's user. Some tests need root, to read any process's
memory and to become another user.
"""
import json
import os
import re
import shutil
import unittest

import harness
import wire
from guarded import Guarded
from secrets_test import forms

NOBODY = 65534
# An interpreter that every user may run.
PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")

# A rank that tries to read the processes that it gets as `name=pid`, its
# parent, and a child of its own. Control: it may read the child's memory.
LOOK = """
import ctypes, os, resource, subprocess, sys
def reads(path):
    try:
        with open(path, "rb", 0) as f:
            if path.endswith("/mem"):
                with open(path.replace("/mem", "/maps")) as maps:
                    f.seek(int(maps.readline().split("-")[0], 16))
            return "read" if f.read(16) else "empty"
    except OSError as error:
        return error.strerror.replace(" ", "-")
child = subprocess.Popen(["sleep", "1000"])
seen = {"agent": os.getppid(), "child": child.pid}
print("rank is here", flush=True)
with open(sys.argv[1]) as f:
    seen["daemon"] = int(f.read())
for name, pid in seen.items():
    for part in ("mem", "environ", "maps", "fd"):
        path = f"/proc/{pid}/{part}"
        if part == "fd":
            try:
                what = "read" if os.listdir(path) else "empty"
            except OSError as error:
                what = error.strerror.replace(" ", "-")
        else:
            what = reads(path)
        print(f"saw {name} {part} {what}")
child.kill()
print("dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
print("core", resource.getrlimit(resource.RLIMIT_CORE))
print("looked", flush=True)
"""


def memory(pid):
    """Yields all readable memory of a process, map by map."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, \
            open(f"/proc/{pid}/mem", "rb", 0) as f:
        for line in maps:
            begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)",
                                          line).groups()
            if "r" not in rights or line.rstrip().endswith(
                    ("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            at, end = int(begin, 16), int(end, 16)
            parts = []
            try:
                f.seek(at)
                while at < end:
                    part = f.read(min(end - at, 16 << 20))
                    if not part:
                        break
                    parts.append(part)
                    at += len(part)
            except OSError:
                pass
            yield b"".join(parts)


def holds(pid, words):
    """Returns those of `words` (bytes) that are in the process's memory."""
    found = set()
    for part in memory(pid):
        found.update(w for w in words if w in part)
    return found


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class Memory(Guarded):
    def processes(self, word):
        """Returns the pids of `rollcall WORD`."""
        return harness.subcommands(harness.descendants(os.getpid()), word)

    def test_an_agent_keeps_no_shared_secret(self):
        secret = self.new_secret()
        written = forms(wire.unbase64(secret))
        path = self.stage.secret_file("secret", secret)
        self.begin(["--listen", "127.0.0.1:0", "--secret-file", path])
        port = wire.Join(self.text).port()
        where = ["--endpoint", f"127.0.0.1:{port}", "--job", self.job]
        spares = [
            self.stranger([*where, "--secret-file", path], name="by-file"),
            self.stranger(where, name="by-env",
                          env={"ROLLCALL_SECRET": secret}),
            self.stage.start(
                ["sh", "-c", f"exec {harness.ROLLCALL} join {' '.join(where)} "
                 f"--secret-file - --name by-stdin --no-hosts -- true < {path}"
                 ])]
        for name in ("by-file", "by-env", "by-stdin"):
            self.assert_let_in(name)
        # Control: the same search finds the secret in the daemon, which keeps
        # it, and finds the job's name in an agent.
        self.assertTrue(holds(self.daemon_pid(), written))
        agents = self.processes("join") + self.processes("agent")
        self.assertEqual(len(agents), 5)
        for pid in agents:
            name = " ".join(harness.command_line(pid))
            self.assertEqual(holds(pid, [self.job.encode()]),
                             {self.job.encode()}, name)
            found = [written.index(w) for w in holds(pid, written)]
            self.assertEqual(found, [], f"forms of the secret in {name}")
        self.goes_on()
        for spare in spares:
            self.assert_code(spare, 0)

    def look(self, user):
        """Runs a rank that tries to read other processes; returns {"NAME PART":
        result} and the launcher."""
        folder = self.stage.path("private")
        os.mkdir(folder, 0o700)
        os.chown(folder, user, user)
        with open(os.path.join(folder, "look.py"), "w", encoding="ascii") as f:
            f.write(LOOK)
        # This user may not be able to read the clone, as below /root.
        rollcall = shutil.copy(harness.ROLLCALL, folder)
        fifo = os.path.join(folder, "daemon")
        os.mkfifo(fifo)
        os.chown(fifo, user, user)
        state = os.path.join(folder, "state")
        words = ["env", f"HOME={folder}", f"XDG_STATE_HOME={folder}",
                 f"TMPDIR={folder}", f"XDG_RUNTIME_DIR={folder}",
                 rollcall, "launch", "--job", "look", "--state", state,
                 "--listen", "127.0.0.1:0", "--no-hosts", "--", PYTHON,
                 os.path.join(folder, "look.py"), fifo]
        if user:
            words = ["setpriv", f"--reuid={user}", f"--regid={user}",
                     "--clear-groups", *words]
        launcher = self.stage.start(["prlimit", "--core=4096:8192", *words])
        launcher.await_line("rank is here")
        with open(fifo, "w", encoding="ascii") as f:
            with open(os.path.join(state, "daemon.json"),
                      encoding="utf-8") as known:
                daemon = json.load(known)["daemon_pid"]
            for pid in [daemon, *self.processes("agent"),
                        *self.processes("launch")]:
                with open(f"/proc/{pid}/limits", encoding="ascii") as limits:
                    self.limits.append(limits.read())
            f.write(str(daemon))
        launcher.await_line("looked")
        self.assert_code(launcher, 0)
        saw = {}
        for line in launcher.out():
            found = re.search(r"saw (\w+ \w+) (\S+)$", line)
            if found:
                saw[found[1]] = found[2]
        self.assertEqual(len(saw), 12)
        return saw, launcher

    def test_a_rank_of_the_same_user_reads_nothing_of_them(self):
        self.limits = []
        saw, launcher = self.look(NOBODY)
        for name in ("agent", "daemon"):
            for part in ("mem", "environ", "maps", "fd"):
                self.assertEqual(saw[f"{name} {part}"], "Permission-denied",
                                 f"{name} {part}")
        for part in ("mem", "environ", "maps", "fd"):
            self.assertEqual(saw[f"child {part}"], "read", part)
        self.assertEqual(len(self.limits), 3)
        for limits in self.limits:
            self.assertRegex(limits, r"Max core file size +0 +8192")
        # The rank has the default for "dumpable", and the core limit of the
        # process that launched.
        self.assertTrue(launcher.find(r"dumpable 1$"))
        self.assertTrue(launcher.find(r"core \(4096, 8192\)$"))
