"""State folders that cannot be used, and job names that are used again."""
import datetime
import json
import os
import signal

import harness
from harness import E2E, Gate
from training import Training

UNAVAILABLE = 69


class FullDisk(Training):
    def test_no_second_world_until_there_is_room(self):
        state = self.stage.path("state1")
        os.mkdir(state)
        self.on_small_disk = state
        self.begin([1, 2, 3], ["--nodes", "3"], hosts=3)
        fill = os.path.join(state, "fill")
        self.lab.run(1, ["dd", "if=/dev/zero", "of=" + fill, "bs=4k"])
        self.assertIn("100%", self.lab.run(1, ["df", state]).text())
        # While nothing changes, the daemon writes nothing to the disk.
        self.await_more_steps(1)
        self.assertEqual(self.state()["state"], "running")
        # The end of a generation is written before any agent is told of it.
        self.lab.run(2, ["kill", "-9", str(self.rank_pids(2)[0])])
        why = rf"No space left on device \({state}/\S*: .* of 1 MiB free"
        self.agents[3].await_line("journal cannot be written.*" + why, "err")
        # The daemon's log is on the full disk; the launcher prints errors.
        self.launcher.await_line(
            "the daemon: its journal cannot be written.*" + why, "err")
        self.lives_on(2)
        for host in (1, 2, 3):
            self.assertIsNone(self.agents[host].find("up g2"))
        self.lab.run(1, ["rm", fill])
        self.await_steps(2, [1, 2, 3])
        self.launcher.await_line("the daemon: .*can be written again", "err")
        self.end([1, 2, 3])
        self.assert_one_world_at_a_time()

    def test_a_daemon_that_dies_then_is_started_once_there_is_room(self):
        state = self.stage.path("state1")
        os.mkdir(state)
        self.on_small_disk = state
        self.begin([1, 2], ["--nodes", "2"], hosts=2)
        fill = os.path.join(state, "fill")
        self.lab.run(1, ["dd", "if=/dev/zero", "of=" + fill, "bs=4k"])
        (daemon,) = harness.subcommands(self.lab.processes(1), "daemon")
        os.kill(daemon, signal.SIGKILL)
        # The launcher prints the reason, and that it keeps trying.
        self.launcher.await_line("No space left on device", "err")
        self.launcher.await_line("started again every few seconds", "err")
        # The ranks keep running for longer than five quick starts take.
        self.lives_on(5)
        self.await_more_steps(2)
        self.assertIsNone(self.launcher.code)
        told = [line for line in self.launcher.err()
                if "started again every few seconds" in line]
        self.assertEqual(len(told), 1, told)
        self.lab.run(1, ["rm", fill])
        self.launcher.await_line("the daemon listens again", "err")
        self.await_state(lambda s: s["state"] == "running", "a run")
        self.end_undisturbed([1, 2])

    def test_a_disk_without_room_for_a_start_is_named(self):
        """The disk lacks room for one of the files that a start needs."""
        lab = harness.Lab(self.stage, 1)
        state = self.stage.path("state1")
        os.mkdir(state)
        for pages in (1, 2, 4, 6, 8, 12, 16):
            size = f"{4 * pages}k"
            lab.run(1, ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs",
                        state])
            ended = lab.run(1, [harness.ROLLCALL, "launch", "--job", "a",
                                "--state", state + "/a", "--", "true"])
            with self.subTest(size=size, said=ended.text()):
                self.assertEqual(ended.code, UNAVAILABLE)
                # File, reason, free space, and what to do.
                self.assertRegex(
                    "\n".join(ended.err()),
                    rf"{state}/a/?[\w.]*: .*No space left on device "
                    rf"\({state}/a: .* of {4 * pages} KiB free"
                    r"(.|\n)*give another (folder|one) with --state")
            self.assertEqual(lab.run(1, ["umount", state]).code, 0)

    def start_launcher(self, more=()):
        self.lab.run(1, ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs",
                         self.on_small_disk])
        super().start_launcher(more)

    def test_a_read_only_folder_is_named(self):
        lab = harness.Lab(self.stage, 1)
        state = self.stage.path("state1")
        os.mkdir(state)
        lab.run(1, ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", state])
        for command in (["rollcall", "launch", "--job", "a", "--state",
                         state + "/a", "--", "true"],
                        ["rollcalld", "--listen", "127.0.0.1:0", "--state",
                         state + "/b"]):
            command[0] = os.path.join(harness.BIN, command[0])
            ended = lab.run(1, command)
            self.assertNotIn(ended.code, (0, -signal.SIGABRT))
            self.assertRegex(ended.text(), state + r".*Read-only file system")


class Replay(E2E):
    """Tests that the simulator can continue a daemon's run from its journal."""

    def play(self, *words):
        return self.stage.run([os.path.join(harness.BIN, "rollcall_sim"),
                               *words])

    def test_a_journal_of_a_run_that_was_killed(self):
        gate = Gate(self.stage)
        state = self.stage.path("left")
        launcher = self.launch(
            ["--job", "left", "--state", state, "--nodes", "2:3"],
            ["sh", "-c", f"echo up; cat {gate.path}"])
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           ["sh", "-c", f"echo up; cat {gate.path}"])
        for process in (launcher, worker):
            process.await_line("up")
        family = harness.descendants(launcher.pid)
        for pid in (launcher.pid, *family, *harness.descendants(worker.pid),
                    worker.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # The process has ended with its parent.
        self.stage.await_gone(family, "the launcher's processes")
        played = self.play("--journal", state, "--seeds", "1:51")
        self.assertEqual(played.code, 0, played.text())
        self.assertIn("50 seeds green", played.text())
        self.assertEqual(self.play("--journal", state, "--job", "x").code, 2)

    def test_a_folder_without_one(self):
        played = self.play("--journal", self.stage.path("empty"))
        self.assertEqual(played.code, 2)
        self.assertIn("expected one job", played.text())


class Journals(E2E):
    def test_one_that_is_damaged_or_foreign_is_left_as_it_is(self):
        state = self.stage.path("standing")
        daemon = [os.path.join(harness.BIN, "rollcalld"), "--listen",
                  "127.0.0.1:0", "--state", state]
        whole = self.stage.start(daemon)
        whole.await_line("join with: ")
        whole.signal(signal.SIGTERM)
        self.assert_code(whole, 0)
        path = os.path.join(state, "journal.db")
        with open(path, "rb") as f:
            journal = f.read()
        for other in (journal[:len(journal) // 2 + 100],
                      b"a text of somebody else's\n"):
            with open(path, "wb") as f:
                f.write(other)
            refused = self.stage.run(daemon)
            self.assertEqual(refused.code, UNAVAILABLE)
            self.assertIn(path + " is damaged or not a journal",
                          refused.text())
            with open(path, "rb") as f:
                self.assertEqual(f.read(), other)


class NamesAgain(E2E):
    def test_agents_of_the_last_run_still_redial(self):
        gate = Gate(self.stage)
        secret = self.stage.secret_file("secret")
        command = ["sh", "-c", "echo up $ROLLCALL_RUN rank$RANK/$WORLD_SIZE "
                   f"pid=$$; cat {gate.path}"]
        flags = ["--job", "again", "--nodes", "3", "--secret-file", secret]
        first = self.launch([*flags, "--listen", "127.0.0.1:0", "--json"],
                            command)
        port = first.await_line(r'"endpoint":"[^"]*:(\d+)"')[1]
        worker = ["--endpoint", f"127.0.0.1:{port}", "--job", "again",
                  "--secret-file", secret]
        old = {n: self.attend(worker, n, command) for n in ("old-1", "old-2")}
        run, pid = old["old-1"].await_line(r"up (\w+) rank\d/3 pid=(\d+)"
                                           ).groups()
        # Only old-1 and its ranks keep running of the first run.
        for process in (first, old["old-2"]):
            # The launcher is killed before its daemon, because it would start
            # the daemon again, which would hold the port.
            doomed = [process.pid, *harness.descendants(process.pid)]
            for each in doomed:
                try:
                    os.kill(each, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.stage.await_gone(doomed, "a launcher or agent that is killed")
        old["old-1"].await_line("redialling")
        # The second job has the same name, address and secret, but is another
        # run: it has its own state folder, as on another machine.
        second = self.launch(
            [*flags[:2], "--nodes", "2", *flags[4:], "--listen",
             f"127.0.0.1:{port}", "--state", self.stage.path("other")],
            command)
        new = self.attend(worker, "new-1", command)
        runs = {p.await_line(r"up (\w+) rank\d/2")[1] for p in (second, new)}
        self.assertEqual(len(runs), 1)
        self.assertNotIn(run, runs)
        code = old["old-1"].wait()
        self.assertEqual(code, UNAVAILABLE)
        said = "\n".join(t for t in old["old-1"].err() if t[0] != "[")
        self.assertRegex(said, rf"job again is in run \w+ now, not {run}\b")
        self.stage.await_gone([int(pid)], "the first run's rank")
        gate.open()
        for process in (second, new):
            self.assert_code(process, 0)

    def attend(self, worker, name, command):
        return self.stage.start(
            [harness.ROLLCALL, "join", *worker, "--hosts-file", self._hosts,
             "--name", name, "--", *command])


class StepsOfTheRunBefore(E2E):
    def begin(self, state, step, flags=("--json",)):
        """A run of one node that publishes a step, until its gate opens."""
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "again", "--state", state, *flags],
            ["sh", "-c", f"echo {step} >$ROLLCALL_PROGRESS; "
             f"cat {gate.path}"])
        if flags:
            launcher.await_line(f'"step":{step},')
        return launcher, gate

    def events(self, state):
        with open(os.path.join(state, "events.jsonl"), encoding="utf-8") as f:
            return events_of(f)

    def test_a_run_after_a_requeue_that_begins_anew_is_named(self):
        state = self.stage.path("kept")
        # This training finishes, so the next run is another one.
        first, gate = self.begin(state, 12000)
        gate.open()
        self.assert_code(first, 0)
        second, _ = self.begin(state, 4000)
        second.signal(signal.SIGUSR1)
        self.assert_code(second, 75)
        third, gate = self.begin(state, 1, flags=())
        third.await_line("generation 1 began at step 1, and step 4000 had "
                         r"been reached before by run \S+; check", "err")
        gate.open()
        self.assert_code(third, 0)
        events = self.events(state)
        ends = [e for e in events if e["event"] == "end"]
        self.assertEqual([e["step"] for e in ends], ["12000", "4000", "1"])
        below, = [e for e in events if e["event"] == "resumed_below"]
        self.assertEqual(
            (below["run"], below["former_run"], below["step"], below["was"]),
            (ends[2]["run"], ends[1]["run"], "1", "4000"))


class Spans(E2E):
    def test_each_formation_is_a_line_of_otlp(self):
        state = self.stage.path("kept")
        # A rank fails once, so that a second world is formed.
        launcher = self.launch(
            ["--state", state, "--local-workers", "1", "--max-restarts", "1"],
            ["sh", "-c", '[ "$ROLLCALL_GENERATION$RANK" != 11 ]'])
        self.assert_code(launcher, 0)
        launcher.await_line(
            r"^rollcall: ran \S+ s of \S+ s in 2 worlds; most memory of a rank: "
            r"\S+ MiB \(\S+, local rank 0\); 1 interruption of \S+ s in all:$",
            "err")
        launcher.await_line(
            r"^  generation 1: rank \d on \S+ exited with code 1; \S+ s until "
            "the next world$", "err")
        with open(os.path.join(state, "spans.jsonl"), encoding="utf-8") as f:
            exports = [json.loads(line) for line in f]
        all_spans = [e["resourceSpans"][0]["scopeSpans"][0]["spans"]
                     for e in exports]
        # The run's own span is written at its end; it is the root of all.
        (run,) = all_spans.pop()
        self.assertEqual((run["name"], run["status"]), ("run", {"code": 1}))
        self.assertNotIn("parentSpanId", run)
        self.assertEqual([event["name"] for event in run["events"]],
                         ["run", "abort", "run", "end"])
        formations = [spans for spans in all_spans
                      if spans[0]["name"] == "formation"]
        self.assertEqual(len(formations), 2)
        self.assertEqual({spans[0]["parentSpanId"] for spans in all_spans},
                         {run["spanId"]})
        for spans in all_spans:
            self.assertEqual(spans[0]["traceId"], run["traceId"])
            self.assertLessEqual(int(run["startTimeUnixNano"]),
                                 int(spans[0]["startTimeUnixNano"]))
            self.assertLessEqual(int(spans[0]["endTimeUnixNano"]),
                                 int(run["endTimeUnixNano"]))
        self.assertEqual(len({s["traceId"] for f in formations for s in f}), 1)
        for generation, spans in enumerate(formations, 1):
            root = spans[0]
            self.assertEqual((root["name"], root["status"]), ("formation",
                                                              {"code": 1}))
            said = {a["key"]: a["value"] for a in root["attributes"]}
            self.assertEqual(said["rollcall.generation"],
                             {"intValue": str(generation)})
            self.assertEqual(said["rollcall.world_size"], {"intValue": "2"})
            self.assertEqual(said["rollcall.code"]["stringValue"],
                             ("first", "rank_exit")[generation - 1])
            self.assertEqual(spans[-1]["name"], "prepare")
            for span in spans[1:]:
                self.assertEqual(span["parentSpanId"], root["spanId"])
                self.assertLessEqual(int(root["startTimeUnixNano"]),
                                     int(span["startTimeUnixNano"]))
                self.assertLessEqual(int(span["endTimeUnixNano"]),
                                     int(root["endTimeUnixNano"]))


    def test_a_loss_and_a_notice_are_spans_below_the_run(self):
        state = self.stage.path("kept")
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--state", state, *harness.whole("1:2"), "--name", "main",
             "--local-workers", "1", "--requeue-exit-code", "76"],
            ["sh", "-c", f"echo $WORLD_SIZE ranks; cat {gate.path}"])
        for node in ("main", "local-1"):
            launcher.await_line(rf"\[{node}/\d\] 2 ranks")
        agent, = harness.subcommands(harness.descendants(launcher.pid),
                                     "agent", "local-1")
        os.kill(agent, signal.SIGKILL)
        launcher.await_line(r"\[main/0\] 1 ranks")
        launcher.signal(signal.SIGUSR1)
        self.assert_code(launcher, 76)
        with open(os.path.join(state, "spans.jsonl"), encoding="utf-8") as f:
            spans = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]
                     ["spans"][0] for line in f]
        run = spans[-1]
        self.assertEqual((run["name"], run["status"]["code"]), ("run", 2))
        periods = {span["name"]: span for span in spans
                   if span["name"] in ("recovery", "notice")}
        said = {name: {a["key"]: a["value"] for a in span["attributes"]}
                for name, span in periods.items()}
        self.assertEqual(said["recovery"]["rollcall.node"],
                         {"stringValue": "local-1"})
        self.assertEqual(periods["recovery"]["status"], {"code": 1})
        self.assertIn("rollcall.kind", said["notice"])
        for span in periods.values():
            self.assertEqual(span["parentSpanId"], run["spanId"])
            self.assertLess(int(span["startTimeUnixNano"]),
                            int(span["endTimeUnixNano"]))
        self.assertEqual([event["name"] for event in run["events"]],
                         ["run", "lost", "abort", "run", "end"])


