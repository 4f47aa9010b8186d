"""Tests torchrun with `--rdzv-backend=rollcall` on lab hosts."""
import os
import signal
import unittest

import harness
import proc
from harness import Gate, Lab
from rank_python_test import ENVIRONMENT
from with_torch import PYTHON, WithTorch

RANK = os.path.join(harness.PROJECT, "tests", "interop", "torchrun_rank.py")

# torchrun before 2.5 reads no entry points, so this registers the handler.
TORCHRUN = """
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.run import main
from rollcall.torch.rendezvous import get_handler
rendezvous_handler_registry.register("rollcall", get_handler())
main()
"""

# Checks the flags or the error that result from torchrun's parameters.
SETTINGS = """
import sys
from torch.distributed.elastic.rendezvous import RendezvousParameters
from rollcall.torch import _rendezvous_settings
from rollcall.torch._rendezvous_settings import Settings

def settings(endpoint, environment, **config):
    _rendezvous_settings._taken.clear()
    return Settings(RendezvousParameters("rollcall", endpoint, "My_run", 2, 4,
                                         **config), environment)

SECRET = {"ROLLCALL_SECRET": "s"}
JOB = "--nodes 2:4 --hang-timeout never"
for endpoint, environment, config, agent, launcher in (
        ("10.0.0.9", SECRET, {}, "--no-hosts --endpoint 10.0.0.9:29400", None),
        ("fd00::9", SECRET, {}, "--no-hosts --endpoint [fd00::9]:29400", None),
        ("[fd00::9]:29400", SECRET, {"is_host": "1"},
         "--no-hosts --endpoint [fd00::9]:PORT", "--listen [::]:PORT"),
        ("127.0.0.1:7", SECRET, {}, "--no-hosts --endpoint 127.0.0.1:7",
         "--listen 127.0.0.1:7"),
        ("127.0.0.1:7", SECRET, {"is_host": "false"},
         "--no-hosts --endpoint 127.0.0.1:7", None),
        ("localhost", SECRET, {"name": "a"},
         "--no-hosts --name a --endpoint localhost:PORT",
         "--listen 127.0.0.1:PORT"),
        ("far.invalid", SECRET, {"is_host": "yes"},
         "--no-hosts --endpoint far.invalid:29400", "--listen [::]:PORT"),
        ("10.0.0.9", {}, {"secret_file": "/s", "join_timeout": "9",
                          "grow": "never", "preflight": "off",
                          "last_call_timeout": "3"},
         "--join-timeout 9s --last-call 3s --grow never --preflight off "
         "--secret-file /s --rdzv-id My_run --no-hosts --endpoint "
         "10.0.0.9:29400", None)):
    environment = {**environment, "HOME": "/"}
    found = settings(endpoint, environment, **config)
    assert environment == {"HOME": "/"}, environment
    agent = agent.replace("PORT", "29400")
    flags = " ".join(found.agent_flags)
    assert flags.startswith(JOB) and flags.endswith(agent), flags
    assert "--rdzv-id My_run" in flags
    assert found.is_host == (launcher is not None), (endpoint, config)
    if launcher:
        launcher = launcher.replace("PORT", "29400")
        flags = " ".join(found.launcher_flags)
        assert flags.startswith(JOB) and flags.endswith(launcher), flags
for endpoint, environment, joins, attaches in (
        ("rc1.abc", SECRET, "rc1.abc", ""),
        ("", {"ROLLCALL_JOIN": "rc1.d"}, "rc1.d", ""),
        ("10.0.0.9", {**SECRET, "ROLLCALL_JOIN": "rc1.d"}, None, ""),
        ("10.0.0.9", {**SECRET, "ROLLCALL_SOCKET": "/s"}, None, ""),
        ("", {"ROLLCALL_SOCKET": "/s"}, None, "/s")):
    found = settings(endpoint, dict(environment))
    assert found.child_environment.get("ROLLCALL_JOIN") == joins
    assert found.socket == attaches and not found.is_host
# The next rendezvous of this process finds what the first one has removed.
environment = dict(SECRET)
settings("10.0.0.9", environment)
again = Settings(RendezvousParameters("rollcall", "10.0.0.9", "r", 1, 1),
                 environment)
assert again.child_environment == SECRET and not environment
for endpoint, environment, config, said in (
        ("", {}, {}, "HOST[:PORT]"),
        ("node1", {}, {}, "set ROLLCALL_SECRET on every node"),
        ("node1:x", SECRET, {}, "expected HOST[:PORT]"),
        ("node1:0", SECRET, {}, "1 to 65535"),
        ("[::1]29400", SECRET, {}, "expected HOST[:PORT]"),
        (":29400", SECRET, {}, "expected HOST[:PORT]"),
        ("node1", SECRET, {"nam": "x"}, "--rdzv-conf nam: --rdzv-backend="
         "rollcall knows grow, is_host, join_timeout, last_call_timeout, name"),
        ("node1", SECRET, {"is_host": "maybe"}, "boolean"),
        ("node1", SECRET, {"read_timeout": "1m"}, "integer")):
    try:
        settings(endpoint, dict(environment), **config)
    except ValueError as error:
        assert said in str(error), error
    else:
        sys.exit(f"{endpoint!r} {config} was taken")
print("settled")
"""

