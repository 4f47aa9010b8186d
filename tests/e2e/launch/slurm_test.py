"""Tests the Slurm spec with a real Slurm."""
import os
import shutil
import signal
import sys
import time

import harness
from harness import E2E, Lab
from slurm import Slurm

SPEC = os.path.join(harness.PROJECT, "specs", "slurm", "train.sbatch")

# Trains until the file `finish` exists. Saves its step if it is asked to stop,
# and starts with the saved step.
TRAIN = """
import os, signal, sys
saved, finish = sys.argv[1:]
step = int(open(saved).read()) if os.path.exists(saved) else 0
print("begins at", step, "of", os.environ["WORLD_SIZE"],
      os.environ["ROLLCALL_NODE"], "attempt", os.environ["ROLLCALL_ATTEMPT"],
      flush=True)
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


# These replace the programs that the spec starts. The step ends when it is told
# to. `rollcall stop` fails, and returns only after the step has ended.
FAKES = {
    "srun": "echo stepping; read line <go; exit $line",
    "rollcall": """case $1 in
  token) echo secret ;;
  stop) echo "$@"; cat code >go; tail --pid="$(cat pid)" -f /dev/null
    exit 69 ;;
esac""",
    "scontrol": 'echo "$@" >>requeues',
}


class SlurmScript(E2E):
    """Runs the spec without Slurm, to test its signals and exit codes."""

    def script(self, code):
        folder = self.stage.path(f"code{code}")
        os.makedirs(os.path.join(folder, "bin"))
        os.mkfifo(os.path.join(folder, "go"))
        for name, text in FAKES.items():
            path = os.path.join(folder, "bin", name)
            with open(path, "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\n" + text.replace(
                    "echo stepping", "echo $$ >pid; echo stepping") + "\n")
            os.chmod(path, 0o755)
        for name, text in (("code", f"{code}\n"), ("requeues", "")):
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as f:
                f.write(text)
        script = self.stage.start(["bash", SPEC, "train"], {
            "SLURM_JOB_ID": "7",
            "PATH": f"{folder}/bin:{os.environ['PATH']}"}, cwd=folder)
        script.await_line("stepping")
        return script, folder

    def requeues(self, folder):
        with open(os.path.join(folder, "requeues"), encoding="utf-8") as f:
            return f.read()

    def test_a_signal_leads_to_one_requeue(self):
        # The job is requeued also if the step ends while the trap still runs.
        script, folder = self.script(75)
        script.signal(signal.SIGUSR1)
        self.assert_code(script, 0)
        self.assertEqual(script.out()[1:],
                         ["stop --job slurm-7 --exit-code 75"])
        self.assertEqual(self.requeues(folder), "requeue 7\n")

    def test_other_ends_lead_to_none(self):
        for code in (0, 3, 138):
            script, folder = self.script(code)
            with open(os.path.join(folder, "go"), "w", encoding="utf-8") as f:
                f.write(f"{code}\n")
            self.assert_code(script, code)
            self.assertEqual(self.requeues(folder), "")
        script, folder = self.script(4)
        script.signal(signal.SIGUSR1)
        self.assert_code(script, 4)
        self.assertEqual(self.requeues(folder), "")


class SlurmSpec(E2E):
    def test_trains_saves_is_requeued_once_and_resumes(self):
        # The test sends the signal that --signal sends before the time limit.
        self.train_through_a_requeue([], lambda slurm, job: self.assert_code(
            slurm.run(["scancel", "--signal=USR1", "--batch", job]), 0))

    def test_the_signal_before_the_time_limit(self):
        """Slurm itself sends the signal of the spec's --signal. Slurm checks
        time limits every 30 s, and they are in minutes."""
        if os.environ.get("ROLLCALL_TEST_SLURM") != "1":
            self.skipTest("NOT TESTED: Slurm takes a minute for it; "
                          "ROLLCALL_TEST_SLURM=1 runs it")
        self.train_through_a_requeue(["--time=2"], lambda *_: None,
                                     deadline_s=180)

    def train_through_a_requeue(self, flags, send, deadline_s=None):
        deadline_s = deadline_s or harness.DEADLINE_S
        lab = Lab(self.stage, 2)
        slurm = Slurm(self.stage, lab)
        train, saved, finish, output, requeues = [
            self.stage.path(name)
            for name in ("train.py", "saved", "finish", "output", "requeues")]
        with open(train, "w", encoding="utf-8") as f:
            f.write(TRAIN)
        for path in (output, requeues):
            with open(path, "w", encoding="utf-8"):
                pass
        # Records the spec's calls of scontrol.
        scontrol = self.stage.path("scontrol")
        with open(scontrol, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\necho "$@" >>{requeues}\n'
                    f'exec {shutil.which("scontrol")} "$@"\n')
        os.chmod(scontrol, 0o755)

        submitted = slurm.run(
            ["sbatch", "--parsable", "--output", output, *flags, SPEC,
             sys.executable, train, saved, finish],
            {"PATH": f"{self.stage.folder}:{harness.BIN}:{os.environ['PATH']}"})
        self.assert_code(submitted, 0)
        job = submitted.out()[0].strip()
        log = self.stage.start(["tail", "-n", "+1", "-F", output])
        log.await_lines(r"\] steps", 2)
        self.assertEqual(self.begun(log), ["0 of 2 lab1 attempt 0",
                                           "0 of 2 lab2 attempt 0"])
        send(slurm, job)
        log.await_lines(r"\] ends at", 2, deadline_s)
        self.await_state(slurm, job, "PENDING")
        with open(requeues, encoding="utf-8") as f:
            self.assertEqual(f.read(), f"requeue {job}\n")
        with open(saved, encoding="ascii") as f:
            step = int(f.read())
        self.assertGreater(step, 0)
        # Slurm does not start a requeued job for two minutes.
        self.await_state(slurm, job, "RUNNING", [
            "scontrol", "update", f"jobid={job}", "StartTime=now"])
        log.await_lines(r"\] steps", 4)
        self.assertEqual(self.begun(log)[2:],
                         [f"{step} of 2 lab1 attempt 1",
                          f"{step} of 2 lab2 attempt 1"])
        with open(finish, "w", encoding="ascii"):
            pass
        ended = self.await_state(slurm, job, "COMPLETED")
        self.assertEqual((ended["Restarts"], ended["ExitCode"]), ("1", "0:0"))

    @staticmethod
    def begun(log):
        """Returns how the ranks began, ordered by the job's starts."""
        found = [line.split("begins at ")[1] for line in log.out()
                 if "begins at" in line]
        return sorted(found[:2]) + sorted(found[2:])

    def await_state(self, slurm, job, wanted, meanwhile=None):
        """Waits until the job has this state; returns the output of `scontrol
        show job`. Meanwhile runs `meanwhile` every two seconds. Slurm has no
        event for it."""
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
            # Slurm ignores a start time that is set within the first second.
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
