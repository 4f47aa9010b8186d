"""Base of tests in which a launcher is killed and the next one is started."""
import json
import os
import re
import signal

import harness
from harness import E2E, Gate

JOB = "kept"


class Adoption(E2E):
    def setUp(self):
        super().setUp()
        self.gate = Gate(self.stage)
        # Each rank prints its pid at its start and at its end.
        self.command = [
            "sh", "-c", "echo up g$ROLLCALL_GENERATION rank$RANK/$WORLD_SIZE "
            f"pid=$$; cat {self.gate.path}; echo end=$$"]

    def start(self, *flags, command=None):
        return self.launch(["--job", JOB, *flags], command or self.command)

    def take_back(self, *flags, command=None):
        """Starts the next launcher; returns when it has taken the run back."""
        launcher = self.start(*flags, command=command)
        launcher.await_line("goes on")
        return launcher

    def gather(self, *flags, ranks):
        """Starts a launcher; returns it and its ranks' pids once all are up."""
        launcher = self.start(*flags)
        ups = launcher.await_lines(r"up g1 rank\d+/\d+ pid=(\d+)", ranks)
        return launcher, {int(up[1]) for up in ups}

    def kept_at(self, name="launch.json"):
        return self.stage.path("state", "rollcall", JOB, name)

    def kept(self, name="launch.json"):
        with open(self.kept_at(name), encoding="utf-8") as f:
            return json.load(f)

    def is_kept(self, name="launch.json"):
        return os.path.exists(self.kept_at(name))

    def rewrite(self, record):
        with open(self.kept_at(), "w", encoding="utf-8") as f:
            json.dump(record, f)

    def pids(self):
        """Returns the pids of daemon and agents from the launcher's record."""
        record = self.kept()
        return record["daemon"]["pid"], {
            a["name"]: a["process"]["pid"] for a in record["agents"]}

    def kill_pids(self, *pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.stage.await_gone(pids, "what was killed")

    def state(self, *words):
        return self.status(*(words or ("--job", JOB)))

    def all_run(self, nodes):
        """Returns the first state in which that many nodes run."""
        def condition(state):
            states = [n["state"] for n in state["nodes"]]
            return (state["state"] == "running"
                    and states.count("running") == nodes)
        return self.await_watched(
            [harness.ROLLCALL, "status", "--job", JOB], condition,
            f"{nodes} nodes that run")

    def stop_next_run(self):
        """Starts a launcher that must form its world again, and ends it."""
        launcher = self.start("--local-workers", "1")
        launcher.await_lines(r"up g[2-9] rank\d/2", 2)
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)

    def ends(self, launchers, ranks):
        """Checks that the last launcher exits 0 and no rank was restarted."""
        self.gate.open()
        self.assert_code(launchers[-1], 0)
        self.stage.pump(launchers[0].done, "the ranks' last output")
        self.assert_untouched(launchers, ranks)

    def assert_untouched(self, launchers, ranks):
        """Checks that no rank was restarted: each began and ended once."""
        ends = [int(m) for launcher in launchers
                for _, _, text in launcher.lines
                for m in re.findall(r"end=(\d+)", text)]
        self.assertEqual(sorted(ends), sorted(ranks))
        for launcher in launchers:
            self.assertIsNone(launcher.find("up g2"))
