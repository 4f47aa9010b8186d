"""An unmodified PyTorch script on two lab hosts with two ranks each."""
import os

import harness
from harness import Lab
from with_torch import PYTHON, WithTorch

SCRIPT = os.path.join(harness.PROJECT, "tests", "interop", "ddp.py")


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


if __name__ == "__main__":
    harness.main()
