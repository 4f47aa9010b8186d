"""run_one.py: how it counts skipped tests, and the tests that a script names."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from paths import PROJECT

RUN_ONE = os.path.join(PROJECT, "tests", "e2e", "run_one.py")
CASES = """
import unittest
class Some(unittest.TestCase):
    def test_good(self):
        pass
    def test_bad(self):
        self.fail()
    def test_skipped(self):
        self.skipTest("why")
class Good(Some):
    test_bad = None
class Skipped(Good):
    test_good = None
"""


class RunOne(unittest.TestCase):
    def test_exit_codes(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "cases.py"), "w",
                      encoding="ascii") as f:
                f.write(CASES)
            for name, strict, code in (
                    ("Some.test_good", "", 0), ("Some.test_good", "1", 0),
                    ("Some.test_bad", "", 1),
                    ("Some.test_skipped", "", 77),
                    ("Some.test_skipped", "1", 1),
                    ("Some", "", 1), ("Good", "", 0), ("Good", "1", 1),
                    ("Skipped", "", 77), ("Skipped", "1", 1)):
                run = subprocess.run(
                    [sys.executable, "-B", RUN_ONE, f"cases.{name}"],
                    check=False, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True,
                    env={**os.environ, "PYTHONPATH": folder,
                         "ROLLCALL_TEST_NO_SKIPS": strict})
                self.assertEqual(run.returncode, code,
                                 f"{name} {strict}: {run.stdout}")

    def test_the_nightly_tests_exist(self):
        with open(os.path.join(PROJECT, "scripts", "nightly.sh"),
                  encoding="utf-8") as f:
            names = re.findall(r"\be2e (\w+_test[.\w]*)", f.read())
        self.assertGreater(len(names), 10)
        loader = unittest.TestLoader()
        for name in names:
            found = loader.loadTestsFromName(name)
            self.assertEqual(loader.errors, [])
            self.assertGreater(found.countTestCases(), 0, name)


if __name__ == "__main__":
    unittest.main()
