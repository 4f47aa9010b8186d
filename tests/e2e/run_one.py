"""Runs one unittest case for ctest: run_one.py MODULE.CLASS.TEST

Exits 0 if the test passed, 1 if it failed, and 77 if it was skipped, with the
reason on stdout. `python3 -m unittest` exits 0 for a skipped test, so ctest
would count it as passed. CMakeLists.txt tells ctest what 77 means. A class or a
module exits with 77 only if all its tests were skipped; with
ROLLCALL_TEST_NO_SKIPS=1 one skipped test makes it exit with 1.
"""
import glob
import os
import sys
import unittest

SKIPPED = 77
# Modules of all subfolders import each other by their names alone.
sys.path[1:1] = sorted(glob.glob(os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "*", "")))


def main():
    if len(sys.argv) != 2:
        sys.exit("run_one.py: expected MODULE.CLASS.TEST")
    tests = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    for test, reason in result.skipped:
        print(f"SKIPPED {test}: {reason}")
    if result.skipped and os.environ.get("ROLLCALL_TEST_NO_SKIPS") == "1":
        sys.exit(1)
    # If only a subTest is skipped, the rest of its test still counts.
    if len(result.skipped) >= result.testsRun:
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
