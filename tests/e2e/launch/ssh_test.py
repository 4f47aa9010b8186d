"""`rollcall launch --hostfile` starts agents on other hosts by ssh."""
import os
import signal

import harness
import proc
from harness import E2E, Gate, Lab
from sshd import Sshd

SAYS = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE on $ROLLCALL_NODE"]


class Ssh(E2E):
    def make(self, hosts, with_sshd=None):
        self.lab = Lab(self.stage, hosts)
        self.sshd = Sshd(self.stage, self.lab,
                         with_sshd or range(2, hosts + 1))

    def hostfile(self, *lines):
        path = self.stage.path("hostfile")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        return path

    def start(self, flags, command, rollcall=harness.ROLLCALL):
        return self.lab.start(1, [rollcall, "launch", "--ssh", self.sshd.ssh,
                                  "--job", "remote", *flags, "--", *command])

    def commands(self, *hosts):
        """Returns (pid, command line) of the hosts' processes, except sshd."""
        found = [(pid, proc.command_line(pid))
                 for host in hosts or range(1, self.lab.hosts + 1)
                 for pid in self.lab.processes(host)]
        return [(pid, words) for pid, words in found
                if "sshd" not in " ".join(words)]

    def assert_clean(self):
        """Checks that no process of the job is left on any host."""
        self.stage.pump(lambda: not self.commands(),
                        f"processes are left: {self.commands()}")

    def test_four_nodes_of_a_hostfile(self):
        self.make(4)
        launcher = self.start(
            ["--hostfile", self.hostfile("lab1", "lab2 slots=2  # two",
                                         "root@lab3", "lab4 name=d"),
             "--export", "SECRET_WORD=a b", "--export", "UNTOUCHED="],
            [*SAYS[:2], SAYS[2] + "; echo word $SECRET_WORD; exit 0"])
        self.assert_code(launcher, 0)
        # The launcher's node comes first, the others in natural order.
        for rank, node in enumerate(("lab1", "d", "lab2", "lab2", "lab3")):
            self.assertIsNotNone(launcher.find(
                rf"^\[{node}/{rank}\] rank {rank} of 5 on {node}$"),
                f"rank {rank} on {node}: {launcher.text()}")
        self.assertEqual(
            len([x for x in launcher.out() if x.endswith("word a b")]), 5)
        self.assert_clean()

    def test_only_other_hosts_and_the_code_of_a_rank(self):
        self.make(3)
        launcher = self.start(
            ["--hostfile", self.hostfile("lab2", "lab3"), "--max-restarts",
             "0"], ["sh", "-c", "test $RANK = 0 || exit 9; sleep 1000"])
        self.assert_code(launcher, 9)
        self.assertIsNotNone(launcher.find("rank 1 on lab3 exited with code 9"))
        self.assert_clean()

    def test_a_rank_with_the_exit_code_of_ssh(self):
        self.make(2)
        launcher = self.start(
            ["--hostfile", self.hostfile("lab1", "lab2"), "--max-restarts",
             "0"], ["sh", "-c", "test $RANK = 0 || exit 255; sleep 1000"])
        self.assert_code(launcher, 255)
        self.assertIsNotNone(
            launcher.find("rank 1 on lab2 exited with code 255"))
        self.assertIsNone(launcher.find("ssh failed"), launcher.text())
        self.assert_clean()

    def test_a_host_that_cannot_be_reached_is_named(self):
        self.make(3, with_sshd=[2])
        launcher = self.start(
            ["--hostfile", self.hostfile("lab1", "lab2", "lab3")], SAYS)
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find(
            r"lab3 \(lab3\): ssh failed.*refused"))
        self.assertIsNotNone(launcher.find("no agent runs on lab3"))
        self.assert_clean()

    def configure(self, *replaced):
        """Replaces texts in the user's ssh configuration."""
        path = self.stage.path("ssh_config")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for old, new in replaced:
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def test_a_host_that_answers_nothing_is_named(self):
        self.make(2)
        dropped = self.lab.run(2, ["nft", "add table inet t; add chain inet t "
                                   "c { type filter hook input priority 0; }; "
                                   "add rule inet t c tcp dport 22 drop"])
        self.assert_code(dropped, 0)
        self.configure(("ConnectTimeout 10", "ConnectTimeout 2"))
        launcher = self.start(["--hostfile", self.hostfile("lab1", "lab2")],
                              SAYS)
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find(
            r"lab2 \(lab2\): ssh failed.*timed out"))
        self.assertIsNotNone(launcher.find("no agent runs on lab2"))
        self.assert_clean()

    def test_a_host_that_asks_for_a_password_is_named(self):
        self.make(2)
        # The host does not accept this key.
        self.configure((self.stage.path("user_key"),
                        self.stage.path("host_key")))
        launcher = self.start(["--hostfile", self.hostfile("lab1", "lab2")],
                              SAYS)
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find(
            r"lab2 \(lab2\): ssh failed.*Permission denied .*password.*must "
            "work without a question"))
        self.assert_clean()

    def test_a_host_with_another_version_is_named(self):
        self.make(2)
        version = self.stage.run([harness.ROLLCALL, "version"]).out()[0]
        version = version.split()[-1]
        other = version[:-1] + ("8" if version[-1] == "9" else "9")
        for host, change in ((1, "cat"), (2, f"sed s/{version}/{other}/g")):
            made = self.lab.run(host, [
                "sh", "-c", f"mkdir /run/own && {change} {harness.ROLLCALL} "
                ">/run/own/rollcall && chmod 700 /run/own/rollcall"])
            self.assert_code(made, 0)
        launcher = self.start(["--hostfile", self.hostfile("lab1", "lab2")],
                              SAYS, "/run/own/rollcall")
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find(
            f"on lab2: this rollcall is version {other}, the launcher's is "
            f"{version}; install the same one here, or launch with --push"))
        self.assertIsNotNone(launcher.find("no agent runs on lab2"))
        self.assert_clean()

    def test_ranks_may_lock_the_memory_that_their_session_may(self):
        self.make(2)
        launcher = self.start(["--hostfile", self.hostfile("lab2")],
                              ["sh", "-c", "ulimit -l"])
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find(r"^\[lab2/0\] 2048$"),
                             launcher.text())

    def test_the_rest_goes_on_if_it_is_enough(self):
        self.make(3, with_sshd=[2])
        launcher = self.start(
            ["--nodes", "2:3", "--hostfile",
             self.hostfile("lab1", "lab2", "lab3")], SAYS)
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find("rank 1 of 2 on lab2"))

    def test_a_key_that_is_not_known_is_refused(self):
        self.make(2)
        with open(self.stage.path("known_hosts"), "w", encoding="utf-8"):
            pass
        launcher = self.start(["--hostfile", self.hostfile("lab2")], SAYS)
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find(
            "Host key verification failed"))

    def test_push_copies_the_binary_once(self):
        self.make(3)
        # The folder exists only on this host.
        made = self.lab.run(1, ["sh", "-c", f"mkdir /run/own && cp "
                                f"{harness.ROLLCALL} /run/own/rollcall"])
        self.assert_code(made, 0)
        flags = ["--hostfile", self.hostfile("lab1", "lab2", "lab3")]
        launcher = self.start(flags, SAYS, "/run/own/rollcall")
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find("--push"))
        pushed = []
        for _ in range(2):
            launcher = self.start([*flags, "--push"], SAYS,
                                  "/run/own/rollcall")
            self.assert_code(launcher, 0)
            self.assertIsNotNone(launcher.find("rank 2 of 3 on lab3"))
            found = [os.path.join(folder, name)
                     for folder, _, names in os.walk(self.sshd.homes[2])
                     for name in names]
            self.assertEqual(len(found), 1, found)
            pushed.append(os.stat(found[0]).st_ino)
        self.assertEqual(pushed[0], pushed[1])
        # A copy that was cut off is copied again.
        size = os.path.getsize(found[0])
        os.truncate(found[0], size // 10)
        launcher = self.start([*flags, "--push"], SAYS, "/run/own/rollcall")
        self.assert_code(launcher, 0)
        self.assertEqual(os.path.getsize(found[0]), size)
        self.assert_clean()

    def test_another_version_is_refused(self):
        process = self.stage.run([harness.ROLLCALL, "hosted", "0.0.0"])
        self.assert_code(process, 69)
        self.assertIsNotNone(process.find("the launcher's is 0.0.0"))

    def test_mistakes_in_a_hostfile_name_the_line(self):
        for lines, expect in ((["a", "b slots=0"], "line 2"),
                              (["a", "a"], "is there twice"),
                              (["# none"], "names no host"),
                              (["-oProxyCommand=x"], "expected a host")):
            process = self.stage.run([
                harness.ROLLCALL, "launch", "--hostfile",
                self.hostfile(*lines), "--", "true"])
            self.assert_code(process, 2)
            self.assertIsNotNone(process.find(expect), process.text())

    def test_connecting_has_a_limit_unless_the_user_sets_one(self):
        self.make(2)
        config = self.stage.path("ssh_config")
        with open(config, encoding="utf-8") as f:
            text = f.read()
        log = self.stage.path("ssh.log")
        wrapper = self.stage.path("ssh")
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nfor word; do [ "$word" != -G ] || exec '
                    f'{self.sshd.ssh} "$@"; done\necho "$@" >>{log}\n'
                    f'exec {self.sshd.ssh} "$@"\n')
        os.chmod(wrapper, 0o700)
        for configured, flags, passed in (
                ("", "", True), ("  ConnectTimeout 20\n", "", False),
                ("", " -o ConnectTimeout=30", False)):
            with open(config, "w", encoding="utf-8") as f:
                f.write(text.replace("  ConnectTimeout 10\n", configured))
            open(log, "w").close()
            self.sshd.ssh, real = wrapper + flags, self.sshd.ssh
            launcher = self.start(["--hostfile", self.hostfile("lab2")], SAYS)
            self.sshd.ssh = real
            self.assert_code(launcher, 0)
            with open(log, encoding="utf-8") as f:
                words = f.read()
            self.assertEqual("-o ConnectTimeout=10 " in words, passed, words)
            # The output of ssh's configuration query is not shown.
            self.assertIsNone(launcher.find("connecttimeout"))

    def test_a_directory_is_no_hostfile(self):
        for flag in "--hostfile", "--spec":
            process = self.stage.run([harness.ROLLCALL, "launch", flag, "/",
                                      *(["--", "true"] if flag == "--hostfile"
                                        else [])])
            self.assert_code(process, 2)
            self.assertIn(f"{flag}: cannot read /: expected a file, found a "
                          "directory", process.text())

    def test_a_hostfile_that_cannot_work_is_refused(self):
        for flags, lines, expect in (
                (["--no-worker"], ["localhost"], "name the hosts that train"),
                (["--name", "b"], ["localhost", "b"], "are both named b"),
                (["--insecure"], ["b"], "--hostfile needs TLS"),
                (["--no-worker"], ["nobody@localhost"],
                 "name the hosts that train"),
                (["--rank-user", "daemon"], ["nobody@localhost"],
                 "where ranks run as daemon; leave the user out"),
                ([], ["nobody@localhost"], "where ranks run as root; leave "
                 "the user out, or give --rank-user nobody"),
                (["--ssh", "ssh -o 'X Y'"], ["b"],
                 "--ssh: expected words separated by spaces"),
                ([], ["a", "#" * (4 << 20), "b"],
                 "expected at most 4194304 bytes, found more")):
            process = self.stage.run([
                harness.ROLLCALL, "launch", *flags, "--hostfile",
                self.hostfile(*lines), "--", "true"])
            self.assert_code(process, 2)
            self.assertIsNotNone(process.find(expect), process.text())

    # --- Ends, with ranks that run on other hosts ------------------------------

    def running(self, command=None, flags=()):
        self.make(3)
        self.gate = Gate(self.stage)
        self.flags = ["--hostfile", self.hostfile("lab1", "lab2", "lab3"),
                      *flags]
        self.command = command or ["sh", "-c",
                                   f"echo up; cat {self.gate.path}"]
        launcher = self.start(self.flags, self.command)
        launcher.await_lines(r"\] up$", 3)
        for host in (1, 2, 3):
            self.assertTrue(self.commands(host))
        return launcher

    def test_ctrl_c_ends_all(self):
        launcher = self.running()
        os.kill(launcher.inner_pid(), signal.SIGINT)
        self.assert_code(launcher, 130)
        self.assert_clean()

    def test_ctrl_c_twice_ends_all_at_once(self):
        # Ranks that end only by SIGKILL, which comes after ten minutes: the run
        # ends by the second signal.
        launcher = self.running(
            ["sh", "-c", "trap '' TERM INT; echo up; exec sleep 3600"],
            ["--notice-time", "10m"])
        os.kill(launcher.inner_pid(), signal.SIGINT)
        launcher.await_line("stopping the run")
        os.kill(launcher.inner_pid(), signal.SIGINT)
        self.assert_code(launcher, 130)
        self.assert_clean()

    def test_a_connection_that_breaks_ends_nothing(self):
        launcher = self.running()
        clients = [pid for pid, words in self.commands(1)
                   if words[:1] == ["ssh"]]
        self.assertEqual(len(clients), 2)
        for pid in clients:
            os.kill(pid, signal.SIGKILL)
        self.stage.await_gone(clients, "the ssh clients")
        self.gate.open()
        self.assert_code(launcher, 0)
        self.assert_clean()

    def test_a_connection_that_breaks_before_the_launcher_knows_of_ranks(self):
        self.make(3)
        connect, gate = Gate(self.stage), Gate(self.stage)
        wrapper = self.stage.path("ssh")
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\ncat {connect.path}\n'
                    f'exec {self.sshd.ssh} "$@"\n')
        os.chmod(wrapper, 0o700)
        self.sshd.ssh = wrapper
        launcher = self.start(
            ["--hostfile", self.hostfile("lab1", "lab2", "lab3")],
            ["sh", "-c", f"echo up; cat {gate.path}"])
        launcher.await_line("missing: lab2, lab3")
        # The launcher gets the daemon's messages late: its threads are held.
        with proc.threads_held(launcher.inner_pid()):
            connect.open()
            launcher.await_lines(r"\] up$", 3)
            clients, relays = ([pid for pid, words in self.commands(1)
                                if words[place:place + 1] == [word]]
                               for place, word in ((0, "ssh"), (1, "remote")))
            self.assertEqual((len(clients), len(relays)), (2, 2))
            for pid in clients:
                os.kill(pid, signal.SIGKILL)
            self.stage.await_gone(clients + relays, "the ssh clients")
        gate.open()
        self.assert_code(launcher, 0)
        self.assertIsNone(launcher.find("no agent runs on"))
        self.assert_clean()

    def kill_launcher(self):
        launcher = self.running()
        pid = launcher.inner_pid()
        os.kill(pid, signal.SIGKILL)
        self.stage.await_gone([pid], "the launcher")

    def test_a_launcher_that_is_killed_leaves_a_run_that_ends_by_itself(self):
        self.kill_launcher()
        self.gate.open()
        self.assert_clean()

    def test_the_next_launcher_takes_the_run_back(self):
        self.kill_launcher()
        launcher = self.start(self.flags, self.command)
        launcher.await_line("goes on|taken back|adopted")
        self.gate.open()
        self.assert_code(launcher, 0)
        self.assert_clean()

    def test_stop_ends_a_run_without_its_launcher(self):
        self.kill_launcher()
        stopped = self.lab.run(1, [harness.ROLLCALL, "stop", "--job",
                                   "remote"])
        self.assert_code(stopped, 0)
        self.assert_clean()
