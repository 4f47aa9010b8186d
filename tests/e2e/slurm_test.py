"""The Slurm spec, on a real Slurm."""
import os
import sys
import time

import harness
from harness import E2E, Lab
from slurm import Slurm

SPEC = os.path.join(harness.PROJECT, "specs", "slurm", "train.sbatch")

# Trains until there is a file `finish`. Saves its step when it is asked to
# stop; begins with the step that was saved.
TRAIN = """
import os, signal, sys
saved, finish = sys.argv[1:]
step = int(open(saved).read()) if os.path.exists(saved) else 0
print("begins at", step, "of", os.environ["WORLD_SIZE"],
      os.environ["ROLLCALL_NODE"], flush=True)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
reported = False
while not asked and not os.path.exists(finish):
    step += 1
    if not reported:
        print("steps", flush=True)
        reported = True
    signal.sigtimedwait([], 0.01)
if asked and os.environ["RANK"] == "0":
    with open(saved + ".new", "w") as f:
        f.write(str(step))
    os.replace(saved + ".new", saved)
print("ends at", step, flush=True)
"""


class SlurmSpec(E2E):
    def test_trains_saves_is_requeued_once_and_resumes(self):
        lab = Lab(self.stage, 2)
        slurm = Slurm(self.stage, lab)
        train, saved, finish, output = [
            self.stage.path(name)
            for name in ("train.py", "saved", "finish", "output")]
        with open(train, "w", encoding="utf-8") as f:
            f.write(TRAIN)
        with open(output, "w", encoding="utf-8"):
            pass

        submitted = slurm.run(["sbatch", "--parsable", "--output", output,
                               SPEC, sys.executable, train, saved, finish])
        self.assert_code(submitted, 0)
        job = submitted.out()[0].strip()
        log = self.stage.start(["tail", "-n", "+1", "-F", output])
        log.await_lines(r"\] steps", 2)
        self.assertEqual(self.begun(log), ["0 of 2 lab1", "0 of 2 lab2"])
        # What --signal does before the time limit.
        self.assert_code(slurm.run(["scancel", "--signal=USR1", "--batch",
                                    job]), 0)
        log.await_lines(r"\] ends at", 2)
        self.await_state(slurm, job, "PENDING")
        with open(saved, encoding="ascii") as f:
            step = int(f.read())
        self.assertGreater(step, 0)
        # Slurm holds a requeued job back for two minutes.
        self.await_state(slurm, job, "RUNNING", [
            "scontrol", "update", f"jobid={job}", "StartTime=now"])
        log.await_lines(r"\] steps", 4)
        self.assertEqual(self.begun(log)[2:],
                         [f"{step} of 2 lab1", f"{step} of 2 lab2"])
        with open(finish, "w", encoding="ascii"):
            pass
        ended = self.await_state(slurm, job, "COMPLETED")
        self.assertEqual((ended["Restarts"], ended["ExitCode"]), ("1", "0:0"))

    @staticmethod
    def begun(log):
        """How the ranks of each life began, the lives one after the other."""
        found = [line.split("begins at ")[1] for line in log.out()
                 if "begins at" in line]
        return sorted(found[:2]) + sorted(found[2:])

    def await_state(self, slurm, job, wanted, meanwhile=None):
        """What `scontrol show job` says once the job has this state; until
        then, runs `meanwhile` now and then. Slurm has no event for it."""
        until = time.monotonic() + harness.DEADLINE_S
        said = time.monotonic()
        while True:
            shown = slurm.run(["scontrol", "show", "job", job])
            state = dict(word.split("=", 1) for line in shown.out()
                         for word in line.split() if "=" in word)
            if state["JobState"] == wanted:
                return state
            if time.monotonic() > until:
                self.stage.fail(f"the job is {state['JobState']}, not {wanted}")
            # A start time that comes in the first second is forgotten.
            if meanwhile and time.monotonic() > said + 2:
                said = time.monotonic()
                slurm.run(meanwhile)

    def test_a_batch_script_without_srun_is_told(self):
        lab = Lab(self.stage, 2)
        slurm = Slurm(self.stage, lab)
        output = self.stage.path("output")
        slurm.run(["sbatch", "--wait", "-N2", "--output", output, "--wrap",
                   f"{harness.ROLLCALL} run -- true"])
        with open(output, encoding="utf-8") as f:
            self.assertIn("srun --ntasks-per-node=1", f.read())
