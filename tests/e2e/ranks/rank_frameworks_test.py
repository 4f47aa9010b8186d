"""Tests client/python with fakes of JAX and of Hugging Face's Trainer, and with
the Trainer itself."""
import os
import signal
import unittest

import harness
import proc
from harness import E2E, ROLLCALL
from rank_python_test import ENVIRONMENT, PACKAGE, PYTHON

# A fake of the part of JAX that uses a ClusterEnv. JAX takes the first one that
# is present, and those of Slurm and Open MPI are registered before ours.
FAKE_JAX = """
class ClusterEnv:
    _cluster_types = []
    def __init_subclass__(cls, **_):
        ClusterEnv._cluster_types.append(cls)

class Slurm(ClusterEnv):
    @classmethod
    def is_env_present(cls):
        return True
"""
ASKS_AS_JAX = """
import rollcall.jax
from jax._src.clusters import ClusterEnv
env = next(kind for kind in ClusterEnv._cluster_types if kind.is_env_present())
print("jax", env.get_coordinator_address(5), env.get_process_count(),
      env.get_process_id(), env.get_local_process_id(),
      env.get_coordinator_address(5, "7"), flush=True)
"""


class Jax(E2E):
    def setUp(self):
        super().setUp()
        folder = self.stage.path("fake")
        os.makedirs(os.path.join(folder, "jax", "_src"))
        for name, text in (("__init__", ""), ("_src/__init__", ""),
                           ("_src/clusters", FAKE_JAX)):
            with open(os.path.join(folder, "jax", name + ".py"), "w",
                      encoding="ascii") as f:
                f.write(text)
        self.env = {**ENVIRONMENT, "PYTHONPATH": f"{PACKAGE}:{folder}"}

    def test_a_rank_is_told_to_jax(self):
        launcher = self.launch(
            ["--local-workers", "1", "--max-restarts", "0"],
            [PYTHON, "-c", ASKS_AS_JAX], self.env)
        self.assert_code(launcher, 0)
        found = launcher.await_lines(r"jax (\S+):(\d+) 2 (\d) 0 (\S+):7$", 2)
        self.assertEqual(sorted(m[3] for m in found), ["0", "1"])
        self.assertEqual(len({(m[1], m[2], m[4]) for m in found}), 1)

    def test_where_the_agent_has_set_no_variables(self):
        launcher = self.stage.start(
            [ROLLCALL, "launch", "--hosts-file", self._hosts, "--attach",
             "--max-restarts", "0"])
        socket = launcher.await_line(r"ROLLCALL_SOCKET=(\S+)", "err")[1]
        rank = self.stage.start(
            [PYTHON, "-c", ASKS_AS_JAX
             + "import rollcall; rollcall.attach().finish()"],
            {**self.env, "ROLLCALL_SOCKET": socket, "LOCAL_RANK": "0"})
        self.assert_code(rank, 0)
        self.assert_code(launcher, 0)
        rank.await_line(r"jax 127.0.0.1:\d+ 1 0 0 127.0.0.1:7$")

    def test_it_is_left_alone_without_an_agent(self):
        tried = self.stage.run(
            [PYTHON, "-c", "import rollcall.jax as j; "
             "print(j.RollcallCluster.is_env_present())"], self.env)
        self.assertEqual(tried.out(), ["False"])



# A fake of Hugging Face's Trainer, which calls a callback in the same order. It
# continues from the step in argv[1] and ends after three more steps.
FAKE_TRANSFORMERS = "class TrainerCallback:\n    pass\n"
TRAINS = """
import os, signal, sys, threading
from types import SimpleNamespace
from rollcall.transformers import Callback
ends = os._exit
os._exit = lambda code: (os.write(1, b"over\\n"), ends(code))
callback, path = Callback(), sys.argv[1]
rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
state = SimpleNamespace(global_step=0, max_steps=10**9)
if os.path.exists(path):
    with open(path) as f:
        state.global_step = int(f.read())
    state.max_steps = state.global_step + 3
control = SimpleNamespace(should_save=False, should_training_stop=False)
print("begins", rank, size, state.global_step, flush=True)
callback.on_train_begin(None, state, control)
while state.global_step < state.max_steps and not control.should_training_stop:
    state.global_step += 1
    state.num_input_tokens_seen = 100 * state.global_step
    callback.on_step_end(None, state, control)
    callback.on_log(None, state, control, logs={"loss": 2.5, "grad_norm": 0.5})
    callback.on_log(None, state, control, logs={"eval_loss": 2.75})
    if rank == "0" and os.path.exists(path + ".hang"):
        # As in a collective without the peer: no Python handler runs. The other
        # ranks wait for this one, where they agree on their next step.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        print("hangs", flush=True)
        threading.Event().wait()
    if rank == "1" and os.path.exists(path + ".leave"):
        # The other ranks wait for this one; the notice is a newcomer's.
        print("waits", flush=True)
        print(callback._rank.await_notice().kind.name, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
    if control.should_save:
        if rank == "0":
            with open(path, "w") as f:
                f.write(str(state.global_step))
        callback.on_save(None, state, control)
print("ends", rank, size, state.global_step, flush=True)
"""


