"""torchrun with `--rdzv-backend=rollcall`, on lab hosts."""
import os
import signal
import unittest

import harness
import proc
from harness import Gate, Lab
from rank_python_test import PACKAGE
from with_torch import PYTHON, WithTorch

RANK = os.path.join(harness.PROJECT, "tests", "interop", "torchrun_rank.py")

# torchrun before 2.5 knows no entry points, so this does what they do.
TORCHRUN = """
import sys
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.run import main
from rollcall.torch.rendezvous import get_handler
rendezvous_handler_registry.register("rollcall", get_handler())
main()
"""


class Torchrun(WithTorch):
    def setUp(self):
        super().setUp()
        self.gate = Gate(self.stage)
        self.failure = None
        made = self.stage.run([harness.ROLLCALL, "token", "secret"])
        self.assert_code(made, 0)
        (self.secret,) = made.out()
        self.torchruns = {}

    def begin(self, hosts):
        self.lab = Lab(self.stage, hosts)

    def torchrun(self, host, *flags, environment=None):
        """torchrun there, with two ranks."""
        self.torchruns[host] = self.lab.start(host, [
            PYTHON, "-c", TORCHRUN, "--rdzv_backend=rollcall",
            "--rdzv_endpoint=10.77.0.1", "--rdzv_id=Some_run",
            "--nproc_per_node=2", "--log_dir", self.stage.path(f"logs{host}"),
            # Debian's release fails on its own enum without these.
            "--redirects=2", "--tee=1", *flags, RANK, self.gate.path,
            self.failure.path if self.failure else "-"],
            {"PYTHONPATH": PACKAGE, "ROLLCALL_SECRET": self.secret,
             "OMP_NUM_THREADS": "1",
             "PATH": f"{harness.BIN}:{os.environ['PATH']}",
             **(environment or {})})
        return self.torchruns[host]

    def await_world(self, hosts, restarts=0, worlds=1):
        """Waits until the ranks of these hosts have been in a world of them
        for the `worlds`th time; the order of the hosts is that of the ranks."""
        size = 2 * len(hosts)
        for at, host in enumerate(hosts):
            lines = self.torchruns[host].await_lines(
                rf"entered (\d+) of {size} total {size * (size + 1) // 2} "
                rf"restarts {restarts} secrets 0$", 2 * worlds)[-2:]
            self.assertEqual(sorted(int(m[1]) for m in lines),
                             [2 * at, 2 * at + 1])

    def of_rollcall(self, host):
        found = [(pid, proc.command_line(pid))
                 for pid in self.lab.processes(host)]
        return [(pid, words) for pid, words in found
                if os.path.basename(words[0]) == "rollcall"]

    def assert_clean(self, *hosts):
        for host in hosts:
            self.stage.pump(lambda h=host: not self.lab.processes(h),
                            f"the end of {self.of_rollcall(host)}")

    def ends(self, *hosts):
        self.gate.open()
        for host in hosts:
            self.assert_code(self.torchruns[host], 0)
        self.assert_clean(*hosts)

    def test_three_nodes_train(self):
        self.begin(3)
        # In any order: the node of the endpoint comes last.
        for host in (2, 3, 1):
            self.torchrun(host, "--nnodes=3")
        # The launcher's seat is nobody's: seats go by the nodes' names.
        self.await_world([1, 2, 3])
        self.ends(1, 2, 3)

    def test_the_torchrun_that_started_the_daemon_is_killed(self):
        self.begin(3)
        for host in (1, 2, 3):
            self.torchrun(host, "--nnodes=2:3", "--max_restarts=3")
        self.await_world([1, 2, 3])
        os.kill(self.torchruns[1].inner_pid(), signal.SIGKILL)
        for host in (2, 3):
            self.torchruns[host].await_lines(r"entered \d of 4 total 10", 2)
        self.ends(2, 3)
        # The daemon ended with its job.
        self.stage.pump(lambda: not self.of_rollcall(1), "its end")

    def test_a_newcomer_is_taken_in(self):
        self.begin(2)
        self.torchrun(1, "--nnodes=1:2")
        self.await_world([1])
        self.torchrun(2, "--nnodes=1:2")
        self.await_world([1, 2])
        self.ends(1, 2)

    def test_workers_that_fail_are_started_again(self):
        self.failure = Gate(self.stage)
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2", "--max_restarts=1")
        self.await_world([1, 2])
        self.failure.open()
        for host in (1, 2):
            self.torchruns[host].await_lines(r"entered \d of 4 total 10", 4)
        self.ends(1, 2)

    def test_the_last_failure_ends_all(self):
        self.failure = Gate(self.stage)
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2")
        self.await_world([1, 2])
        self.failure.open()
        for host in (1, 2):
            self.assert_code(self.torchruns[host], 1)
            self.torchruns[host].await_line(
                r"rank 1 on lab2 exited with code 7|torchrun's rank \d")
        self.assert_clean(1, 2)

    def test_sigterm_lets_a_node_go(self):
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=1:2", "--max_restarts=3")
        self.await_world([1, 2])
        os.kill(self.torchruns[2].inner_pid(), signal.SIGTERM)
        self.torchruns[1].await_lines(r"entered \d of 2 total 3", 2)
        self.torchruns[2].wait()
        self.assert_clean(2)
        self.ends(1)

    def test_ctrl_c_on_all_ends_the_job(self):
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2")
        self.await_world([1, 2])
        for host in (1, 2):
            os.kill(self.torchruns[host].inner_pid(), signal.SIGINT)
        for host in (1, 2):
            self.torchruns[host].wait()
        self.assert_clean(1, 2)

    def test_a_killed_agent_is_replaced(self):
        self.begin(2)
        for host in (1, 2):
            self.torchrun(host, "--nnodes=2", "--max_restarts=3")
        self.await_world([1, 2])
        (agent,) = [pid for pid, words in self.of_rollcall(2)
                    if words[1] == "join"]
        os.kill(agent, signal.SIGKILL)
        for host in (1, 2):
            self.torchruns[host].await_lines(r"entered \d of 4 total 10", 4)
        self.ends(1, 2)

    def test_what_is_wrong_is_said(self):
        self.begin(1)
        for flags, environment, said in (
                ((), {"ROLLCALL_SECRET": ""}, "set ROLLCALL_SECRET on every"),
                (("--rdzv_conf=nam=x",), {}, "nam: --rdzv-backend=rollcall "
                 "knows grow, is_host, join_timeout, name"),
                (("--rdzv_endpoint=10.77.0.1:x",), {}, "expected HOST"),
                (("--rdzv_conf=read_timeout=1m",), {}, "expected seconds"),
                (("--rdzv_conf=is_host=maybe",), {}, "true or false"),
                (("--rdzv_conf=join_timeout=1",), {},
                 "RendezvousTimeoutError: rollcall: .*1 of 2 nodes attended"),
                ((), {"PATH": "/usr/bin:/bin"}, "no program `rollcall`"),
                ((), {"ROLLCALL_SECRET": "short"}, "128 bits|secret")):
            tried = self.torchrun(1, "--nnodes=2", *flags,
                                  environment=environment)
            tried.wait()
            self.assertNotEqual(tried.code, 0)
            self.assertRegex(tried.text(), said)
            self.assertNotIn(self.secret, tried.text())
            self.assert_clean(1)


if __name__ == "__main__":
    unittest.main()
