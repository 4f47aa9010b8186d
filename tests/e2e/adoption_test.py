"""A launcher that is killed and started again takes its run back."""
import json
import os
import re
import shutil
import signal

import harness
from harness import E2E, Gate

JOB = "kept"


class Adoption(E2E):
    def setUp(self):
        super().setUp()
        self.gate = Gate(self.stage)
        # Who is up, and which process; then how it ended.
        self.command = [
            "sh", "-c", "echo up g$ROLLCALL_GENERATION rank$RANK/$WORLD_SIZE "
            f"pid=$$; cat {self.gate.path}; echo end=$$"]

    def start(self, *flags, command=None):
        return self.launch(["--job", JOB, *flags], command or self.command)

    def gather(self, *flags, ranks):
        """A launcher all of whose ranks are up, and their pids."""
        launcher = self.start(*flags)
        ups = launcher.await_lines(r"up g1 rank\d+/\d+ pid=(\d+)", ranks)
        return launcher, {int(up[1]) for up in ups}

    def kept(self, name="launch.json"):
        with open(self.stage.path("state", "rollcall", JOB, name),
                  encoding="utf-8") as f:
            return json.load(f)

    def is_kept(self, name="launch.json"):
        return os.path.exists(
            self.stage.path("state", "rollcall", JOB, name))

    def pids(self):
        """Daemon and agents, as the launcher wrote them down."""
        record = self.kept()
        return record["daemon"]["pid"], {
            a["name"]: a["process"]["pid"] for a in record["agents"]}

    def kill(self, launcher):
        launcher.signal(signal.SIGKILL)
        self.stage.pump(lambda: launcher.code is not None, "its end")

    def kill_pids(self, *pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.stage.await_gone(pids, "what was killed")

    def state(self, *words):
        asked = self.stage.run(
            [harness.ROLLCALL, "status", "--json", *(words or ("--job", JOB))])
        self.assertEqual(asked.code, 0, self.stage.transcript())
        return json.loads("\n".join(asked.out()))

    def watch_until(self, condition, what):
        """As await_status, for a daemon that may not listen yet: as a person
        would, it is asked again."""
        for _ in range(1000):
            watch = self.stage.start([harness.ROLLCALL, "status", "--job", JOB,
                                      "--json", "--watch"])

            def look():
                for state in map(json.loads, watch.out()):
                    if condition(state):
                        return state
                return watch.done()
            state = self.stage.pump(look, what)
            if state is not True:
                watch.signal(signal.SIGTERM)
                return state
        return self.stage.fail(f"never came: {what}")

    def all_run(self, nodes):
        def condition(state):
            states = [n["state"] for n in state["nodes"]]
            return (state["state"] == "running"
                    and states.count("running") == nodes)
        return self.watch_until(condition, f"{nodes} nodes that run")

    def assert_untouched(self, launchers, ranks):
        """Nobody was started again: each rank began and ended once."""
        ends = [int(m) for launcher in launchers
                for _, _, text in launcher.lines
                for m in re.findall(r"end=(\d+)", text)]
        self.assertEqual(sorted(ends), sorted(ranks))
        for launcher in launchers:
            self.assertIsNone(launcher.find("up g2"))


class LauncherAlone(Adoption):
    def test_its_agents_and_workers_are_taken_back(self):
        first, ranks = self.gather("--local-workers", "2", ranks=3)
        daemon, agents = self.pids()
        port = self.kept()["port"]
        join = self.kept("daemon.json")["join"]
        self.kill(first)
        # From anywhere on this machine meanwhile.
        self.assertEqual(self.state()["state"], "running")
        second = self.start("--local-workers", "2")
        told = second.await_line(r"goes on: its daemon is process (\d+)")
        self.assertEqual(int(told[1]), daemon)
        self.assertEqual(self.pids(), (daemon, agents))
        self.assertEqual(self.kept()["port"], port)
        self.assertEqual(self.kept("daemon.json")["join"], join)
        state = self.state(join)
        self.assertEqual((state["generation"], state["state"]),
                         (1, "running"))
        self.assertEqual(harness.descendants(second.pid), [])
        self.gate.open()
        self.assert_code(second, 0)
        self.stage.pump(first.done, "the ranks' last words")
        self.assert_untouched([first, second], ranks)
        self.assert_no_orphans()
        self.assertFalse(self.is_kept())
        self.assertFalse(self.is_kept("daemon.json"))

    def test_five_times_in_a_row(self):
        launcher, ranks = self.gather("--nodes", "2", "--local-workers", "1",
                                      ranks=2)
        launchers, before = [launcher], self.pids()
        for _ in range(5):
            self.kill(launchers[-1])
            launchers.append(self.start("--nodes", "2", "--local-workers",
                                        "1"))
            launchers[-1].await_line("goes on")
            self.assertEqual(self.all_run(2)["generation"], 1)
            self.assertEqual(self.pids(), before)
        self.gate.open()
        self.assert_code(launchers[-1], 0)
        self.stage.pump(launcher.done, "the ranks' last words")
        self.assert_untouched(launchers, ranks)

    def test_a_worker_elsewhere_notices_nothing(self):
        first = self.start("--nodes", "2")
        join = self.join_string(first)
        worker = self.join(join, ["--name", "w1"], self.command)
        worker.await_line("up g1")
        first.await_line("up g1")
        self.kill(first)
        second = self.start("--nodes", "2")
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 0)
        self.assert_code(worker, 0)
        self.assertIsNone(worker.find("up g2"))

    def test_a_rank_s_code_reaches_the_one_that_took_over(self):
        gate = self.gate.path
        command = ["sh", "-c", f"echo up; cat {gate}; "
                   "test $RANK != 1 || exit 7; cat /dev/null"]
        flags = ["--local-workers", "1", "--max-restarts", "0"]
        first = self.start(*flags, command=command)
        first.await_lines(r"\] up$", 2)
        self.kill(first)
        second = self.start(*flags, command=command)
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 7)
        self.assertIsNotNone(second.find(r"rank 1 on local-1\b.*\bcode 7\b"))

    def test_ctrl_c_ends_what_it_took_back(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        self.kill(first)
        second = self.start("--local-workers", "1")
        second.await_line("goes on")
        second.signal(signal.SIGINT)
        self.assert_code(second, 130)
        self.assert_no_orphans()

    def test_sigusr1_asks_for_requeue(self):
        flags = ["--local-workers", "1", "--requeue-exit-code", "99"]
        first, _ = self.gather(*flags, ranks=2)
        self.kill(first)
        second = self.start(*flags)
        second.await_line("goes on")
        second.signal(signal.SIGUSR1)
        self.assert_code(second, 99)
        self.assert_no_orphans()

    def test_stop_where_no_launcher_lives(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        self.kill(first)
        stop = self.stage.run([harness.ROLLCALL, "stop", "--job", JOB])
        self.assertEqual(stop.code, 0, self.stage.transcript())
        self.assert_no_orphans()
        self.assertFalse(self.is_kept())
        # What comes next is another run.
        self.gate.open()
        second = self.start("--local-workers", "1")
        self.assert_code(second, 0)
        self.assertIsNone(second.find("goes on"))
        self.assertIsNotNone(second.find("up g1 rank1/2"))

    def test_a_run_that_has_ended_begins_anew(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        self.kill(first)
        self.gate.open()
        self.assert_no_orphans()
        second = self.start("--local-workers", "1")
        self.assert_code(second, 0)
        self.assertIsNone(second.find("goes on"))
        self.assertIsNotNone(second.find("up g1 rank1/2"))

    def test_json_tells_it(self):
        first, _ = self.gather("--local-workers", "1", "--json", ranks=2)
        daemon, agents = self.pids()
        self.kill(first)
        second = self.start("--local-workers", "1", "--json")
        second.await_line("joinable", "out")
        self.gate.open()
        self.assert_code(second, 0)
        objects = [json.loads(line) for line in second.out()]
        self.assertEqual(objects[0], {
            "event": "taken_back", "job": JOB, "daemon_pid": daemon,
            "agents": sorted(agents, key=agents.get)})
        self.assertEqual(objects[-1]["exit_code"], 0)

    def test_by_the_name_that_was_made_up(self):
        first = self.launch(["--local-workers", "1"], self.command)
        first.await_lines("up g1", 2)
        self.kill(first)
        (job,) = os.listdir(self.stage.path("state", "rollcall"))
        second = self.launch(["--local-workers", "1", "--job", job],
                             self.command)
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 0)
        # Nobody will look for a name that was made up.
        self.assertEqual(os.listdir(self.stage.path("state", "rollcall")), [])

    def test_by_state_alone(self):
        flags = ["--local-workers", "1", "--state", self.stage.path("mine")]
        first = self.launch(flags, self.command)
        first.await_lines("up g1", 2)
        self.kill(first)
        second = self.launch(flags, self.command)
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 0)


    def test_whatever_closes_the_wire(self):
        secret = self.stage.path("secret")
        made = self.stage.run([harness.ROLLCALL, "token", "secret"])
        with open(secret, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(made.out()[0])
        other = self.stage.path("other")
        with open(other, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("".join(reversed(made.out()[0])))
        local = ["--listen", "127.0.0.1:0", "--local-workers", "1"]
        for job, way in (("by-secret", ["--secret-file", secret]),
                         ("open", ["--insecure"])):
            with self.subTest(job=job):
                flags = ["--job", job, *way, *local]
                first = self.launch(flags, self.command)
                first.await_lines("up g1", 2)
                self.kill(first)
                wrong = self.launch(["--job", job, "--secret-file", other,
                                     *local], self.command)
                self.assert_code(wrong, 2)
                self.assertIsNotNone(wrong.find("--secret-file", "err"))
                second = self.launch(flags, self.command)
                second.await_line("goes on")
                self.assertEqual(self.state("--job", job)["generation"], 1)
                second.signal(signal.SIGINT)
                self.assert_code(second, 130)

    def test_where_its_output_is_gone(self):
        # A terminal that was closed: what the ranks write goes nowhere.
        quiet = self.stage.path("quiet")
        command = ["sh", "-c", f"cat {self.gate.path}; echo lost; "
                   f"echo done >> {quiet}"]
        first = self.stage.start(
            ["sh", "-c", 'exec "$0" "$@" >&- 2>&-', harness.ROLLCALL,
             "launch", "--hosts-file", self._hosts, "--job", JOB, "--",
             *command])
        self.all_run(1)
        self.kill(first)
        second = self.start(command=command)
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 0)
        with open(quiet, encoding="ascii") as f:
            self.assertEqual(f.read(), "done\n")


class MoreThanTheLauncher(Adoption):
    def test_the_daemon_dies_under_one_that_took_it_over(self):
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        port = self.kept()["port"]
        self.kill(first)
        second = self.start("--local-workers", "1")
        second.await_line("goes on")
        self.kill_pids(daemon)
        second.await_line("started again")
        self.assertEqual(self.all_run(2)["generation"], 1)
        self.assertNotEqual(self.pids()[0], daemon)
        self.assertEqual(self.pids()[1], agents)
        self.assertEqual(self.kept()["port"], port)
        self.gate.open()
        self.assert_code(second, 0)
        self.stage.pump(first.done, "the ranks' last words")
        self.assert_untouched([first, second], ranks)

    def test_launcher_and_daemon(self):
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        port = self.kept()["port"]
        self.kill(first)
        self.kill_pids(daemon)
        second = self.start("--local-workers", "1")
        second.await_line("goes on: its daemon is started again")
        self.assertEqual(self.all_run(2)["generation"], 1)
        self.assertEqual(self.pids()[1], agents)
        self.assertEqual(self.kept()["port"], port)
        self.gate.open()
        self.assert_code(second, 0)
        self.stage.pump(first.done, "the ranks' last words")
        self.assert_untouched([first, second], ranks)
        self.assert_no_orphans()

    def test_the_port_is_taken_meanwhile(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        self.kill(first)
        self.kill_pids(daemon)
        taken = harness.take_port(self.kept()["port"])
        second = self.start("--local-workers", "1")
        self.assert_code(second, 69)
        self.assertIsNotNone(second.find(str(self.kept()["port"]), "err"))
        # Nothing else has happened: it can still be taken back.
        for pid in agents.values():
            os.kill(pid, 0)
        taken.close()
        third = self.start("--local-workers", "1")
        self.assertEqual(self.all_run(2)["generation"], 1)
        self.gate.open()
        self.assert_code(third, 0)

    def test_own_agent_as_well(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        (own,) = [a["name"] for a in self.kept()["agents"] if a["own"]]
        self.kill(first)
        self.kill_pids(agents[own])
        second = self.start("--local-workers", "1")
        second.await_line(f"goes on: its daemon is process {daemon}; "
                          "the ranks of local-1 run on")
        second.await_line(r"up g\d+ rank0/2")
        self.gate.open()
        self.assert_code(second, 0)

    def test_everything_dies(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        run = self.state()["run"]
        port = self.kept()["port"]
        self.kill(first)
        self.kill_pids(daemon, *agents.values())
        second = self.start("--local-workers", "1")
        second.await_line("goes on")
        second.await_lines(r"up g[2-9] rank\d/2", 2)
        state = self.all_run(2)
        self.assertGreater(state["generation"], 1)
        self.assertEqual(state["run"], run)
        self.assertEqual(self.kept()["port"], port)
        self.gate.open()
        self.assert_code(second, 0)
        self.assert_no_orphans()

    def test_the_machine_was_started_anew(self):
        # The same numbers mean other processes then.
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        self.kill(first)
        self.kill_pids(daemon, *agents.values())
        self.stage.await_gone(ranks, "the ranks of the killed agents")
        # And what agents know of those before them lies on a tmpfs.
        shutil.rmtree(self.stage.path("run"))
        os.mkdir(self.stage.path("run"), 0o700)
        bystander = self.stage.start(["cat", self.gate.path])
        record = self.kept()
        record["boot_id"] = "of another boot"
        for process in [record["daemon"],
                        *(a["process"] for a in record["agents"])]:
            process.update(pid=bystander.pid,
                           start=harness.start_ticks(bystander.pid))
        path = self.stage.path("state", "rollcall", JOB, "launch.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(record, f)
        second = self.start("--local-workers", "1")
        second.await_lines(r"up g[2-9] rank\d/2", 2)
        second.signal(signal.SIGINT)
        self.assert_code(second, 130)
        self.assertIsNone(bystander.code)

    def test_one_that_died_while_it_started(self):
        # Nobody was ever told the port: that daemon is of no use.
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        run = self.state()["run"]
        self.kill(first)
        self.kill_pids(*agents.values())
        record = self.kept()
        record.update(port=0, agents=[])
        path = self.stage.path("state", "rollcall", JOB, "launch.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(record, f)
        second, ranks = self.gather("--local-workers", "1", ranks=2)
        self.assertIsNone(second.find("goes on"))
        self.stage.await_gone([daemon], "what was of no use")
        self.assertNotEqual(self.state()["run"], run)
        self.gate.open()
        self.assert_code(second, 0)
        self.assert_untouched([second], ranks)

    def test_a_number_that_another_process_has_now(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        self.kill(first)
        self.kill_pids(daemon, *agents.values())
        bystander = self.stage.start(["cat", self.gate.path])
        record = self.kept()
        # Another start time: nobody that the launcher may touch.
        for process in [record["daemon"],
                        *(a["process"] for a in record["agents"])]:
            process["pid"] = bystander.pid
        path = self.stage.path("state", "rollcall", JOB, "launch.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(record, f)
        second = self.start("--local-workers", "1")
        second.await_lines(r"up g[2-9] rank\d/2", 2)
        second.signal(signal.SIGINT)
        self.assert_code(second, 130)
        self.assertIsNone(bystander.code)


class Refused(Adoption):
    def test_two_launchers_at_once(self):
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        before = self.pids()
        second = self.start("--local-workers", "1")
        self.assert_code(second, 69)
        self.assertIsNotNone(second.find(rf"\b{first.pid}\b", "err"))
        self.assertEqual(self.pids(), before)
        self.assertEqual(self.state()["generation"], 1)
        self.gate.open()
        self.assert_code(first, 0)
        self.assert_untouched([first], ranks)

    def test_another_command_line(self):
        first, ranks = self.gather("--nodes", "2:3", "--local-workers", "1",
                                   ranks=2)
        self.kill(first)
        before = self.pids()
        same = ["--nodes", "2:3", "--local-workers", "1"]
        for flags, named in [
                (["--nodes", "2:4", "--local-workers", "1"],
                 ["--nodes", "2:3", "2:4"]),
                (["--nodes", "2:3", "--local-workers", "2"],
                 ["--local-workers", "1", "2"]),
                ([*same, "--max-restarts", "9"],
                 ["--max-restarts", "default", "9"]),
                ([*same, "--nproc-per-node", "2"], ["--nproc-per-node"]),
                ([*same, "--name", "other"], ["--name", "other"])]:
            with self.subTest(flags=flags):
                second = self.start(*flags)
                self.assert_code(second, 2)
                text = "\n".join(second.err())
                for word in [*named, "rollcall stop", "--state"]:
                    self.assertIn(word, text)
        second = self.start(*same, command=["true"])
        self.assert_code(second, 2)
        self.assertIn("command", "\n".join(second.err()))
        self.assertEqual(self.pids(), before)
        third = self.start(*same)
        third.await_line("goes on")
        self.gate.open()
        self.assert_code(third, 0)
        self.stage.pump(first.done, "the ranks' last words")
        self.assert_untouched([first, third], ranks)

    def test_a_damaged_record(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, _ = self.pids()
        self.kill(first)
        path = self.stage.path("state", "rollcall", JOB, "launch.json")
        with open(path, encoding="utf-8") as f:
            whole = f.read()
        for text in ("", "{", whole[:-20], "[]", '{"version": 2}'):
            with self.subTest(text=text[:20]):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                second = self.start("--local-workers", "1")
                self.assert_code(second, 69)
                self.assertIsNotNone(second.find("launch.json", "err"))
        os.unlink(path)
        second = self.start("--local-workers", "1")
        self.assert_code(second, 69)
        self.assertIsNotNone(second.find(rf"\b{daemon}\b", "err"))
        stop = self.stage.run([harness.ROLLCALL, "stop", "--job", JOB])
        self.assertEqual(stop.code, 0)
        self.assert_no_orphans()


if __name__ == "__main__":
    harness.main()
