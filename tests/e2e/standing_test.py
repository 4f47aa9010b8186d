"""A standing rollcalld: jobs come and go, no launcher is needed."""
import os
import signal
import stat

import harness
from harness import E2E, Gate


class Standing(E2E):
    def setUp(self):
        super().setUp()
        self.state = self.stage.path("standing")
        self.daemon = self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen", "127.0.0.1:0",
             "--state", self.state])
        self.daemon.await_line(r"join with: ")
        with open(os.path.join(self.state, "worker.join"),
                  encoding="ascii") as f:
            self.join_text = f.read().strip()

    def agents(self, job, command):
        """The two nodes of a job."""
        return [self.join(self.join_text, ["--job", job, "--nodes", "2",
                                           "--name", f"{job}-{node}"], command)
                for node in ("a", "b")]

    def assert_ran(self, job, agents):
        """Both ended well; the job's run, which both ranks had."""
        runs = set()
        for rank, agent in enumerate(agents):
            self.assert_code(agent, 0)
            found = agent.await_line(
                r"rank (\d) of (\d) job (\S+) generation (\d) run (\S+)")
            self.assertEqual(found.groups()[:4], (str(rank), "2", job, "1"))
            runs.add(found[5])
        self.assertEqual(len(runs), 1)
        return runs.pop()

    def test_three_jobs_without_a_launcher(self):
        for name in os.listdir(self.state):
            mode = os.stat(os.path.join(self.state, name)).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600, name)
        say = ("echo rank $RANK of $WORLD_SIZE job $ROLLCALL_JOB "
               "generation $ROLLCALL_GENERATION run $ROLLCALL_RUN")
        # Two at once, and both run before either may end.
        gate = Gate(self.stage)
        command = ["sh", "-c", f"{say}; cat {gate.path}"]
        both = {job: self.agents(job, command) for job in ("one", "two")}
        for agents in both.values():
            for agent in agents:
                agent.await_line(r"\] rank \d of 2")
        gate.open()
        runs = {self.assert_ran(job, agents) for job, agents in both.items()}
        # The daemon stands, and takes another.
        runs.add(self.assert_ran(
            "three", self.agents("three", ["sh", "-c", say])))
        self.assertEqual(len(runs), 3)
        self.assertIsNone(self.daemon.code)
        self.daemon.signal(signal.SIGTERM)
        self.assert_code(self.daemon, 0)
        with open(self._hosts, "rb") as f:
            self.assertEqual(f.read(), b"127.0.0.1 localhost\n# mine\n")

    def test_a_job_that_fails_ends_no_other(self):
        gate = Gate(self.stage)
        good = self.agents("good", ["sh", "-c", f"echo up; cat {gate.path}"])
        for agent in good:
            agent.await_line(r"\] up")
        for agent in self.agents("bad", [
                "sh", "-c", "test $ROLLCALL_GENERATION -lt 4; exit 9"]):
            self.assert_code(agent, 9)
        gate.open()
        for agent in good:
            self.assert_code(agent, 0)


if __name__ == "__main__":
    harness.main()
