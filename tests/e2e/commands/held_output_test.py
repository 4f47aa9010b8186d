"""stdout and stderr that nothing reads, after Ctrl-S or with a full pipe."""
import json
import os
import signal

import harness
from harness import E2E, Gate


class NobodyReads(E2E):
    def setUp(self):
        super().setUp()
        self.full = self.stage.path("full")
        self.up = self.stage.path("up")
        os.mkfifo(self.full)
        os.mkfifo(self.up)
        fd = os.open(self.full, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, fd)
        for size in (4096, 1):
            try:
                while os.write(fd, b"." * size):
                    pass
            except BlockingIOError:
                pass
        self.gate = Gate(self.stage)
        self.command = ["sh", "-c", f"echo $ROLLCALL_GENERATION >{self.up}; "
                        f"cat {self.gate.path}"]

    def held(self, *words):
        return self.stage.start(
            ["sh", "-c", 'exec "$@" >"$0" 2>&1', self.full, harness.ROLLCALL,
             words[0], "--hosts-file", self._hosts, *words[1:], "--",
             *self.command])

    def await_up(self, ranks):
        """Waits until that many ranks are up, all in generation 1."""
        said = ""
        while len(said.split()) < ranks:
            with open(self.up, encoding="ascii") as f:
                said += f.read()
        self.assertEqual(set(said.split()), {"1"})

    def kill_daemon(self, job):
        path = os.path.join(self.stage.path("state"), "rollcall", job,
                            "daemon.json")
        with open(path, encoding="utf-8") as f:
            pid = json.load(f)["daemon_pid"]
        os.kill(pid, signal.SIGKILL)
        self.stage.await_gone([pid], "the daemon")

    def test_a_launcher_starts_its_daemon_again_and_ends(self):
        launcher = self.held("launch", "--job", "held")
        self.await_up(1)
        self.kill_daemon("held")
        self.gate.open()
        self.assert_code(launcher, 0)

    def test_a_launcher_hears_signals(self):
        launcher = self.held("launch", "--job", "held")
        self.await_up(1)
        launcher.signal(signal.SIGTERM)
        self.assert_code(launcher, 75)

    def test_an_agent_redials(self):
        launcher = self.launch(["--job", "held", "--nodes", "2"], self.command)
        worker = self.held("join", self.join_string(launcher), "--name", "w1")
        self.await_up(2)
        self.kill_daemon("held")
        launcher.await_line("it is started again")
        self.gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
