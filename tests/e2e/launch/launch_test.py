"""One launcher and its workers: how a command runs, fails and is stopped."""
import glob
import json
import os
import signal
import sys
import time

import harness
import wire
from harness import E2E, Gate, Lab


class Command(E2E):
    def test_arguments_reach_it_byte_for_byte(self):
        arguments = ["[1,2]", "", "two  words", "-x", "--json", "--", "a=b",
                     "*", "$HOME", "ä\t\\"]
        launcher = self.launch(
            [], [sys.executable, "-c",
                 "import json, sys; json.dump(sys.argv[1:], open('argv', "
                 "'w'))", *arguments])
        self.assert_code(launcher, 0)
        with open(self.stage.path("argv"), encoding="utf-8") as f:
            self.assertEqual(json.load(f), arguments)

    def test_lines_carry_node_and_rank(self):
        launcher = self.launch(
            ["--local-workers", "1", "--log-dir", self.stage.path("logs")],
            ["sh", "-c", "echo to-out; echo to-err >&2; printf no-end"])
        self.assert_code(launcher, 0)
        for rank, node in ((0, r"[^/\]]+"), (1, "local-1")):
            for text, stream in (("to-out", "out"), ("to-err", "err"),
                                 ("no-end", "out")):
                self.assertIsNotNone(
                    launcher.find(rf"^\[{node}/{rank}\] {text}$", stream),
                    f"{text} of {rank} on {stream}")
        for rank in (0, 1):
            for end, text in (("out", "to-out\nno-end"), ("err", "to-err\n")):
                found = glob.glob(self.stage.path(
                    "logs", "**", f"rank-{rank}.{end}"), recursive=True)
                self.assertEqual(len(found), 1, found)
                with open(found[0], encoding="utf-8") as f:
                    self.assertEqual(f.read().rstrip("\n"), text.rstrip("\n"))

    def test_once_runs_on_node_rank_0_alone(self):
        launcher = self.launch(["--local-workers", "2", "--once"],
                               ["sh", "-c", "echo ran-$RANK"])
        self.assert_code(launcher, 0)
        ran = [line for line in launcher.out() if "ran-" in line]
        self.assertEqual(len(ran), 1, ran)
        self.assertIn("ran-0", ran[0])

    def test_nproc_auto_is_a_rank_a_gpu(self):
        # The host has its own copy of the driver's list of GPUs, which
        # CountGpuDevices reads. It has 3 GPUs, independent of this machine.
        lab = Lab(self.stage, 1)
        command = [harness.ROLLCALL, "launch", "--no-hosts",
                   "--nproc-per-node", "auto", "--", "sh", "-c",
                   "echo rank $LOCAL_RANK of $LOCAL_WORLD_SIZE"]
        env = {"NVIDIA_VISIBLE_DEVICES": None, "CUDA_VISIBLE_DEVICES": None}
        made = lab.run(1, [
            "sh", "-c", "mount -t tmpfs tmpfs /proc/driver && "
            "mkdir -p /proc/driver/nvidia/gpus && cd /proc/driver/nvidia/gpus"
            " && mkdir 0000:01:00.0 0000:02:00.0 0000:03:00.0"])
        self.assertEqual(made.code, 0, made.text())
        for visible, ranks in ((None, 3), ("0,2", 2), ("", 1)):
            with self.subTest(visible=visible):
                launcher = lab.run(1, command, dict(
                    env, CUDA_VISIBLE_DEVICES=visible))
                self.assert_code(launcher, 0)
                said = sorted(line.split("] ", 1)[1]
                              for line in launcher.out() if "rank" in line)
                self.assertEqual(said, [f"rank {i} of {ranks}"
                                        for i in range(ranks)])

    def test_the_known_port_of_a_shared_secret(self):
        # On hosts of their own no other process uses that port.
        lab = Lab(self.stage, 2)
        flags = ["--job", "known", "--secret-file",
                 self.stage.secret_file("secret")]
        command = ["--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"]
        launcher = lab.start(1, [harness.ROLLCALL, "launch", "--nodes", "2",
                                 *flags, *command])
        worker = lab.start(2, [
            harness.ROLLCALL, "join", "--endpoint", "10.77.0.1:29400",
            *flags, *command])
        for process in (launcher, worker):
            self.assert_code(process, 0)
            self.assertIsNotNone(process.find(r"rank \d of 2"))

    def test_json_is_one_object_a_line(self):
        launcher = self.launch(["--local-workers", "1", "--json"],
                               ["echo", "from-a-rank"])
        self.assert_code(launcher, 0)
        objects = [json.loads(line) for line in launcher.out()]
        self.assertTrue(objects)
        self.assertTrue(all(isinstance(o, dict) for o in objects))
        self.assertIsNotNone(launcher.find("from-a-rank", "err"))

    def test_twice_in_a_row_under_one_name(self):
        for _ in range(2):
            launcher = self.launch(["--job", "again", "--local-workers", "1"],
                                   ["sh", "-c", "echo run=$ROLLCALL_RUN"])
            self.assert_code(launcher, 0)
        first, second = [
            {m for line in p.out() for m in line.split() if "run=" in m}
            for p in self.stage.processes[:2]]
        self.assertEqual((len(first), len(second)), (1, 1))
        self.assertNotEqual(first, second)

    def test_worker_join_is_replaced_before_its_token_ends(self):
        launcher = self.launch(["--nodes", "2", "--token-ttl", "24s"],
                               ["true"])
        printed = self.join_string(launcher)
        path = launcher.await_line(r"a valid one is always in (\S+)")[1]

        def kept():
            with open(path, encoding="ascii") as f:
                return f.read().strip()
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(kept(), printed)
        until = time.monotonic() + harness.DEADLINE_S
        # No event tells when the file changes; each string works meanwhile.
        while kept() == printed:
            self.status(kept())
            self.assertLess(time.monotonic(), until)
        self.assertNotEqual(wire.Join(kept()).token_id,
                            wire.Join(printed).token_id)
        worker = self.join(kept(), ["--name", "w1"], ["true"])
        self.assert_code(worker, 0)
        self.assert_code(launcher, 0)
        self.assertFalse(os.path.exists(path))

    def test_two_jobs_at_once(self):
        gate = Gate(self.stage)
        both = [self.launch(["--job", job, "--local-workers", "1"],
                            ["sh", "-c", "echo port=$MASTER_PORT; "
                             f"cat {gate.path}"])
                for job in ("one", "two")]
        ports = [p.await_line(r"port=(\d+)")[1] for p in both]
        self.assertNotEqual(*ports)
        gate.open()
        for launcher in both:
            self.assert_code(launcher, 0)


