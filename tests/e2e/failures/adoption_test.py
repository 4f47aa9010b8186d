"""A launcher that is killed and started again takes its run back or refuses."""
import json
import os
import signal

import harness
from adoption import JOB, Adoption


class LauncherAlone(Adoption):
    def test_its_agents_and_workers_are_taken_back(self):
        first, ranks = self.gather("--local-workers", "2", ranks=3)
        daemon, agents = self.pids()
        port = self.kept()["port"]
        join = self.kept("daemon.json")["join"]
        first.kill()
        # Commands on this machine still find the job.
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
        self.ends([first, second], ranks)
        self.assert_no_orphans()
        self.assertFalse(self.is_kept())
        self.assertFalse(self.is_kept("daemon.json"))

    def test_five_times_in_a_row(self):
        launcher, ranks = self.gather("--nodes", "2", "--local-workers", "1",
                                      ranks=2)
        launchers, before = [launcher], self.pids()
        for _ in range(5):
            launchers[-1].kill()
            launchers.append(self.start("--nodes", "2", "--local-workers",
                                        "1"))
            launchers[-1].await_line("goes on")
            self.assertEqual(self.all_run(2)["generation"], 1)
            self.assertEqual(self.pids(), before)
        self.ends(launchers, ranks)

    def test_a_worker_elsewhere_notices_nothing(self):
        first = self.start("--nodes", "2")
        join = self.join_string(first)
        worker = self.join(join, ["--name", "w1"], self.command)
        worker.await_line("up g1")
        first.await_line("up g1")
        first.kill()
        second = self.take_back("--nodes", "2")
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
        first.kill()
        second = self.take_back(*flags, command=command)
        self.gate.open()
        self.assert_code(second, 7)
        self.assertIsNotNone(second.find(r"rank 1 on local-1\b.*\bcode 7\b"))

    def test_ctrl_c_ends_what_it_took_back(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        first.kill()
        second = self.take_back("--local-workers", "1")
        second.signal(signal.SIGINT)
        self.assert_code(second, 130)
        self.assert_no_orphans()

    def test_sigusr1_asks_for_requeue(self):
        flags = ["--local-workers", "1", "--requeue-exit-code", "99"]
        first, _ = self.gather(*flags, ranks=2)
        first.kill()
        second = self.take_back(*flags)
        second.signal(signal.SIGUSR1)
        self.assert_code(second, 99)
        self.assert_no_orphans()

    def test_stop_where_no_launcher_lives(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        first.kill()
        stop = self.stage.run([harness.ROLLCALL, "stop", "--job", JOB])
        self.assertEqual(stop.code, 0, self.stage.transcript())
        self.assert_no_orphans()
        self.assertFalse(self.is_kept())
        # The next launcher starts a new run.
        self.gate.open()
        second = self.start("--local-workers", "1")
        self.assert_code(second, 0)
        self.assertIsNone(second.find("goes on"))
        self.assertIsNotNone(second.find("up g1 rank1/2"))

    def test_a_run_that_has_ended_begins_anew(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        first.kill()
        self.gate.open()
        self.assert_no_orphans()
        second = self.start("--local-workers", "1")
        self.assert_code(second, 0)
        self.assertIsNone(second.find("goes on"))
        self.assertIsNotNone(second.find("up g1 rank1/2"))

    def test_json_tells_it(self):
        first, _ = self.gather("--local-workers", "1", "--json", ranks=2)
        daemon, agents = self.pids()
        first.kill()
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
        first.kill()
        (job,) = os.listdir(self.stage.path("state", "rollcall"))
        second = self.launch(["--local-workers", "1", "--job", job],
                             self.command)
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 0)
        # The folder of a generated job name is removed at the end.
        self.assertEqual(os.listdir(self.stage.path("state", "rollcall")), [])

    def test_by_state_alone(self):
        flags = ["--local-workers", "1", "--state", self.stage.path("mine")]
        first = self.launch(flags, self.command)
        first.await_lines("up g1", 2)
        first.kill()
        second = self.launch(flags, self.command)
        second.await_line("goes on")
        self.gate.open()
        self.assert_code(second, 0)

    def test_whatever_closes_the_wire(self):
        secret = self.stage.secret_file("secret")
        other = self.stage.secret_file("other")
        local = ["--listen", "127.0.0.1:0", "--local-workers", "1"]
        for job, way in (("by-secret", ["--secret-file", secret]),
                         ("open", ["--insecure"])):
            with self.subTest(job=job):
                flags = ["--job", job, *way, *local]
                first = self.launch(flags, self.command)
                first.await_lines("up g1", 2)
                first.kill()
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
        # The launcher has no stdout and stderr, as after its terminal is
        # closed, so the ranks' output is lost.
        quiet = self.stage.path("quiet")
        command = ["sh", "-c", f"cat {self.gate.path}; echo lost; "
                   f"echo done >> {quiet}"]
        first = self.stage.start(
            ["sh", "-c", 'exec "$0" "$@" >&- 2>&-', harness.ROLLCALL,
             "launch", "--hosts-file", self._hosts, "--job", JOB, "--",
             *command])
        self.all_run(1)
        first.kill()
        second = self.take_back(command=command)
        self.gate.open()
        self.assert_code(second, 0)
        with open(quiet, encoding="ascii") as f:
            self.assertEqual(f.read(), "done\n")


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
        first.kill()
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
        third = self.take_back(*same)
        self.ends([first, third], ranks)

    def test_a_damaged_record(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, _ = self.pids()
        first.kill()
        path = self.kept_at()
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
