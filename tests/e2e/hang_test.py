"""Ranks that live and stand still: found, named, and the job goes on."""
import glob
import os
import re
import signal
import time

import harness
from harness import E2E, command_line, descendants

STEP = re.compile(r"\[([^/\]]+)/(\d+)\] step (\d+) loss .* "
                  r"world (\d+) generation (\d+)")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
TRAIN = os.path.join(harness.BIN, "rollcall-train")
MODEL = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "32",
         "--batch", "12", "--log-all-ranks"]
# Counts three steps in its progress file; in the first world it then stands
# still for good.
PLAIN = """
import os, signal, sys
def stands_still():
    while True:
        signal.pause()
first = os.environ["ROLLCALL_GENERATION"] == "1"
with open(os.environ["ROLLCALL_PROGRESS"], "w") as progress:
    for step in range(1, 4):
        progress.seek(0)
        progress.write(f"{step}\\n")
        progress.flush()
print("up", os.getpid(), flush=True)
if first:
    stands_still()
"""


def state_of(pid):
    """Of /proc/PID/stat; None: gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(") ")[2][0]
    except OSError:
        return None


class Hang(E2E):
    def gather(self, flags):
        """Three nodes that train, by name."""
        command = [TRAIN, "--data", *TEXT, "--steps", "1000000", *MODEL]
        launcher = self.launch(["--nodes", "3", "--name", "w0", *flags],
                               command)
        self.join_text = self.join_string(launcher)
        self.agents = {"w0": launcher}
        for name in ("w1", "w2"):
            self.agents[name] = self.join(self.join_text, ["--name", name],
                                          command)
        for agent in self.agents.values():
            agent.await_line(r"\] step 20 .* generation 1$")
        return launcher

    def rank_of(self, name):
        [pid] = [p for p in descendants(self.agents[name].pid)
                 if command_line(p)[:1] == [TRAIN]]
        return pid

    def end(self, launcher):
        launcher.signal(signal.SIGINT)
        launcher.signal(signal.SIGINT)
        for agent in self.agents.values():
            agent.wait()

    def test_a_stopped_rank_is_named_and_the_others_live_on(self):
        launcher = self.gather(["--hang-timeout", "4s"])
        before = {name: self.rank_of(name) for name in self.agents}
        os.kill(before["w1"], signal.SIGSTOP)
        for agent in self.agents.values():
            agent.await_line(r"\] step \d+ .* world 3 generation 2$",
                             deadline_s=60)
        after = {name: self.rank_of(name) for name in self.agents}
        for name in ("w0", "w2"):
            self.assertEqual(after[name], before[name], name)
        self.assertNotEqual(after["w1"], before["w1"])
        self.assertIsNone(state_of(before["w1"]), "the stopped one is gone")
        # It is named, with what is wrong with it; nobody else is.
        state = self.status(self.join_text)
        cause = state["root_cause"]
        self.assertEqual((cause["node"], cause["code"]),
                         ("w1", "hang"), cause)
        self.assertIn("it is stopped", cause["detail"])
        # Stacks of all of them are in their logs, the stopped one's too.
        for agent in self.agents.values():
            agent.await_line(r"local rank 0 makes no progress", "err")
            agent.await_line(r"process \d+ \(\S+\) .* threads:", "err", 5)
        # No step is lost: who lived on repeats the one in flight at most.
        for name in ("w0", "w2"):
            steps = [int(m[3]) for line in self.agents[name].out()
                     for m in [STEP.search(line)] if m]
            for one, next_one in zip(steps, steps[1:]):
                self.assertIn(next_one - one, (0, 1))
        self.end(launcher)

    def test_a_plain_command_is_watched_by_its_progress_file(self):
        launcher = self.launch(
            ["--hang-timeout", "1s", "--name", "w0", "--max-restarts", "1"],
            ["python3", "-c", PLAIN])
        self.assert_code(launcher, 0)
        pids = [int(m[1]) for line in launcher.out()
                for m in [re.search(r"\] up (\d+)$", line)] if m]
        self.assertEqual(len(pids), 2)
        self.assertIsNone(state_of(pids[0]))
        self.assertRegex(launcher.text(), r"made no progress.*after step 3")
        self.assertRegex(launcher.text(), rf"process {pids[0]} \(python3\)")

    def test_without_a_limit_nobody_is_watched(self):
        launcher = self.gather(["--hang-timeout", "never"])
        stopped = self.rank_of("w1")
        os.kill(stopped, signal.SIGSTOP)
        # How long nothing happens is the test's own.
        until = time.monotonic() + 3
        self.stage.pump(lambda: time.monotonic() >= until, "a while", 3)
        self.assertEqual(state_of(stopped), "T")
        self.assertEqual(self.status(self.join_text)["generation"], 1)
        os.kill(stopped, signal.SIGCONT)
        for agent in self.agents.values():
            agent.await_line(r"\] step 40 .* generation 1$")
        self.end(launcher)


if __name__ == "__main__":
    harness.main()