class Failure(E2E):
    def test_a_rank_that_exits_3(self):
        launcher = self.launch(
            ["--local-workers", "3", "--max-restarts", "0"],
            ["sh", "-c", "echo before-$RANK; test $RANK != 2 || "
             "{ echo the-reason >&2; exit 3; }; cat /dev/null"])
        self.assert_code(launcher, 3)
        # Lines without a rank's prefix are the launcher's own.
        summary = [text for text in launcher.err() if not text.startswith("[")
                   and not text.startswith("rollcall: waiting: ")]
        self.assertRegex(summary[0], r"\brank 2 on local-2\b.*\bcode 3\b")
        self.assertRegex(summary[1], r"^ *\| the-reason$")
        # The ranks' output was printed before the summary.
        self.assertLess(launcher.err().index("[local-2/2] the-reason"),
                        launcher.err().index(summary[0]))
        self.assertEqual([t for t in launcher.out()
                          if not t.startswith("[")], [])

    def test_every_agent_exits_as_the_job_does(self):
        gate = Gate(self.stage)
        launcher = self.launch(["--nodes", "2", "--max-restarts", "0"],
                               ["sh", "-c", f"echo up; cat {gate.path}"])
        join = self.join_string(launcher)
        worker = self.join(join, ["--name", "w1"], ["sh", "-c", "exit 5"])
        self.assert_code(worker, 5)
        self.assert_code(launcher, 5)

    def test_a_rank_that_a_signal_ends(self):
        launcher = self.launch(
            ["--local-workers", "1", "--max-restarts", "0"],
            ["sh", "-c", "test $RANK != 1 || kill -9 $$; cat /dev/null"])
        self.assert_code(launcher, 128 + signal.SIGKILL)

    def test_restarts_until_it_works(self):
        launcher = self.launch(
            ["--local-workers", "1", "--max-restarts", "1"],
            ["sh", "-c", "echo g$ROLLCALL_GENERATION-"
             "restarts$TORCHELASTIC_RESTART_COUNT; "
             "test $ROLLCALL_GENERATION != 1 || exit 4"])
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find("g2-restarts1"))

    def test_the_budget_ends(self):
        # The job has one rank, since a second one might be stopped before it
        # prints anything.
        launcher = self.launch(
            ["--max-restarts", "2"],
            ["sh", "-c", "echo run-g$ROLLCALL_GENERATION; exit 6"])
        self.assert_code(launcher, 6)
        ran = [line.split("-")[-1] for line in launcher.out()
               if "run-" in line]
        self.assertEqual(ran, ["g1", "g2", "g3"])

    def test_a_command_that_is_not_there(self):
        # The job ends at once without a restart, although restarts are left.
        launcher = self.launch(["--max-restarts", "3"], ["/no/such/command"])
        self.assert_code(launcher, 127)
        tried = [t for t in launcher.err() if t.startswith("[") and
                 'cannot execute "/no/such/command"' in t]
        self.assertEqual(len(tried), 1, launcher.text())

    def test_a_shell_that_finds_no_command(self):
        for code in (126, 127):
            launcher = self.launch(
                ["--max-restarts", "3"],
                ["sh", "-c", f"echo tried; exit {code}"])
            self.assert_code(launcher, code)
            self.assertEqual(
                len([t for t in launcher.out() if t.endswith("] tried")]), 1)

    def test_a_node_that_can_start_nothing_any_more(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", "echo up-$ROLLCALL_NODE-g$ROLLCALL_GENERATION-"
                   f"pid$$; cat {gate.path}"]
        launcher = self.launch([*harness.whole("2:3"), "--name", "main"],
                               command)
        join = self.join_string(launcher)
        run = self.stage.path("run-w2")
        os.mkdir(run, 0o700)
        w1 = self.join(join, ["--name", "w1"], command)
        w2 = self.join(join, ["--name", "w2"], command,
                       {"XDG_RUNTIME_DIR": run})
        pids = [process.await_line(r"up-\w+-g1-pid(\d+)")[1]
                for process in (w1, w2, launcher)]
        folder, = glob.glob(run + "/rollcall-*")
        os.rename(folder, folder + ".gone")
        with open(folder, "w", encoding="ascii") as f:
            f.write("in the way")
        # The world ends, and w2 cannot start its rank in the next one.
        os.kill(int(pids[0]), signal.SIGKILL)
        w1.await_line("rank 2 on w2 exited with code 71")
        w2.await_line("its checks failed: run-folder")
        w1.await_line("node rank 1 of 2, world size 2")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(w1, 0)
        w2.wait()

    def test_ctrl_c(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--local-workers", "2"],
            ["sh", "-c", f"echo up; cat {gate.path} & cat {gate.path}"])
        launcher.await_lines(r"\] up$", 3)
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)
        self.assert_no_orphans()
        with open(self._hosts, "rb") as f:
            self.assertEqual(f.read(), b"127.0.0.1 localhost\n# mine\n")

    def test_stopped_before_its_own_agent_attends(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 75)):
            launcher = self.launch(["--nodes", "2"], ["true"])
            self.join_string(launcher)
            launcher.signal(number)
            # There are no ranks, so nothing waits for the grace period of 15 s.
            self.assert_code(launcher, code, deadline_s=14)

    def test_stop_from_anywhere(self):
        gate = Gate(self.stage)
        launcher = self.launch(["--local-workers", "1", "--job", "stopped"],
                               ["sh", "-c", f"echo up; cat {gate.path}"])
        launcher.await_lines(r"\] up$", 2)
        stop = self.stage.run([harness.ROLLCALL, "stop", "--job", "stopped"])
        self.assertEqual(stop.code, 0, self.stage.transcript())
        launcher.wait()
        self.assert_no_orphans()

    def test_a_hosts_file_that_cannot_be_written(self):
        launcher = self.stage.start(
            [harness.ROLLCALL, "launch", "--local-workers", "1",
             "--hosts-file", "/proc/no/such/hosts", "--", "echo", "ran"])
        self.assert_code(launcher, 0)
        self.assertEqual(len([x for x in launcher.out() if "ran" in x]), 2)
        self.assertIsNotNone(launcher.find("/proc/no/such/", "err"))
