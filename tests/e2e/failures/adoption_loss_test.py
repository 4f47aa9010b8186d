"""A launcher that takes its run back after its daemon or agents died, too."""
import os
import shutil
import signal

import harness
from adoption import Adoption


class MoreThanTheLauncher(Adoption):
    def test_the_daemon_dies_under_one_that_took_it_over(self):
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        port = self.kept()["port"]
        first.kill()
        second = self.take_back("--local-workers", "1")
        self.kill_pids(daemon)
        second.await_line("started again")
        self.assertEqual(self.all_run(2)["generation"], 1)
        self.assertNotEqual(self.pids()[0], daemon)
        self.assertEqual(self.pids()[1], agents)
        self.assertEqual(self.kept()["port"], port)
        self.ends([first, second], ranks)

    def test_launcher_and_daemon(self):
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        port = self.kept()["port"]
        first.kill()
        self.kill_pids(daemon)
        second = self.start("--local-workers", "1")
        second.await_line("goes on: its daemon is started again")
        self.assertEqual(self.all_run(2)["generation"], 1)
        self.assertEqual(self.pids()[1], agents)
        self.assertEqual(self.kept()["port"], port)
        self.ends([first, second], ranks)
        self.assert_no_orphans()

    def test_the_port_is_taken_meanwhile(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        first.kill()
        self.kill_pids(daemon)
        taken = harness.take_port(self.kept()["port"])
        second = self.start("--local-workers", "1")
        self.assert_code(second, 69)
        self.assertIsNotNone(second.find(str(self.kept()["port"]), "err"))
        # The agents still run, and the run can still be taken back.
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
        first.kill()
        self.kill_pids(agents[own])
        second = self.start("--local-workers", "1")
        second.await_line(f"goes on: its daemon is process {daemon}; "
                          "the ranks of local-1 run on")
        second.await_line(r"up g\d+ rank0/2")
        self.gate.open()
        self.assert_code(second, 0)

    def test_own_agent_after_it_was_taken_back(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        _, agents = self.pids()
        (own,) = [a["name"] for a in self.kept()["agents"] if a["own"]]
        first.kill()
        second = self.take_back("--local-workers", "1")
        self.kill_pids(agents[own])
        second.await_line(f"the agent of {own}, which an earlier launcher "
                          "started, has ended", "err")
        second.signal(signal.SIGINT)
        self.assert_code(second, 130)
        self.assert_no_orphans()

    def test_the_state_is_lost_but_not_the_secret(self):
        secret = self.stage.secret_file("secret")

        def start(port):
            return self.start("--nodes", "2", "--listen", f"127.0.0.1:{port}",
                              "--secret-file", secret)
        first = start(0)
        worker = self.join(self.join_string(first), ["--name", "w1"],
                           self.command)
        ranks = {int(each.await_line(r"up g1 rank\d/2 pid=(\d+)")[1])
                 for each in (first, worker)}
        port, (daemon, _) = self.kept()["port"], self.pids()
        first.kill()
        self.kill_pids(daemon)
        state = os.path.dirname(self.kept_at())
        os.rename(state, state + ".lost")
        second = start(port)
        # Its own new agent is refused, since the first one lives.
        second.await_line("the run goes on with it", "err")
        self.gate.open()
        self.assert_code(second, 0)
        self.assert_code(worker, 0)
        self.stage.pump(first.done, "the ranks' last output")
        self.assert_untouched([first, second, worker], ranks)

    def test_everything_dies(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        run = self.state()["run"]
        port = self.kept()["port"]
        first.kill()
        self.kill_pids(daemon, *agents.values())
        second = self.take_back("--local-workers", "1")
        second.await_lines(r"up g[2-9] rank\d/2", 2)
        state = self.all_run(2)
        self.assertGreater(state["generation"], 1)
        self.assertEqual(state["run"], run)
        self.assertEqual(self.kept()["port"], port)
        self.gate.open()
        self.assert_code(second, 0)
        self.assert_no_orphans()

    def test_the_machine_was_started_anew(self):
        # After a reboot, the recorded pids belong to other processes.
        first, ranks = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        first.kill()
        self.kill_pids(daemon, *agents.values())
        self.stage.await_gone(ranks, "the ranks of the killed agents")
        # The records of the previous agents are on a tmpfs.
        shutil.rmtree(self.stage.path("run"))
        os.mkdir(self.stage.path("run"), 0o700)
        bystander = self.stage.start(["cat", self.gate.path])
        record = self.kept()
        record["boot_id"] = "of another boot"
        for process in [record["daemon"],
                        *(a["process"] for a in record["agents"])]:
            process.update(pid=bystander.pid,
                           start=harness.start_ticks(bystander.pid))
        self.rewrite(record)
        self.stop_next_run()
        self.assertIsNone(bystander.code)

    def test_one_that_died_while_it_started(self):
        # That daemon is useless, since no agent knows its port.
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        run = self.state()["run"]
        first.kill()
        self.kill_pids(*agents.values())
        record = self.kept()
        record.update(port=0, agents=[])
        self.rewrite(record)
        second, ranks = self.gather("--local-workers", "1", ranks=2)
        self.assertIsNone(second.find("goes on"))
        self.stage.await_gone([daemon], "the daemon that was of no use")
        self.assertNotEqual(self.state()["run"], run)
        self.gate.open()
        self.assert_code(second, 0)
        self.assert_untouched([second], ranks)

    def test_a_number_that_another_process_has_now(self):
        first, _ = self.gather("--local-workers", "1", ranks=2)
        daemon, agents = self.pids()
        first.kill()
        self.kill_pids(daemon, *agents.values())
        bystander = self.stage.start(["cat", self.gate.path])
        record = self.kept()
        # The start times differ, so the launcher must not signal them.
        for process in [record["daemon"],
                        *(a["process"] for a in record["agents"])]:
            process["pid"] = bystander.pid
        self.rewrite(record)
        self.stop_next_run()
        self.assertIsNone(bystander.code)
