"""Tests rollcall-train --check: its table, its verdicts, and the job's end for
each verdict."""
import json
import os
import re

import harness
from harness import E2E, Gate, Lab

TRAIN = os.path.join(harness.BIN, "rollcall-train")
CHECK = [TRAIN, "--check"]
# A busy machine has slow links, which must not fail the check.
CALM = ["--link-outlier", "1e9"]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast",
               "sendrecv"]


def bus_factor(collective, ranks):
    return {"all_reduce": 2 * (ranks - 1) / ranks,
            "all_gather": (ranks - 1) / ranks,
            "reduce_scatter": (ranks - 1) / ranks}.get(collective, 1)


class Check(E2E):
    def check(self, flags, check_flags, code, deadline_s=100):
        """Runs a check on four local nodes; it must exit with `code`."""
        launcher = self.launch(["--local-workers", "3", *flags],
                               [*CHECK, *CALM, *check_flags])
        self.assert_code(launcher, code, deadline_s)
        return launcher

    def said(self, process):
        """Returns the ranks' lines on stdout, by rank."""
        found = {}
        for line in process.out():
            match = re.match(r"\[[^/\]]+/(\d+)\] (.*)", line)
            if match:
                found.setdefault(int(match[1]), []).append(match[2])
        return found

    def test_the_table_of_four_nodes(self):
        launcher = self.check([], ["--max-bytes", "2M", "--iters", "5"], 0)
        said = self.said(launcher)
        self.assertEqual(set(said), {0}, "rank 0 alone prints")
        lines = said[0]
        self.assertIn("4 ranks on 4 nodes, transport Socket", lines[0])
        self.assertEqual(lines[-1], "# verdict: ok")
        sizes = {}
        for line in lines:
            head = re.match(r"# (\w+), (?:in|out of) place$", line)
            if head:
                collective = head[1]
            columns = line.split()
            if line.startswith("#") or len(columns) != 9:
                continue
            self.assertEqual(columns[2], "float")
            self.assertEqual(columns[3], "sum" if collective in (
                "all_reduce", "reduce_scatter") else "none")
            self.assertEqual(columns[4],
                             "0" if collective == "broadcast" else "-1")
            self.assertEqual(columns[8], "0", "#wrong")
            size, count = int(columns[0]), int(columns[1])
            pieces = 4 if collective in ("all_gather", "reduce_scatter") else 1
            self.assertEqual(size, count * pieces * 4)
            time_us, algbw, busbw = map(float, columns[5:8])
            expected = size / time_us / 1e3
            # The printed values are rounded.
            self.assertAlmostEqual(algbw, expected,
                                   delta=0.0006 + expected * 0.006 / time_us)
            self.assertAlmostEqual(busbw, expected * bus_factor(collective, 4),
                                   delta=0.0006 + expected * 0.02 / time_us)
            sizes.setdefault(collective, []).append(size)
        self.assertEqual(list(sizes), COLLECTIVES)
        for of_one in sizes.values():
            self.assertEqual(of_one[-1], 2 << 20)
            self.assertEqual(of_one, sorted(set(of_one)))
        links = [line for line in lines
                 if re.match(r" +[\d.]+ +[\d.]+  rank \d", line)]
        self.assertEqual(len(links), 4)
        for node in ("local-1", "local-2", "local-3"):
            self.assertEqual(len([l for l in links if f" on {node}" in l]), 2)
        self.assertTrue([line for line in lines if re.match(
            r"# slowest between nodes: rank \d on \S+ - rank \d on \S+, "
            r"[\d.]+ us, [\d.]+ times the median of [\d.]+ us", line)])

    def test_json(self):
        launcher = self.check(
            [], ["--json", "--min-bytes", "4K", "--max-bytes", "64K"], 0)
        objects = [json.loads(line) for line in self.said(launcher)[0]]
        rows = [o for o in objects if "collective" in o]
        self.assertEqual([(r["collective"], r["size"]) for r in rows],
                         [(c, s) for c in COLLECTIVES
                          for s in (4096, 16384, 65536)])
        for row in rows:
            self.assertEqual(row["wrong"], 0)
            algbw = row["size"] / row["time_us"] / 1e3
            self.assertAlmostEqual(row["algbw"], algbw, delta=algbw * 1e-6)
            self.assertAlmostEqual(
                row["busbw"], algbw * bus_factor(row["collective"], 4),
                delta=algbw * 1e-6)
        links = [o for o in objects if "link" in o]
        self.assertEqual([(o["from"], o["to"]) for o in links],
                         [(0, 1), (1, 2), (2, 3), (3, 0)])
        for link in links:
            self.assertLessEqual(link["median_us"], link["p99_us"])
        self.assertEqual(objects[-1], {
            "verdict": "ok", "exit_code": 0, "ranks": 4,
            "transport": "Socket", "reasons": []})

    def assert_failed_for_good(self, launcher, says):
        """Checks that each rank reports the error once and that the job does
        not restart."""
        verdicts = [line for line in launcher.err() if re.match(
            r"\[\S+/\d\] rollcall-train: check: fatal: ", line)]
        self.assertEqual(len(verdicts), 4, verdicts)
        for line in verdicts:
            self.assertIn(says, line)
        self.assertNotIn("generation 2", launcher.text())

    def test_a_net_that_is_not_there_ends_the_job_with_30_at_once(self):
        launcher = self.check([], ["--require-net", "ib", "--max-bytes", "64",
                                   "--pings", "5"], 30)
        self.assert_failed_for_good(launcher, "required: ib")
        self.assertIn("# verdict: fatal", self.said(launcher)[0])

    def test_thresholds_from_a_file(self):
        path = self.stage.path("thresholds.json")
        with open(path, "w", encoding="ascii") as f:
            json.dump({"min-busbw": 1e6, "require-net": "socket"}, f)
        quick = ["--max-bytes", "4K", "--pings", "5", "--thresholds", path]
        launcher = self.check([], quick, 30)
        self.assert_failed_for_good(launcher,
                                    "the all-reduce of 4096 bytes has")
        # A flag overrides the value in the file.
        self.check([], [*quick, "--min-busbw", "1e-9"], 0)

    def test_flags_that_differ(self):
        launcher = self.launch(["--nodes", "2"], [*CHECK, "--iters", "3"])
        worker = self.join(self.join_string(launcher), ["--name", "other"],
                           [*CHECK, "--iters", "4"])
        self.assert_code(launcher, 30)
        self.assert_code(worker, 30)
        self.assertIn("the flags of --check differ", launcher.text())

    def test_alone_without_an_agent(self):
        alone = self.stage.run([*CHECK, "--max-bytes", "1K"],
                               {"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(alone.code, 0, alone.text())
        self.assertEqual(alone.text().count("--device auto chose the CPU: "),
                         1)
        self.assertIn("1 rank on 1 node, transport single", alone.out()[0])
        self.assertEqual(alone.out()[-1], "# verdict: ok")
        demanded = self.stage.run([*CHECK, "--require-net", "ib",
                                   "--max-bytes", "1K", "--device", "cpu"])
        self.assertEqual(demanded.code, 30, demanded.text())
        self.assertNotIn("chose the CPU", demanded.text())

    def test_bad_flags(self):
        bad = self.stage.path("bad.json")
        with open(bad, "w", encoding="ascii") as f:
            f.write('{"min-busbw": 1, "max-latncy": 2}')
        for flags, says in ((["--thresholds", bad], '"max-latncy": unknown'),
                            (["--thresholds", "/none"], "/none"),
                            (["--require-net", "tcp"], "--require-net"),
                            (["--max-bytes", "4"], "--max-bytes"),
                            (["--steps", "9"], "--check: got --steps")):
            refused = self.stage.run([*CHECK, *flags])
            self.assertEqual(refused.code, 2, refused.text())
            self.assertIn(says, refused.text())
        without = self.stage.run([TRAIN, "--iters", "3"])
        self.assertEqual(without.code, 2, without.text())

    def test_a_node_that_goes_meanwhile(self):
        # Each row takes up to two seconds, or longer if the machine slows down
        # meanwhile.
        check = [*CHECK, *CALM, "--iters", "20000", "--max-bytes", "8"]
        launcher = self.launch([*harness.whole("2:3")], check)
        join_string = self.join_string(launcher)
        workers = [self.join(join_string, ["--name", name], check)
                   for name in ("a", "b")]
        launcher.await_line(r"\] # rollcall-train --check: 3 ranks on 3 nodes")
        workers[1].signal(9)
        # The remaining two nodes check their world from the beginning.
        launcher.await_line(r"\] # rollcall-train --check: 2 ranks on 2 nodes")
        self.assert_code(launcher, 0, 100)
        self.assert_code(workers[0], 0)
        self.assertIn("has ended during its check", launcher.text())


class Unreachable(E2E):
    def test_ranks_that_cannot_connect_are_worth_another_try(self):
        lab = Lab(self.stage, 3)
        gate = Gate(self.stage)
        check = ["sh", "-c", 'echo up; cat "$0"; exec "$@"', gate.path, *CHECK,
                 "--max-bytes", "8", "--collective-timeout", "3"]
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "2", "--no-worker",
            "--max-restarts", "1", "--listen", "0.0.0.0:0", "--", *check])
        join_string = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        agents = [lab.start(host, [harness.ROLLCALL, "join", join_string, "--",
                                   *check]) for host in (2, 3)]
        for agent in agents:
            agent.await_line(r"\] up")
        # Both nodes reach the daemon, but no longer each other.
        lab.cut_between([2], [3])
        gate.open()
        for process in (launcher, *agents):
            self.assert_code(process, 20)
        for agent in agents:
            # The job has used all its restarts.
            agent.await_lines(
                r"rollcall-train: check: retryable: the check could not be "
                r"completed", 1)
        self.assertIn("generation 2", launcher.text())


class SlowLink(E2E):
    def test_the_node_with_the_bad_cable_is_named(self):
        lab = Lab(self.stage, 4)
        # The bad cable makes the link a hundred times slower. A busy machine
        # may make a good link four times slower, which is the default.
        check = [*CHECK, "--max-bytes", "8", "--iters", "2", "--pings", "40",
                 "--link-outlier", "8"]
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "4", "--job", "check",
            "--listen", "0.0.0.0:0", "--", *check])
        join_string = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        lab.fault("slow", 3, 64)
        agents = [lab.start(host, [harness.ROLLCALL, "join", join_string, "--",
                                   *check]) for host in (2, 3, 4)]
        for process in (launcher, *agents):
            self.assert_code(process, 10)
        warning = launcher.await_line(r"rollcall-train: check: warning: (.*)")
        self.assertRegex(warning[1], r"look at lab3, its cable")
        slowest = launcher.await_line(
            r"# slowest between nodes: (rank . on .*), [\d.]+ us, "
            r"([\d.]+) times the median")
        self.assertIn("lab3", slowest[1])
        self.assertGreater(float(slowest[2]), 8)
        self.assertNotIn("generation 2", launcher.text())