# Rank 0 fails, then rank 1, then rank 0: a node that fails twice in a row would
# be quarantined. The other rank waits meanwhile.
FAILS_THREE_TIMES = """
[ "$TORCHELASTIC_RESTART_COUNT" = 3 ] && exit 0
[ "$RANK" = $((TORCHELASTIC_RESTART_COUNT % 2)) ] && exit 5
exec tail -f /dev/null
"""


def events_of(lines):
    events = [json.loads(line) for line in lines]
    for event in events:
        event["at"] = datetime.datetime.fromisoformat(
            event["time"].replace("Z", "+00:00")).timestamp()
    return events


class Events(E2E):
    def events(self, state):
        with open(os.path.join(state, "events.jsonl"), encoding="utf-8") as f:
            return events_of(f)

    def test_the_summary_of_three_failures_is_that_of_the_events(self):
        state = self.stage.path("kept")
        launcher = self.launch(
            ["--state", state, "--local-workers", "1", "--json"],
            ["sh", "-c", FAILS_THREE_TIMES])
        self.assert_code(launcher, 0)
        summary = [json.loads(line) for line in launcher.out()
                   if line.startswith("{")][-1]["summary"]
        events = self.events(state)
        at = {(event["event"], event.get("generation")): event["at"]
              for event in events}
        ran = [event["generation"] for event in events
               if event["event"] == "run"]
        self.assertEqual(len(ran), 4)
        ends = [at["abort", g] for g in ran[:3]] + [at["end", None]]
        begins = [at["run", g] for g in ran]
        self.assertEqual(summary["worlds"], 4)
        self.assertEqual(summary["interruption_count"], 3)
        self.assertEqual(
            [(str(one["generation"]), one["code"])
             for one in summary["interruptions"]],
            [(g, "rank_exit") for g in ran[:3]])
        stopped = [begin - end for begin, end in zip(begins[1:], ends)]
        for found, wanted in [
                (summary["began"], events[0]["at"]),
                (summary["elapsed_s"], ends[-1] - events[0]["at"]),
                (summary["running_s"],
                 sum(end - begin for end, begin in zip(ends, begins))),
                (summary["stopped_s"], sum(stopped)),
                *zip([one["stopped_s"] for one in summary["interruptions"]],
                     stopped)]:
            self.assertAlmostEqual(found, wanted, places=5)

    def test_people_read_them_and_a_killed_daemon_goes_on(self):
        state = self.stage.path("kept")
        # Events of an earlier run, more than one answer holds.
        os.mkdir(state, 0o700)
        with open(os.path.join(state, "events.jsonl"), "w",
                  encoding="ascii") as f:
            for number in range(1, 2001):
                f.write(json.dumps({
                    "id": number, "time": "2026-01-01T00:00:00.000Z",
                    "level": "warning", "job": "again", "run": "r0",
                    "event": "lost", "node": f"n{number:060}"}) + "\n")
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--state", state, "--job", "again", "--local-workers", "1",
             "--json"],
            ["sh", "-c", f"cat {gate.path}"])
        runs = r'("state":"running".*){3}'  # The job and both nodes.
        launcher.await_line(runs)
        (daemon,) = harness.subcommands(harness.descendants(launcher.pid),
                                        "daemon")
        os.kill(daemon, signal.SIGKILL)
        where = ["--state", state]
        launcher.await_line("the daemon was killed by signal 9", "err")
        launcher.await_line(runs, after=launcher.mark())
        asked = self.stage.run([harness.ROLLCALL, "status", "--events", *where])
        self.assertEqual(asked.code, 0, asked.text())
        names = [line.split()[1] for line in asked.out()]
        self.assertEqual(names[:2000], ["lost"] * 2000)
        self.assertEqual((names.count("start"), names.count("run")), (2, 1))
        self.assertIsNotNone(asked.find(r"^\S+Z run generation=1 world_size=2 "))
        asked = self.stage.run([harness.ROLLCALL, "status", "--events", "--json",
                                "--since", "1h", *where])
        ids = [json.loads(line)["id"] for line in asked.out()]
        # An agent may have attended again between the two answers.
        self.assertGreaterEqual(len(ids), len(names) - 2000)
        self.assertEqual(ids, list(range(2001, 2001 + len(ids))))
        gate.open()
        self.assert_code(launcher, 0)
        self.assertIn("end", [event["event"] for event in self.events(state)])
