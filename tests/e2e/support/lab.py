"""Several hosts on this machine, each in its own namespaces."""
import os
import signal
import subprocess
import unittest

import proc
from paths import BIN, LAB
from stage import DEADLINE_S


class Lab:
    """A lab of N hosts; see scripts/lab.sh."""

    def __init__(self, stage, hosts, **settings):
        self.stage = stage
        self.hosts = hosts
        self.name = f"e2e{os.getpid()}-{len(stage.labs)}"
        self._env = {"LAB_NAME": self.name,
                     "LAB_SHARE": f"{stage.folder}:{BIN}"}
        self._env.update({f"LAB_{k.upper()}": str(v)
                          for k, v in settings.items()})
        stage._tell("+", "lab", f"{self.name} {LAB}")
        stage.labs.append(self)
        made = subprocess.run([LAB, "up", str(hosts)], text=True,
                              env=dict(os.environ, **self._env),
                              stderr=subprocess.PIPE)
        if made.returncode != 0:
            if os.environ.get("ROLLCALL_TEST_WITHOUT_NAMESPACES") == "1":
                raise unittest.SkipTest(
                    "no namespaces here, and ROLLCALL_TEST_WITHOUT_NAMESPACES "
                    "is set: "
                    + made.stderr.strip())
            raise AssertionError(
                "this test needs network namespaces, and they cannot be "
                f"made:\n{made.stderr}\nROLLCALL_TEST_WITHOUT_NAMESPACES=1 "
                "leaves such tests out.")

    def _ask(self, *words):
        return subprocess.run([LAB, *map(str, words)], check=True, text=True,
                              env=dict(os.environ, **self._env),
                              stdout=subprocess.PIPE).stdout.strip()

    def start(self, host, argv, env=None):
        env = dict(self._env, **(env or {}))
        # Each host has its own folders, so hosts share only the test's.
        env.setdefault("XDG_RUNTIME_DIR", None)
        env.setdefault("XDG_STATE_HOME", self.stage.path(f"state{host}"))
        env.setdefault("HOME", self.stage.path(f"home{host}"))
        return self.stage.start([LAB, "exec", host, *argv], env)

    def run(self, host, argv, env=None, deadline_s=DEADLINE_S):
        process = self.start(host, argv, env)
        process.wait(deadline_s)
        return process

    def hosts_file(self, host):
        return os.path.join(self._ask("dir", host), "hosts")

    def read_hosts(self, host):
        with open(self.hosts_file(host), "rb") as f:
            return f.read()

    def processes(self, host):
        """Returns the host's processes, without its first process."""
        first = int(self._ask("pid", host))
        space = os.readlink(f"/proc/{first}/ns/pid")
        found = []
        for pid, (parent, state) in proc.parents().items():
            try:
                same = os.readlink(f"/proc/{pid}/ns/pid") == space
            except OSError:
                continue
            idles = (parent == first
                     and proc.command_line(pid)[:1] == ["sleep"])
            if same and pid != first and state != b"Z" and not idles:
                found.append(pid)
        return found

    def kill_processes(self, host):
        """Kills all processes of the host, as a container runtime ends a
        container; also those that were started while the first were killed."""
        while pids := self.processes(host):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def fault(self, *words):
        self._ask("fault", *words)

    def cut_between(self, some, others):
        """Drops all frames between these and those hosts, both ways."""
        for one in some:
            for other in others:
                self.fault("cut", one, other)
                self.fault("cut", other, one)

    def do(self, what, host):
        """`what` is `kill`, `power`, `boot`, `freeze` or `thaw`."""
        self._ask(what, host)

    def down(self):
        subprocess.run([LAB, "down"], env=dict(os.environ, **self._env))
        self.stage._tell("-", "lab", f"{self.name} {LAB}")
