"""specs/pytorch: elastic_ddp.py, a pure PyTorch script, in changing worlds; and
elastic_gpt.py, in the virtual environment that `scripts/packages.sh pytorch`
makes; without it that test is skipped.
"""
import os
import re
import signal

import harness
from harness import E2E, ROLLCALL
from paths import PYTORCH_VENV
from rank_python_test import ENVIRONMENT
from with_torch import PYTHON, WithTorch

SPECS = os.path.join(harness.PROJECT, "specs", "pytorch")
SCRIPT = os.path.join(SPECS, "elastic_ddp.py")
STEP = re.compile(r"step (\d+) loss (\d+\.\d+) world (\d+)$")
STEPS = 1_000_000


class ElasticDdp(WithTorch):
    def setUp(self):
        super().setUp()
        self.folder = self.stage.path("shared")
        os.mkdir(self.folder)

    def command(self, steps=STEPS, folder=None):
        return [PYTHON, SCRIPT, folder or self.folder, str(steps)]

    def begin(self, flags, names, command):
        launcher = self.launch([*flags, "--name", "w0"], command)
        line = self.join_string(launcher)
        agents = [launcher] + [
            self.join(line, ["--name", name], command) for name in names]
        return launcher, agents

    def steps(self, agent):
        """Returns (step, loss, world size) of all starts of the agent's
        rank."""
        return [(int(m[1]), float(m[2]), int(m[3]))
                for line in agent.out() for m in [STEP.search(line)] if m]

    def test_a_drain_and_a_preemption_lose_no_step(self):
        launcher, agents = self.begin([*harness.whole("2:3")], ["w1", "w2"],
                                      self.command())
        for agent in agents:
            agent.await_line(r"step \d+ .* world 3")
        agents[2].signal(signal.SIGTERM)
        self.assert_code(agents[2], 0)
        launcher.await_line(r"step \d+ .* world 2")
        launcher.signal(signal.SIGUSR1)
        for agent in agents[:2]:
            self.assert_code(agent, 75)
        done = self.steps(launcher)
        self.assertEqual(self.steps(agents[1]), done)
        # Every step was done once, independent of the world.
        self.assertEqual([n for n, *_ in done], list(range(1, len(done) + 1)))
        self.assertEqual(self.steps(agents[2]),
                         [step for step in done if step[2] == 3])

        last = done[-1][0]
        again, agents = self.begin(["--nodes", "2"], ["w1"],
                                   self.command(last + 50))
        for agent in agents:
            self.assert_code(agent, 0)
        more = self.steps(again)
        self.assertEqual([n for n, *_ in more],
                         list(range(last + 1, last + 51)))

        # The losses equal those of a single rank, except for rounding.
        alone = self.stage.path("alone")
        os.mkdir(alone)
        single = self.launch([], self.command(last + 50, alone))
        self.assert_code(single, 0)
        for (n, loss, _), (m, expect, _) in zip(done + more,
                                                self.steps(single)):
            self.assertEqual(n, m)
            self.assertAlmostEqual(loss, expect, delta=1e-3)

    def test_status_shows_its_steps(self):
        launcher, _ = self.begin(["--nodes", "1:2"], [], self.command())
        line = self.join_string(launcher)
        self.await_status(line, lambda s: s["nodes"] and s["nodes"][0]["step"] > 0,
                          "a step of its rank")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)

    def test_sigterm_ends_it_under_torchrun(self):
        torchrun = self.stage.start(
            [PYTHON, "-m", "torch.distributed.run", "--standalone",
             # Debian's release fails on its own enum without these.
             "--redirects=2", "--tee=1", "--log_dir", self.stage.path("logs"),
             *self.command()[1:]], {"OMP_NUM_THREADS": "1"})
        torchrun.await_line(r"step \d+ .* world 1")
        (worker,) = [pid for pid in harness.descendants(torchrun.pid)
                     if harness.command_line(pid)[-1:] == [str(STEPS)]]
        os.kill(worker, signal.SIGTERM)
        self.assert_code(torchrun, 1)
        self.assertRegex(torchrun.text(), r"exitcode *: -15")


class ElasticGpt(E2E):
    def test_its_ranks_end_well(self):
        python = os.path.join(PYTORCH_VENV, "bin", "python3")
        if not os.access(python, os.X_OK):
            self.skipTest(f"NOT TESTED: there is no torch in {PYTORCH_VENV}; "
                          "`scripts/packages.sh pytorch` makes it")
        command = [python, os.path.join(SPECS, "elastic_gpt.py"), __file__, "5"]
        env = {**ENVIRONMENT, "OUT": self.stage.folder, "OMP_NUM_THREADS": "1",
               "CUDA_VISIBLE_DEVICES": ""}
        # One whose agent did not start it, and one whose agent did.
        launcher = self.stage.start(
            [ROLLCALL, "launch", "--hosts-file", self._hosts, "--attach",
             "--nodes", "2", "--max-restarts", "0"])
        socket = launcher.await_line(r"ROLLCALL_SOCKET=(\S+)", "err")[1]
        attached = self.stage.start(
            command, {**env, "ROLLCALL_SOCKET": socket, "LOCAL_RANK": "0"})
        worker = self.join(self.join_string(launcher), ["--name", "w"], command,
                           env)
        for process in (attached, launcher, worker):
            self.assert_code(process, 0)
        self.assertTrue(os.path.exists(self.stage.path("gpt.pt")))
