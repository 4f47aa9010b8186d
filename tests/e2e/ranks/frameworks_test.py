"""Tests trainings that have no support for rollcall, with the current torch of
PyPI: under rollcall in place of torchrun, and under torchrun with rollcall's
rendezvous.

Needs the virtual environment that `scripts/packages.sh pytorch` makes; the
tests are skipped without it.
"""
import os
import re
import tomllib
import unittest

import harness
from harness import E2E, Lab
from paths import PYTORCH_VENV
from rank_python_test import PACKAGE

INTEROP = os.path.join(harness.PROJECT, "tests", "interop")


class Frameworks(E2E):
    def setUp(self):
        super().setUp()
        self.bin = os.path.join(PYTORCH_VENV, "bin")
        if not os.access(os.path.join(self.bin, "python3"), os.X_OK):
            self.skipTest(f"NOT TESTED: there is no torch in {PYTORCH_VENV}; "
                          "`scripts/packages.sh pytorch` makes it")
        self.lab = Lab(self.stage, 1)
        self.env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

    def check(self, script, said, *arguments):
        """Runs four ranks on two nodes in both ways. All ranks must print the
        line `said` with the same result."""
        program = os.path.join(INTEROP, script)
        launcher = self.lab.start(1, [
            harness.ROLLCALL, "launch", "--no-hosts", "--local-workers", "1",
            "--nproc-per-node", "2", "--max-restarts", "0", "--",
            os.path.join(self.bin, "python3"), program, *arguments], self.env)
        self.assert_code(launcher, 0)
        (first,) = self.results(said, launcher)

        made = self.stage.run([harness.ROLLCALL, "token", "secret"])
        env = {**self.env, "ROLLCALL_SECRET": made.out()[0],
               "PYTHONPATH": f"{PACKAGE}:{self.metadata()}",
               "PATH": f"{harness.BIN}:{os.environ['PATH']}"}
        torchruns = [self.lab.start(1, [
            os.path.join(self.bin, "torchrun"), "--rdzv-backend=rollcall",
            "--rdzv-endpoint=10.77.0.1", f"--rdzv-conf=name={name}",
            "--nnodes=2", "--nproc-per-node=2", program, *arguments], env)
            for name in ("a", "b")]
        for torchrun in torchruns:
            self.assert_code(torchrun, 0)
        (second,) = self.results(said, *torchruns)
        self.assertEqual(first, second)

    def zero2(self, folder, *ends):
        """Starts two nodes of two ranks. One of them is killed at each step of
        `ends`, with a restart for each."""
        return self.lab.start(1, [
            harness.ROLLCALL, "launch", "--no-hosts", "--local-workers", "1",
            "--nproc-per-node", "2", "--max-restarts", "2", "--",
            os.path.join(self.bin, "python3"),
            os.path.join(INTEROP, "zero2_fit.py"), folder, *ends],
            {**self.env, "DS_ACCELERATOR": "cpu",
             "TORCH_EXTENSIONS_DIR": os.path.join(PYTORCH_VENV,
                                                  "extensions")})

    def test_zero_2_of_deepspeed_is_killed_and_resumed(self):
        said = r"fitted (\d) of 4 after 200 steps: (.*)"
        whole = self.zero2(self.stage.path("whole"))
        # One start and 200 steps take 40 s on two cores with nothing beside.
        self.assert_code(whole, 0, 3 * harness.DEADLINE_S)
        killed = self.zero2(self.stage.path("killed"), "40", "120")
        # It starts three times.
        self.stage.pump(killed.done, "its end", 5 * harness.DEADLINE_S)
        self.assert_code(killed, 0)
        resumed = [m[1] for m in re.finditer(r"begins 3 of 4 at (.*)",
                                             killed.text())]
        self.assertEqual(resumed, ["nothing", "checkpoint-40",
                                   "checkpoint-120"])
        self.assertEqual(self.results(said, killed), self.results(said, whole))

    def results(self, said, *processes):
        """Returns the set of results that the ranks print, one each."""
        found = [m for process in processes
                 for m in re.finditer(said, process.text())]
        self.assertEqual(sorted(int(m[1]) for m in found), [0, 1, 2, 3])
        return {m[2] for m in found}

    def metadata(self):
        """Makes a folder with the metadata that pip would write for the
        package, so that torchrun finds its entry point; returns the folder."""
        folder = self.stage.path("site")
        about = os.path.join(folder, "rollcalld-0.dist-info")
        os.makedirs(about)
        with open(os.path.join(PACKAGE, "pyproject.toml"), "rb") as f:
            points = tomllib.load(f)["project"]["entry-points"]
        with open(os.path.join(about, "METADATA"), "w", encoding="ascii") as f:
            f.write("Metadata-Version: 2.1\nName: rollcalld\nVersion: 0\n")
        with open(os.path.join(about, "entry_points.txt"), "w",
                  encoding="ascii") as f:
            for group, members in points.items():
                f.write(f"[{group}]\n" + "".join(
                    f"{name} = {what}\n" for name, what in members.items()))
        return folder

    def test_ddp(self):
        self.check("ddp.py", r"ddp rank (\d) of 4 .*(parameters .*)")

    def test_fsdp(self):
        self.check("fsdp.py", r"sharded (\d) of 4 has \d+ (.*)")

    def test_lightning(self):
        self.check("lightning_fit.py", r"fitted (\d) of 4 (.*)",
                   self.stage.folder)

    def test_accelerate(self):
        self.check("accelerate_fit.py", r"fitted (\d) of 4 (.*)")


if __name__ == "__main__":
    unittest.main()