class Transformers(E2E):
    def setUp(self):
        super().setUp()
        folder = self.stage.path("fake")
        os.makedirs(folder)
        with open(os.path.join(folder, "transformers.py"), "w",
                  encoding="ascii") as f:
            f.write(FAKE_TRANSFORMERS)
        self.env = {**ENVIRONMENT, "PYTHONPATH": f"{PACKAGE}:{folder}"}
        self.saved = self.stage.path("saved")

    def start(self, *flags):
        command = [PYTHON, "-c", TRAINS, self.saved]
        launcher = self.launch(["--job", "hf", *flags], command, self.env)
        join = self.join_string(launcher)
        worker = self.join(join, ["--name", "w"], command, self.env)
        return launcher, worker, join

    def rank_of(self, agent):
        ranks = [pid for pid in proc.descendants(agent.pid)
                 if proc.command_line(pid)[:1] == [PYTHON]]
        self.assertEqual(len(ranks), 1)
        return ranks[0]

    def test_a_notice_saves_one_step_and_the_next_world_goes_on(self):
        self.leaves(lambda worker: worker.pid)

    def test_a_rank_that_is_told_to_end_asks_to_leave(self):
        self.leaves(self.rank_of)

    def test_a_rank_that_is_told_to_end_as_a_node_joins(self):
        launcher, worker, join = self.start("--nodes", "2:3", "--join-timeout",
                                            "60s", "--max-restarts", "0")
        launcher.await_line("begins 0 2 0")
        leave = self.saved + ".leave"
        with open(leave, "w", encoding="ascii"):
            pass
        worker.await_line("waits")
        os.remove(leave)
        newcomer = self.join(join, ["--name", "n"],
                             [PYTHON, "-c", TRAINS, self.saved], self.env)
        worker.await_line("GROW")
        for node in (worker, launcher, newcomer):
            self.assert_code(node, 0)
        self.assertIsNotNone(launcher.find("ends 0 2 "))

    def leaves(self, told):
        launcher, worker, join = self.start(
            *harness.whole("1:2"), "--join-timeout", "60s", "--max-restarts",
            "0")
        launcher.await_line("begins 0 2 0")
        state = self.await_status(
            join, lambda s: s["loss"]
            and all(n["step"] > 1 for n in s["nodes"]), "steps and a loss")
        self.assertEqual(state["loss"], 2.5)
        self.assertGreater(state["tokens_per_second"], 0)
        self.assertEqual(state["gradient_norm"], 0.5)
        self.assertEqual(state["validation_loss"], 2.75)
        os.kill(told(worker), signal.SIGTERM)
        self.assert_code(worker, 0)
        self.assert_code(launcher, 0)
        saved = [node.await_line(r"saved step (\d+) for a notice", "err")[1]
                 for node in (launcher, worker)]
        self.assertEqual(saved[0], saved[1])
        self.assertIsNotNone(launcher.find(f"begins 0 1 {saved[0]}$"))
        self.assertIsNotNone(launcher.find(f"ends 0 1 {int(saved[0]) + 3}$"))

    def test_a_peer_that_dies_ends_the_others_at_once(self):
        launcher, worker, join = self.start("--nodes", "2", "--max-restarts",
                                            "1")
        self.await_status(
            join, lambda s: s["generation"] == 1
            and all(n["step"] > 1 for n in s["nodes"]), "steps")
        with open(self.saved, "w", encoding="ascii") as f:
            f.write("7")
        hang = self.saved + ".hang"
        with open(hang, "w", encoding="ascii"):
            pass
        launcher.await_line("hangs")
        os.remove(hang)
        os.kill(self.rank_of(worker), signal.SIGKILL)
        for node in (launcher, worker):
            self.assert_code(node, 0)
        # The rank that hung ended before the agent's SIGKILL, and both ranks
        # continued in the next world.
        self.assertIsNotNone(launcher.find(r"\] over$"))
        for node, rank in ((launcher, 0), (worker, 1)):
            self.assertIsNotNone(node.find(f"ends {rank} 2 10$"))

    def test_without_an_agent_it_does_nothing(self):
        with open(self.saved, "w", encoding="ascii") as f:
            f.write("7")
        run = self.stage.run([PYTHON, "-c", TRAINS, self.saved],
                             {**self.env, "RANK": "0", "WORLD_SIZE": "1"})
        self.assertEqual(run.out(), ["begins 0 1 7", "ends 0 1 10"])



class InTransformers(E2E):
    """Runs the callback in Hugging Face's Trainer itself, over Gloo.

    Needs the virtual environment that `scripts/packages.sh torch` makes; the
    test is skipped without it.
    """

    def test_a_notice_saves_and_the_next_world_goes_on(self):
        python = os.path.join(harness.TORCH_VENV, "bin", "python3")
        if not os.access(python, os.X_OK):
            raise unittest.SkipTest(
                f"NOT TESTED: there is no {python} here; scripts/packages.sh "
                "torch makes it, in ROLLCALL_TORCH_VENV if set")
        command = [python, "-B", os.path.join(
            os.path.dirname(os.path.abspath(__file__)),
            "transformers_train.py"), self.stage.path("saved")]
        env = {**ENVIRONMENT, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
               "CUDA_VISIBLE_DEVICES": ""}
        launcher = self.launch(
            ["--job", "hf", "--nodes", "1:2", "--join-timeout", "60s",
             "--notice-time", "60s", "--max-restarts", "0"], command, env)
        join = self.join_string(launcher)
        worker = self.join(join, ["--name", "w"], command, env)
        launcher.await_line("'loss'")
        worker.signal(signal.SIGTERM)
        self.assert_code(worker, 0)
        self.assert_code(launcher, 0)
        saved = [int(node.await_line(r"saved step (\d+) for a notice",
                                     "err")[1]) for node in (launcher, worker)]
        self.assertEqual(saved[0], saved[1])
        self.assertIsNotNone(
            launcher.find(rf"begins 1 .*/checkpoint-{saved[0]}$"))
        self.assertIsNotNone(launcher.find(f"ends 1 {saved[0] + 3}$"))


if __name__ == "__main__":
    unittest.main()
