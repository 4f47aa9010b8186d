"""Tests set-up commands (--setup), which run before a node gets a seat."""
import json
import os
import signal

import harness
from harness import E2E, Gate


def has_open(pid, path):
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(os.path.join(folder, fd)) == path
                   for fd in os.listdir(folder))
    except FileNotFoundError:
        return False  # The process, or a descriptor, has just gone.


class Setup(E2E):
    def read(self, name):
        try:
            with open(self.stage.path(name), encoding="ascii") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def assert_nothing_is_left(self):
        self.assert_no_orphans()
        self.assertEqual(os.listdir(self.stage.path("run")), [])
        self.assertEqual(self.read("hosts"), "127.0.0.1 localhost\n# mine\n")

    def daemon(self, launcher):
        pid, = harness.subcommands(harness.descendants(launcher.pid), "daemon")
        return pid

    # --- Failure and success --------------------------------------------------

    def test_it_runs_on_each_node_before_the_ranks(self):
        launcher = self.launch(
            ["--job", "fine", "--name", "main", "--local-workers", "3",
             "--log-dir", "logs", "--setup",
             'echo "$ROLLCALL_JOB ${RANK-none} ${ROLLCALL_JOIN-none}"; '
             'touch "ready-$ROLLCALL_NODE"; echo careful >&2'],
            ["sh", "-c", "test -e ready-$ROLLCALL_NODE && "
             "test $(ls -d ready-* | wc -l) = 4"],
            env={"ROLLCALL_JOIN": None, "RANK": "7"})
        self.assert_code(launcher, 0)
        for node in "main", "local-1", "local-2", "local-3":
            self.assertTrue(launcher.find(
                rf"^\[{node}/setup\] fine none none$", "out"), launcher.text())
            self.assertTrue(launcher.find(
                rf"^\[{node}/setup\] careful$", "err"), launcher.text())
            self.assertEqual(self.read(f"logs/setup/{node}.out"),
                             "fine none none\n")
            self.assertEqual(self.read(f"logs/setup/{node}.err"), "careful\n")
        self.assert_nothing_is_left()

    def test_the_files_that_it_makes_are_compared(self):
        """--same and --shared look at what the command has made."""
        flags = ["--nodes", "2", "--preflight", "strict", "--same", "data",
                 "--shared", "made"]
        launcher = self.launch(
            ["--local-workers", "1", "--setup", "mkdir -p made; echo 1 > data",
             *flags], ["true"])
        self.assert_code(launcher, 0)
        # A disk with little free space gives a warning as well.
        self.assertFalse(launcher.find("WARNING(?!.* free of )"),
                         launcher.text())

        # As without a set-up command, the launcher's own node must have them.
        launcher = self.launch(
            ["--local-workers", "1", "--setup", "rm -rf data made", *flags],
            ["true"])
        self.assert_code(launcher, 69)
        for path in "data", "made/":
            self.assertTrue(launcher.find(
                rf"WARNING: \S*/{path} of --same or --shared: ", "err"),
                launcher.text())
        launcher.await_line("expected .*/data to be a file that ranks can read, "
                            "found: No such file or directory; make it", "err")
        self.assert_nothing_is_left()

    def test_ctrl_c_while_the_files_are_read(self):
        # Reading it takes longer than the time limit.
        with open(self.stage.path("large"), "wb") as f:
            os.truncate(f.fileno(), 1 << 40)
        launcher = self.launch(["--setup", "echo is set up", "--same", "large"],
                               ["true"])
        self.stage.pump(
            lambda: any(has_open(pid, self.stage.path("large"))
                        for pid in harness.descendants(launcher.pid)),
            "a process that reads the file", harness.DEADLINE_S)
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)
        self.assertFalse(launcher.find("terminate"), launcher.text())
        self.assert_nothing_is_left()

    def test_a_failure_on_one_node_ends_all(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "bad", "--name", "main", "--nodes", "4",
             "--local-workers", "2", "--setup", "sleep 1000 & wait"],
            ["sh", "-c", "echo the ranks run"])
        worker = self.join(
            self.join_string(launcher),
            ["--name", "w", "--setup",
             f"cat {gate.path}; echo no space left >&2; exit 9"],
            ["true"])
        self.await_status(
            self.join_string(launcher),
            lambda s: [n["state"] for n in s["nodes"]] == ["setting_up"] * 4,
            "four nodes that set up")
        gate.open()
        self.assert_code(worker, 9)
        self.assert_code(launcher, 9)
        self.assertFalse(launcher.find("the ranks run"))
        self.assertTrue(worker.find(r"\[w/setup\] no space left", "err"))
        self.assertTrue(launcher.find(
            "the set-up command on w exited with code 9", "err"),
            launcher.text())
        told = [line for line in launcher.err() if "no space left" in line]
        self.assertEqual(told, ["  | no space left"], launcher.text())
        self.assert_nothing_is_left()

    def test_it_runs_as_the_user_of_the_ranks(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to run ranks as another user")
        launcher = self.launch(
            ["--job", "user", "--name", "main", "--rank-user", "nobody",
             "--setup", "id -un"], ["true"])
        self.assert_code(launcher, 0)
        self.assertTrue(launcher.find(r"^\[main/setup\] nobody$", "out"),
                        launcher.text())

    def test_a_signal_gives_its_exit_code(self):
        launcher = self.launch(
            ["--job", "killed", "--name", "main", "--json", "--setup",
             "kill -9 $$"], ["true"])
        self.assert_code(launcher, 137)
        last = json.loads(launcher.out()[-1])
        self.assertEqual(last["code"], "setup")
        self.assertEqual(last["root_cause"]["node"], "main")
        self.assertEqual(last["root_cause"]["code"], "setup")
        self.assert_nothing_is_left()

    def test_it_runs_once_although_its_daemon_is_killed(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "again", "--name", "main", "--local-workers", "1",
             "--setup", f"echo once >>runs-$ROLLCALL_NODE; cat {gate.path}"],
            ["true"])
        launcher.await_line("the set-up command runs on local-1, main", "err")
        join = self.kept_join(self.stage.path("state", "rollcall", "again"))

        def both_set_up(state):
            return [n["state"] for n in state["nodes"]] == ["setting_up"] * 2
        self.await_status(join, both_set_up, "two nodes that set up")
        os.kill(self.daemon(launcher), signal.SIGKILL)
        launcher.await_line("it is started again", "err")
        self.await_watched([harness.ROLLCALL, "status", join], both_set_up,
                           "two nodes that still set up")
        gate.open()
        self.assert_code(launcher, 0)
        for node in "main", "local-1":
            self.assertEqual(self.read(f"runs-{node}"), "once\n")
        self.assert_nothing_is_left()

    def test_the_death_of_its_agent_ends_it(self):
        launcher = self.launch(
            ["--job", "lost", "--name", "main", "--nodes", "2"], ["true"])
        worker = self.join(
            self.join_string(launcher),
            ["--name", "w", "--setup",
             "setsid sh -c 'trap \"\" TERM; echo child=$$; sleep 1000; :' & "
             "wait"],
            ["true"])
        child = int(worker.await_line(r"child=(\d+)")[1])
        worker.kill()
        self.stage.await_gone([child], "the set-up command's child")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)

    def test_a_newcomers_failure_leaves_the_running_world_alone(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "runs", "--name", "main", "--nodes", "1:2"],
            ["sh", "-c", f"echo up; cat {gate.path}; echo over"])
        launcher.await_line(r"\] up$")
        join = self.join_string(launcher)
        newcomer = self.join(join, ["--name", "w", "--setup", "exit 5"],
                             ["true"])
        self.assert_code(newcomer, 5)
        self.assertTrue(newcomer.find(
            "the set-up command on w exited with code 5", "err"),
            newcomer.text())
        self.assertEqual(self.status(join)["generation"], 1)
        gate.open()
        self.assert_code(launcher, 0)
        self.assertEqual(len([line for line in launcher.out()
                              if line.endswith("] up")]), 1)
        self.assert_nothing_is_left()

    def test_a_slow_node_outlasts_the_join_timeout(self):
        gate = Gate(self.stage)
        limit = ["--nodes", "2", "--join-timeout", "8s"]
        launcher = self.launch(
            ["--job", "slow", "--name", "main", *limit,
             "--setup", f"cat {gate.path}"], ["true"])
        worker = self.join(self.join_string(launcher), ["--name", "w"],
                           ["true"])
        launcher.await_line("1 node is here; .*; the set-up command runs on "
                            "main", "err")
        # A job that starts later is ended by the same limit.
        self.assert_code(self.launch(limit, ["true"]), 69)
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        self.assert_nothing_is_left()

    # --- Linger, time limit and retries ---------------------------------------

    def test_linger_keeps_agents_and_daemon_until_stop(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "kept", "--name", "main", "--local-workers", "1",
             "--linger", "10m", "--setup", "test $ROLLCALL_NODE = main || "
             f"{{ cat {gate.path}; echo no licence >&2; exit 6; }}"], ["true"])
        self.await_watched([harness.ROLLCALL, "status", "--job", "kept"],
                           lambda s: len(s["nodes"]) == 2, "both nodes")
        gate.open()
        launcher.await_line("all agents and the daemon are left running for",
                            "err")
        self.assertTrue(launcher.find("  \\| no licence", "err"))
        status = [harness.ROLLCALL, "status", "--job", "kept"]
        state = json.loads(self.stage.run([*status, "--json"]).out()[0])
        self.assertEqual(state["state"], "lingering")
        self.assertGreater(state["lingers_s"], 500)
        shown = self.stage.run(status)
        self.assertTrue(shown.find(r"all agents are kept for another \d+ min"),
                        shown.text())
        agents = harness.subcommands(harness.descendants(launcher.pid), "agent")
        self.assertEqual(len(agents), 2)
        stop = self.stage.run([harness.ROLLCALL, "stop", "--job", "kept"])
        self.assert_code(stop, 0)
        self.assert_code(launcher, 6)
        self.assert_nothing_is_left()

    def test_its_time_limit_ends_it_with_all_its_children(self):
        deaf = "trap '' TERM; echo $$; sleep 1000; :"
        launcher = self.launch(
            ["--job", "long", "--name", "main", "--setup-timeout", "1s",
             "--setup", f"setsid sh -c \"{deaf.replace('$', chr(92) + '$')}\" "
             f"& {deaf}"], ["true"])
        pids = [int(m[1]) for m in
                launcher.await_lines(r"\[main/setup\] (\d+)$", 2)]
        # SIGKILL comes 15 s after SIGTERM.
        self.stage.await_gone(pids, "the set-up command")
        self.assert_code(launcher, 124)
        self.assertTrue(launcher.find("its time was over; raise "
                                      "--setup-timeout", "err"),
                        launcher.text())
        self.assert_nothing_is_left()

    def test_retries(self):
        launcher = self.launch(
            ["--job", "tried", "--name", "main", "--setup-retries", "2",
             "--setup", "echo try >>tries; test $(wc -l <tries) = 3"],
            ["sh", "-c", "wc -l <tries"])
        self.assert_code(launcher, 0)
        self.assertTrue(launcher.find(r"\[main/0\] 3$", "out"))
        self.assert_nothing_is_left()

    def test_too_few_retries(self):
        launcher = self.launch(
            ["--job", "few", "--name", "main", "--setup-retries", "1",
             "--setup", "exit 4"], ["true"])
        self.assert_code(launcher, 4)
        self.assertTrue(launcher.find(r"code 4 \(2 tries\)", "err"),
                        launcher.text())

    def test_a_run_spec_has_it(self):
        with open(self.stage.path("run.yaml"), "w", encoding="ascii") as f:
            f.write("job: spec\nname: main\nspawn: {local: 1}\n"
                    "no-hosts: true\nsetup: exit 3\n"
                    "setup-retries: 1\nsetup-timeout: 1h\n"
                    "command: [\"true\"]\n")
        launcher = self.stage.start(
            [harness.ROLLCALL, "launch", "--spec", "run.yaml"])
        self.assert_code(launcher, 3)
        self.assertTrue(launcher.find(r"code 3 \(2 tries\)", "err"),
                        launcher.text())


if __name__ == "__main__":
    import unittest
    unittest.main()
