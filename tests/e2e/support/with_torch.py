"""A test that needs PyTorch: Debian's, unless another one is given."""
import os
import unittest

from harness import E2E

# The nightly run gives the one that `packages.sh pytorch` installs.
PYTHON = os.environ.get("ROLLCALL_TEST_TORCH_PYTHON", "/usr/bin/python3")


class WithTorch(E2E):
    def setUp(self):
        super().setUp()
        # An import of torch would take more than a second of processor time in
        # each of these tests.
        probe = self.stage.run([
            PYTHON, "-c", "import importlib.util, sys\n"
            "sys.exit(importlib.util.find_spec('torch') is None)"])
        if probe.code == 0:
            return
        if os.environ.get("ROLLCALL_TEST_WITHOUT_TORCH") == "1":
            raise unittest.SkipTest("no torch here, and told to do without")
        self.fail(f"{PYTHON} finds no torch (package python3-torch): "
                  f"{probe.text()}\nROLLCALL_TEST_WITHOUT_TORCH=1 leaves this "
                  "test out.")