# Ctrl-C where a torchrun waits for its launcher.
INTERRUPTED = """
import os
from rollcall import _processes

def interrupted(process):
    raise KeyboardInterrupt

_processes._Process.await_ready = interrupted
try:
    _processes.Launcher(["--nodes", "2", "--listen", "127.0.0.1:0"], os.environ)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

SLOW = unittest.skipUnless(
    os.environ.get("ROLLCALL_TEST_PROGRAMS") == "1",
    "NOT TESTED: takes long; ROLLCALL_TEST_PROGRAMS=1 runs it")


class Torchrun(WithTorch):
    def setUp(self):
        super().setUp()
        self.gate = Gate(self.stage)
        self.failure = None
        self.others = "-"
        made = self.stage.run([harness.ROLLCALL, "token", "secret"])
        self.assert_code(made, 0)
        (self.secret,) = made.out()
        self.torchruns = {}

    def begin(self, hosts):
        self.lab = Lab(self.stage, hosts)

    def torchrun(self, host, *flags, environment=None, path=None):
        """Starts torchrun on a host, with two ranks. `path` replaces PATH."""
        path = path or f"{harness.BIN}:{os.environ['PATH']}"
        self.torchruns[host] = self.lab.start(host, [
            "/usr/bin/env", f"PATH={path}", PYTHON, "-c", TORCHRUN, "--rdzv_backend=rollcall",
            "--rdzv_endpoint=10.77.0.1", "--rdzv_id=Some_run",
            "--nproc_per_node=2", "--log_dir", self.stage.path(f"logs{host}"),
            # Debian's release fails on its own enum without these flags.
            "--redirects=2", "--tee=1", *flags, RANK, self.gate.path,
            self.failure.path if self.failure else "-", self.others],
            {**ENVIRONMENT, "ROLLCALL_SECRET": self.secret,
             "OMP_NUM_THREADS": "1", **(environment or {})})
        return self.torchruns[host]

    def await_world(self, *hosts, restarts=(0, 0, 0), worlds=(1, 1, 1)):
        """Waits until these hosts' ranks are in a world of only these hosts for
        the `worlds`th time. The hosts are in the order of their ranks.
        `restarts`: how many restarts torchrun has charged, by host."""
        size = 2 * len(hosts)
        # The network plan sets the interface; a single node needs none.
        interface = "eth0" if len(hosts) > 1 else "-"
        for at, host in enumerate(hosts):
            lines = self.torchruns[host].await_lines(
                rf"entered (\d+) of {size} total {size * (size + 1) // 2} "
                rf"restarts (\d+) interface {interface} left \[\]$",
                2 * worlds[at])[-2:]
            self.assertEqual(sorted((int(m[1]), int(m[2])) for m in lines),
                             [(2 * at + i, restarts[at]) for i in range(2)])

    def of_rollcall(self, host):
        found = [(pid, proc.command_line(pid))
                 for pid in self.lab.processes(host)]
        return [(pid, words) for pid, words in found
                if words and os.path.basename(words[0]) == "rollcall"]

    def assert_clean(self, *hosts):
        for host in hosts:
            self.stage.await_gone(self.lab.processes(host),
                                  f"what runs on lab{host}")
            self.assertEqual(self.lab.processes(host), [])

    def ends(self, *hosts):
        self.gate.open()
        for host in hosts:
            self.assert_code(self.torchruns[host], 0)
        self.assert_clean(*hosts)

    def test_settings(self):
        done = self.stage.run([PYTHON, "-c", SETTINGS], ENVIRONMENT)
        self.assertEqual(done.out(), ["settled"], done.text())

    def test_nodes_come_and_one_goes_that_started_the_daemon(self):
        self.begin(3)
        # The node that starts the daemon is started last.
        for host in (2, 1):
            self.torchrun(host, "--nnodes=2:3")
        # The launcher has no seat (`--no-worker`), so seats go by node name.
        self.await_world(1, 2)
        self.torchrun(3, "--nnodes=2:3")
        self.await_world(1, 2, 3)
        os.kill(self.torchruns[1].inner_pid(), signal.SIGKILL)
        # The launcher does not hold torchrun's output, so it ends now.
        self.torchruns[1].wait()
        self.await_world(2, 3, worlds=(2, 1))
        self.gate.open()
        for host in (2, 3):
            self.assert_code(self.torchruns[host], 0)
        self.assert_clean(2, 3)
        self.stage.await_gone([pid for pid, _ in self.of_rollcall(1)],
                              "the end of launcher and daemon with their job")

    def test_workers_that_fail_are_started_again(self):
        self.failure = Gate(self.stage)
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2", "--max_restarts=1")
        self.await_world(1, 2)
        self.failure.open()
        self.await_world(1, 2, restarts=(0, 1), worlds=(2, 2))
        self.ends(1, 2)

    def test_the_last_failure_ends_all(self):
        self.failure = Gate(self.stage)
        # In torchrun 1, a failed worker's agent waits for the other workers.
        old = self.stage.run([PYTHON, "-c", "import torch; "
                              "print(torch.__version__)"])
        if old.out()[0].startswith("1."):
            self.others = "meet"
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2")
        self.await_world(1, 2)
        self.failure.open()
        for host in (1, 2):
            self.assert_code(self.torchruns[host], 1)
        if self.others == "-":
            self.torchruns[1].await_line(
                "RendezvousClosedError: rollcall: rank 1 on lab2 exited with "
                "code 7")
        self.assert_clean(1, 2)
        # The port and the state of the ended job are free for the next job.
        self.failure = None
        for host in (2, 1):
            self.torchrun(host, "--nnodes=2")
        self.await_world(1, 2)
        self.ends(1, 2)

    def test_sigterm_lets_a_node_go(self):
        self.begin(2)
        self.torchrun(1, "--nnodes=1:2")
        self.await_world(1)
        self.torchrun(2, "--nnodes=1:2")
        self.await_world(1, 2)
        os.kill(self.torchruns[2].inner_pid(), signal.SIGTERM)
        self.await_world(1, worlds=(2,))
        self.assertNotEqual(self.torchruns[2].wait(), 0)
        self.assert_clean(2)
        self.ends(1)

    @SLOW
    def test_workers_that_are_slow_to_stop(self):
        self.others = "slow"
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=1:2")
        self.await_world(1, 2)
        os.kill(self.torchruns[2].inner_pid(), signal.SIGKILL)
        self.await_world(1)
        self.gate.open()
        self.assert_code(self.torchruns[1], 0)

    def test_ctrl_c_on_all_ends_the_job(self):
        self.begin(2)
        # The launcher also ends if its job never had a world.
        early = self.torchrun(1, "--nnodes=3")
        early.await_line("1 node is here; 2 more to begin")
        os.kill(early.inner_pid(), signal.SIGINT)
        self.assertNotEqual(early.wait(), 0)
        self.assert_clean(1)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2")
        self.await_world(1, 2)
        for host in (1, 2):
            os.kill(self.torchruns[host].inner_pid(), signal.SIGINT)
        for host in (1, 2):
            self.assertNotEqual(self.torchruns[host].wait(), 0)
        self.assert_clean(1, 2)

    def test_an_interrupted_start_leaves_no_launcher(self):
        self.begin(1)
        tried = self.lab.start(1, [
            "/usr/bin/env", f"PATH={harness.BIN}:{os.environ['PATH']}", PYTHON,
            "-c", INTERRUPTED], ENVIRONMENT)
        tried.await_line("interrupted")
        self.assert_code(tried, 0)
        self.assert_clean(1)

    def test_a_killed_agent_is_replaced(self):
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2")
        self.await_world(1, 2)
        (agent,) = [pid for pid, words in self.of_rollcall(2)
                    if words[1] == "join"]
        os.kill(agent, signal.SIGKILL)
        self.await_world(1, 2, worlds=(2, 2))
        self.ends(1, 2)

    def test_a_join_string(self):
        self.begin(2)
        launcher = self.lab.start(1, [
            harness.ROLLCALL, "launch", "--attach", "--no-worker", "--nodes",
            "2:2", "--hang-timeout", "never"])
        joins = self.join_string(launcher)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2", f"--rdzv_endpoint={joins}")
        self.await_world(1, 2)
        self.gate.open()
        for host in (1, 2):
            self.assert_code(self.torchruns[host], 0)
        self.assert_code(launcher, 0)

    def test_what_is_wrong_is_said(self):
        self.begin(1)
        nothing = self.stage.path("nothing")
        os.mkdir(nothing)
        for flags, options, said in (
                (("--rdzv_conf=join_timeout=3",), {},
                 "RendezvousTimeoutError: rollcall: .*[01] of 2 nodes attended"),
                ((), {"path": nothing}, "no program `rollcall`"),
                ((), {"environment": {"ROLLCALL_SECRET": "short"}},
                 "the shared secret: expected 32 or more")):
            tried = self.torchrun(1, "--nnodes=2", *flags, **options)
            self.assertNotEqual(tried.wait(), 0)
            self.assertRegex(tried.text(), said)
            self.assertNotIn(self.secret, tried.text())
            self.assert_clean(1)

    def test_an_agent_that_is_always_killed_ends_it(self):
        self.begin(1)
        starts = self.stage.path("starts")
        folder = self.stage.path("kills")
        os.mkdir(folder)
        program = os.path.join(folder, "rollcall")
        with open(program, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\necho >>{starts}\nkill -KILL $$\n")
        os.chmod(program, 0o700)
        tried = self.torchrun(1, "--nnodes=2", "--rdzv_conf=is_host=0",
                              path=f"{folder}:{os.environ['PATH']}")
        self.assertNotEqual(tried.wait(), 0)
        self.assertRegex(tried.text(), "RendezvousClosedError: rollcall: "
                         "`rollcall` was ended by signal 9")
        # A pause of half a second between them, for seven seconds.
        self.assertLess(os.path.getsize(starts), 20)


if __name__ == "__main__":
    unittest.main()
