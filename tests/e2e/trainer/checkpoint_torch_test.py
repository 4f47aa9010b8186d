"""rollcall-train's checkpoints, as PyTorch and transformers use them."""
import json
import math
import os
import unittest

import harness
from saving import TEXT, TRAIN, Saving
from with_torch import PYTHON, WithTorch

HERE = os.path.dirname(os.path.abspath(__file__))


class InTorch(WithTorch, Saving):
    """PyTorch resumes from a checkpoint as rollcall-train does.

    Measured: the losses differ by 1e-7 at most, the updates of one step by 5e-6
    of their norm.
    """

    def test_takes_the_same_step(self):
        # All samples are in one batch, so their order does not matter.
        text = self.stage.path("text")
        with open(TEXT[0], "rb") as file:
            some = file.read(12 * 32 + 1)
        with open(text, "wb") as file:
            file.write(some)
        for steps in (20, 21):
            run = self.alone(steps, data=[text])
            self.assert_code(run, 0)
        said = self.told(run)[21]
        found = self.stage.run(
            [PYTHON, "-B",
             os.path.join(HERE, "torch_resume.py"),
             os.path.join(self.folder, "step-00000020"),
             os.path.join(self.folder, "step-00000021"), text,
             repr(said["learning_rate"])])
        self.assertEqual(found.code, 0, found.text())
        found = json.loads("\n".join(found.out()))
        self.assertLess(abs(found["loss"] / said["loss"] - 1), 1e-6)
        self.assertEqual(len(found["updates"]), 4 + 12 * 2)
        for name, apart in found["updates"].items():
            self.assertLess(apart, 1e-4, name)

    def test_computes_the_same_validation_loss(self):
        held_out = self.stage.path("held_out")
        with open(held_out, "w", encoding="ascii") as file:
            for n in range(400):
                file.write(f"Line {n} of a text in no license. ")
        run = self.launch(
            ["--local-workers", "1", "--max-restarts", "0"],
            self.command(20, "--save-every", "10", "--val-data",
                         held_out, "--val-every", "10",
                         "--val-batches", "20"))
        self.assert_code(run, 0, 100)
        told = self.told(run)
        self.assertEqual([n for n, said in told.items()
                          if said["validation_loss"] is not None], [10, 20])
        # 20 batches of 12 samples of 32 bytes.
        for step in (10, 20):
            found = self.stage.run(
                [PYTHON, "-B",
                 os.path.join(HERE, "torch_loss.py"),
                 os.path.join(self.folder, f"step-{step:08}"), held_out,
                 str(20 * 12)])
            self.assertEqual(found.code, 0, found.text())
            expect = json.loads("\n".join(found.out()))["loss"]
            self.assertLess(abs(told[step]["validation_loss"] / expect - 1),
                            1e-6)


class InTransformers(Saving):
    """Hugging Face's transformers load a checkpoint and compute the same loss.

    Needs the virtual environment that `scripts/packages.sh torch` makes; the
    test is skipped without it.
    """
    def setUp(self):
        super().setUp()
        self.python = os.path.join(harness.TORCH_VENV, "bin", "python3")
        if not os.access(self.python, os.X_OK):
            raise unittest.SkipTest(
                f"NOT TESTED: there is no {self.python} here; scripts/"
                "packages.sh torch makes it, in ROLLCALL_TORCH_VENV if set")

    def test_loads_a_checkpoint(self):
        text = self.stage.path("text")
        with open(TEXT[0], "rb") as file:
            some = file.read(12 * 32 + 1)
        with open(text, "wb") as file:
            file.write(some)
        for steps in (20, 21):
            run = self.alone(steps, data=[text])
            self.assert_code(run, 0)
        found = self.stage.run(
            [self.python, "-B",
             os.path.join(HERE, "transformers_loss.py"),
             os.path.join(self.folder, "step-00000020"), text],
            {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
             "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(found.code, 0, found.text())
        found = json.loads(found.out()[-1])
        # All our tensors are used, and transformers initializes none at random.
        self.assertEqual(found["missing"], [])
        self.assertEqual(found["unexpected"], [])
        # It is the loss of the next step, on the same tokens.
        self.assertLess(abs(found["loss"] / self.losses(run)[21] - 1), 1e-5)

    def test_begins_with_a_model_of_transformers(self):
        """Measured: the losses differ by 1e-7 of their value."""
        text, model = self.stage.path("text"), self.stage.path("model")
        with open(TEXT[0], "rb") as file:
            some = file.read(12 * 32 + 1)
        with open(text, "wb") as file:
            file.write(some)
        env = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
               "CUDA_VISIBLE_DEVICES": ""}
        made = self.stage.run(
            [self.python, "-B", os.path.join(HERE, "transformers_make.py"),
             model], env)
        self.assertEqual(made.code, 0, made.text())
        found = self.stage.run(
            [self.python, "-B", os.path.join(HERE, "transformers_loss.py"),
             model, text], env)
        self.assertEqual(found.code, 0, found.text())
        found = json.loads(found.out()[-1])
        run = self.launch(
            ["--nodes", "1", "--nproc-per-node", "2"],
            [TRAIN, "--data", text, "--steps", "1", "--batch", "12",
             "--log-json", "--init-from", model])
        self.assert_code(run, 0)
        self.assertLess(abs(found["loss"] / self.losses(run)[1] - 1), 1e-6)
        # An untrained model would have the logarithm of 256.
        self.assertGreater(abs(found["loss"] - math.log(256)), 0.05)
