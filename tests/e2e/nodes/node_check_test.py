"""Nodes are checked before they get a seat (--node-check)."""
import json
import os
import shutil
import signal
import unittest

import harness
from cgroups import make_cgroup
from harness import E2E, Lab, ROLLCALL

TRAIN = os.path.join(harness.BIN, "rollcall-train")
# The other nodes of the test share the machine's cores, and other programs use
# them too, so a slow node gets far less than half of one. It is so slow that it
# could not do all sums of a check in time.
QUOTA_US, PERIOD_US = 1000, 100000
RANK = ["sh", "-c", "echo seat $ROLLCALL_NODE of $WORLD_SIZE"]

# Stand-ins for rollcall-train.
FINE = """echo '{"listening": 4000}'
echo '{"product_s": 0.01, "all_reduce_s": 0.005}'"""
DIES = "kill -KILL $$"
HANGS = """echo '{"listening": 4000}'
kill -STOP $$"""


class NodeCheck(E2E):
    def begin(self, nodes, *flags):
        self.state = self.stage.path("state")
        self.launcher = self.launch(
            ["--no-worker", "--nodes", nodes, "--node-check", "--state",
             self.state, *flags], RANK)
        self.join_line = self.join_string(self.launcher)

    def worker(self, name, train=None, rank=None):
        """A node whose rollcall-train is the script `train`; "": it has none;
        None: the real one."""
        program = ROLLCALL
        if train is not None:
            folder = self.stage.path(f"bin-{name}")
            os.mkdir(folder)
            program = shutil.copy(ROLLCALL, folder)
            if train:
                path = os.path.join(folder, "rollcall-train")
                with open(path, "w", encoding="ascii") as f:
                    f.write(f"#!/bin/sh\n{train}\n")
                os.chmod(path, 0o755)
        return self.stage.start(
            [program, "join", self.join_line, "--hosts-file",
             self._hosts, "--name", name, "--", *(rank or RANK)])

    def events(self, kind):
        with open(os.path.join(self.state, "events.jsonl"),
                  encoding="utf-8") as f:
            events = [json.loads(line) for line in f]
        return [e for e in events if e["event"] == kind]

    def seats(self, workers, size):
        """The nodes whose ranks ran, in a world of this size."""
        return sorted(name for name, worker in workers.items()
                      if worker.find(rf"seat {name} of {size}$"))

    def test_a_slow_node_is_left_out_and_a_spare_has_its_seat(self):
        cgroup = make_cgroup(
            f"rollcall-check-test-{os.getpid()}", "cpu",
            {"cpu.cfs_period_us": str(PERIOD_US),
             "cpu.cfs_quota_us": str(QUOTA_US)},
            {"cpu.max": f"{QUOTA_US} {PERIOD_US}"})
        if cgroup is None:
            self.skipTest("no cgroup with a CPU quota can be made here")
        # Clean-ups run in reverse order: the stage ends first.
        self._cleanups.insert(0, (os.rmdir, (cgroup,), {}))
        self.begin("3")
        workers = {name: self.worker(name) for name in ("b", "c")}
        # Only its checks are slow: an agent under the quota would come late.
        workers["a"] = self.worker(
            "a", f'echo 0 > {cgroup}/cgroup.procs\nexec {TRAIN} "$@"')
        # It arrives during the check, and is a spare.
        self.await_status(
            self.join_line, lambda s: len(s["nodes"]) == 3, "three nodes")
        workers["d"] = self.worker("d")
        self.assert_code(self.launcher, 0, 120)
        self.assertEqual(self.seats(workers, 3), ["b", "c", "d"])
        [found] = self.events("quarantined")
        self.assertEqual(found["node"], "a")
        self.assertRegex(
            found["reason"],
            r"^found by --node-check: matrix product \S+, median \S+; then "
            r"matrix product \S+, median \S+$")
        checks = self.events("node_check")
        self.assertEqual([(e["nodes"], e["found"]) for e in checks],
                         [("3", "1"), ("1", "0")])
        self.assertEqual(checks[0]["rounds"], "2")
        for check in checks:
            self.assertGreater(float(check["product_ms"]), 0)
            self.assertGreater(float(check["all_reduce_ms"]), 0)

    def test_healthy_nodes_pass_the_real_check(self):
        self.begin("2")
        workers = {name: self.worker(name) for name in ("a", "b")}
        self.assert_code(self.launcher, 0, 100)
        self.assertEqual(self.seats(workers, 2), ["a", "b"])
        [check] = self.events("node_check")
        self.assertEqual((check["nodes"], check["found"]), ("2", "0"))

    def test_hosts_check_each_other_over_their_network(self):
        lab = Lab(self.stage, 3)
        self.state = self.stage.path("state")
        launcher = lab.start(1, [
            ROLLCALL, "launch", "--listen", "0.0.0.0:0", "--nodes", "3",
            "--node-check", "--state", self.state, "--", *RANK])
        text = self.join_string(launcher)
        workers = [lab.start(host, [ROLLCALL, "join", text, "--", *RANK])
                   for host in (2, 3)]
        self.assert_code(launcher, 0, 100)
        for worker in workers:
            worker.wait()
        [check] = self.events("node_check")
        self.assertEqual((check["nodes"], check["found"]), ("3", "0"))

    def test_a_check_that_dies_and_a_node_without_the_program(self):
        self.begin("4:5", "--last-call", "10s")
        workers = {name: self.worker(name, FINE) for name in ("a", "b", "c")}
        workers["x"] = self.worker("x", DIES)
        workers["y"] = self.worker("y", "")
        self.assert_code(self.launcher, 0, 100)
        self.assertEqual(self.seats(workers, 4), ["a", "b", "c", "y"])
        [found] = self.events("quarantined")
        self.assertEqual(found["node"], "x")
        self.assertEqual(found["reason"],
                         "found by --node-check: rollcall-train ended by "
                         "signal 9; then rollcall-train ended by signal 9")
        self.assertTrue(any(
            e["node"] == "y" and "has no rollcall-train" in e["text"]
            for e in self.events("warning")))

    def test_a_check_that_hangs_ends_by_its_limit(self):
        self.begin("3:4", "--last-call", "10s")
        workers = {name: self.worker(name, FINE) for name in ("a", "b", "c")}
        workers["x"] = self.worker("x", HANGS)
        self.assert_code(self.launcher, 0, 150)
        self.assertEqual(self.seats(workers, 3), ["a", "b", "c"])
        [found] = self.events("quarantined")
        self.assertEqual(found["node"], "x")
        self.assertIn("did not end within", found["reason"])

    def test_newcomers_are_checked_while_the_world_runs_on(self):
        self.begin("2:3")
        # Only the world with the newcomer ends.
        rank = ["sh", "-c",
                f'{RANK[2]}; [ "$WORLD_SIZE" = 3 ] || exec sleep 600']
        workers = {name: self.worker(name, FINE, rank) for name in ("a", "b")}
        for worker in workers.values():
            worker.await_line(r"seat . of 2$")
        workers["x"] = self.worker("x", DIES, rank)
        self.await_status(
            self.join_line,
            lambda s: ("x", "quarantined") in [
                (n["node"], n["state"]) for n in s["nodes"]],
            "x in quarantine")
        workers["d"] = self.worker("d", FINE, rank)
        self.assert_code(self.launcher, 0, 100)
        self.assertEqual(self.seats(workers, 3), ["a", "b", "d"])
        self.assertEqual(
            [(e["nodes"], e["rounds"], e["found"], e["alone"])
             for e in self.events("node_check")],
            [("2", "1", "0", "false"), ("1", "2", "1", "true"),
             ("1", "1", "0", "true"), ("1", "1", "0", "false")])
        self.assertEqual([e["generation"] for e in self.events("run")],
                         ["1", "2"])

    def test_a_stop_during_a_check_leaves_nothing(self):
        self.begin("2")
        workers = [self.worker(name, HANGS) for name in ("a", "b")]
        # Both programs run, and are stopped.
        awaited = r"nodes check each other, round 1; no answer yet from a, b"
        workers[0].await_line(awaited)
        self.launcher.await_line(awaited)
        self.launcher.signal(signal.SIGTERM)
        self.assert_code(self.launcher, 75)
        for worker in workers:
            worker.wait()
        # The harness fails the test if a process is left.


if __name__ == "__main__":
    unittest.main()
