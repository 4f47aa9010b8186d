"""Tests an unmodified PyTorch script on two lab hosts with two ranks each, and
compares our GPT-2 with one in PyTorch."""
import json
import os

import harness
from harness import Lab
from with_torch import PYTHON, WithTorch

SCRIPT = os.path.join(harness.PROJECT, "tests", "interop", "ddp.py")
HERE = os.path.dirname(os.path.abspath(__file__))
DUMP = os.path.join(harness.BIN, "gpt_dump")


class Torch(WithTorch):
    def test_ddp_trains_on_two_hosts(self):
        lab = Lab(self.stage, 2)
        command = ["--nproc-per-node", "2", "--", PYTHON, SCRIPT]
        launcher = lab.start(1, [harness.ROLLCALL, "launch", "--nodes", "2",
                                 "--max-restarts", "0", *command])
        join = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        worker = lab.start(2, [harness.ROLLCALL, "join", join, *command])
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        found = [m.groups() for process in (launcher, worker)
                 for m in process.await_lines(
                     r"ddp rank (\d) of (\d) sum (\d) loss (\S+) to (\S+) "
                     r"parameters (\w+)", 2)]
        self.assertEqual(sorted(rank for rank, *_ in found), list("0123"))
        self.assertEqual({f[1:3] for f in found}, {("4", "4")})
        self.assertEqual(len({f[5] for f in found}), 1)
        for *_, first, last, _ in found:
            self.assertLess(float(last), 0.01 * float(first))


class Gpt2(WithTorch):
    """Loss, gradients and steps of the CPU model equal PyTorch's, except for
    rounding. torch_compare.py compares them.

    Measured: losses within 2e-7, gradients within 2e-6 of each tensor's norm,
    weights after 8 steps within 2e-5.
    """
    LOSS, GRADIENT, NORM, WEIGHT, RATE = 1e-6, 1e-5, 1e-5, 1e-4, 1e-6
    STEPS = 8

    def compare(self, layers, heads, width, context, vocabulary, sequences,
                at_once=None, clipped=True):
        at_once = at_once or sequences
        folder = self.stage.path("dump")
        os.mkdir(folder)
        numbers = [layers, heads, width, context, vocabulary, sequences,
                   at_once, self.STEPS]
        dumped = self.stage.run([DUMP, *map(str, numbers), folder])
        self.assertEqual(dumped.code, 0, dumped.text())
        compared = self.stage.run(
            [PYTHON, "-B", os.path.join(HERE, "torch_compare.py"), str(heads),
             str(at_once), folder])
        self.assertEqual(compared.code, 0, compared.text())
        found = json.loads("\n".join(compared.out()))
        for what, most in (("gradients", self.GRADIENT),
                           ("weights", self.WEIGHT)):
            self.assertEqual(len(found[what]), 4 + 12 * layers)
            for name, apart in found[what].items():
                self.assertLess(apart, most, f"{what} {name}")
        for what, most in (("losses", self.LOSS), ("norms", self.NORM),
                           ("rates", self.RATE)):
            self.assertEqual(len(found[what]), self.STEPS)
            self.assertLess(max(found[what]), most, found)
        # Whether the gradients were clipped; and the learning rate is correct.
        self.assertEqual(found["values"][0][1] > 1, clipped)
        self.assertLess(max(found["rates"]), self.RATE)

    def test_nano(self):
        self.compare(3, 4, 128, 64, 256, 4)

    def test_odd_sizes(self):
        self.compare(2, 5, 35, 11, 97, 3)

    def test_many_tokens(self):
        self.compare(2, 3, 30, 7, 50257, 3)

    def test_micro_batches(self):
        # The last one is smaller. The mean over so many tokens is small.
        self.compare(2, 2, 24, 600, 97, 5, at_once=2, clipped=False)
