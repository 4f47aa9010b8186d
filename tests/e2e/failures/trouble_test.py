"""Tests failures on one machine, and what the user is told about them."""
import glob
import os
import signal

import harness
from harness import E2E, Gate


class Trouble(E2E):
    def child(self, launcher, command):
        pid, = harness.subcommands(harness.descendants(launcher.pid), command)
        return pid

    def test_limits_that_leave_too_little_to_start(self):
        for command in (["launch", "--", "true"], ["status"],
                        ["join", "--endpoint", "127.0.0.1:1", "--", "true"]):
            for limit in "ulimit -n 8", "ulimit -n 16":
                ended = self.stage.run([
                    "sh", "-c", f'{limit}; exec "$@"', "sh",
                    harness.ROLLCALL, *command])
                self.assert_code(ended, 71)
                self.assertTrue(ended.find(r"ulimit -n", "err"))

    def test_a_daemon_that_the_limits_leave_too_little(self):
        """The limit is enough for the launcher, but not for its daemon, which
        inherits open descriptors."""
        for limit in range(24, 60):
            ended = self.stage.run([
                "sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh",
                harness.ROLLCALL, "launch", "--no-hosts", "--", "true"])
            if ended.find("the daemon exited with code 71", "err"):
                self.assert_code(ended, 71)
                self.assertTrue(ended.find(rf"{limit} open \(ulimit -n\)",
                                           "err"), ended.text())
                return
            # With a lower limit the launcher itself cannot start.
            self.assert_code(ended, 71)
        self.fail("no limit was between those of launcher and daemon")

    def test_an_agent_that_does_not_end_is_named_and_killed(self):
        launcher = self.launch(["--job", "stuck", "--name", "main"],
                               ["sh", "-c", "echo up; exec sleep infinity"])
        launcher.await_line(r"\] up$")
        agent = self.child(launcher, "agent")
        os.kill(agent, signal.SIGSTOP)
        self.stage.run([harness.ROLLCALL, "stop", "--job", "stuck", "--now"])
        launcher.await_line(
            rf"waiting for the agent of main \(process {agent}, stopped by a "
            rf"signal; `kill -CONT {agent}` .*Ctrl-C", "err")
        launcher.signal(signal.SIGINT)
        launcher.await_line("the agent of main did not end; it was killed",
                            "err")
        self.assert_code(launcher, 143)

    def test_ctrl_c_again_and_again_does_not_put_the_end_off(self):
        launcher = self.launch(["--job", "stuck", "--name", "main"],
                               ["sh", "-c", "echo up; exec sleep infinity"])
        launcher.await_line(r"\] up$")
        os.kill(self.child(launcher, "agent"), signal.SIGSTOP)
        again = self.stage.start([
            "sh", "-c", f"while kill -INT {launcher.pid}; do sleep 1; done"])
        self.assert_code(launcher, 130)
        again.wait()
        self.assertTrue(launcher.find("the agent of main did not end; it was "
                                      "killed", "err"), launcher.text())

    def test_a_stopped_launcher_is_named(self):
        gate = Gate(self.stage)
        launcher = self.launch(["--job", "halted"],
                               ["sh", "-c", f"echo up; cat {gate.path}"])
        launcher.await_line(r"\] up$")
        launcher.signal(signal.SIGSTOP)
        os.kill(self.child(launcher, "daemon"), signal.SIGKILL)
        for command in (["status"], ["stop"], ["launch"]):
            ended = self.stage.run([harness.ROLLCALL, *command, "--job",
                                    "halted", *(["--", "true"] if command ==
                                                ["launch"] else [])])
            self.assert_code(ended, 69)
            self.assertTrue(
                ended.find(f"kill -CONT {launcher.pid}", "err"), ended.text())
        launcher.signal(signal.SIGCONT)
        launcher.await_line("it is started again", "err")
        gate.open()
        self.assert_code(launcher, 0)

    def test_a_notice_that_cannot_be_written_is_told(self):
        launcher = self.launch(["--job", "full"],
                               ["sh", "-c", "echo up; exec sleep infinity"])
        launcher.await_line(r"\] up$")
        folder, = glob.glob(self.stage.path("run", "rollcall-*", "gen-1"))
        os.rename(folder, folder + ".gone")
        self.stage.run([harness.ROLLCALL, "stop", "--job", "full"])
        launcher.await_line("not told of the notice", "err")
        self.assert_code(launcher, 143)

    def test_a_dead_agents_hosts_block_goes_at_the_next_start(self):
        rest = "127.0.0.1 localhost\n"
        with open(self._hosts, "w", encoding="ascii") as f:
            f.write("# rollcall begin job=old run=r1 generation=1 size=28\n"
                    "# rollcall owner pid=1 start=5 boot=earlier pidns=7 "
                    "node=z\n"
                    "10.0.0.1 z node-0.old.rollcall\n"
                    f"# rollcall end job=old run=r1\n{rest}")
        # No world is formed, since the second node is missing.
        launcher = self.launch(["--nodes", "2", "--job", "new"], ["true"])
        join = self.join_string(launcher)
        self.await_status(join, lambda s: len(s["nodes"]) == 1, "attending")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)
        with open(self._hosts, encoding="ascii") as f:
            self.assertEqual(f.read(), rest)
