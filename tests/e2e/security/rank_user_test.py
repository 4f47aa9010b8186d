"""Tests ranks that run as another user than their agent: `--rank-user`.

The agents are root with the capabilities of a Docker container. They lack
CAP_SYS_PTRACE, CAP_PERFMON and CAP_SYS_ADMIN, each of which would let them read
more of other users' processes.
"""
import json
import os
import re
import shutil
import signal
import unittest

import harness
from hang_test import FRAME, MODEL, TEXT, TRAINER
from harness import (E2E, Gate, command_line, descendants, lives,
                     subcommands)

NOBODY = 65534
# A uid and a gid that nothing else on the machine uses.
IDS = "31337:31338"
PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
USAGE = 2
# Docker's default capabilities.
AS_IN_DOCKER = ["setpriv", "--bounding-set=-all," + ",".join(
    "+" + name for name in (
        "chown dac_override fowner fsetid kill setgid setuid setpcap "
        "net_bind_service net_raw sys_chroot mknod audit_write setfcap"
    ).split())]

# Prints the rank's identity and what it can reach, then waits at the gate.
# Arguments: the gate and the launcher's state folder.
LOOK = """
import errno, os, subprocess, sys
say = lambda *words: print(*words, flush=True)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for field in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff", "CapPrm"):
    say("has", field, *status[field].split())
for name in ("HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR"):
    say("has", name, os.environ.get(name, "unset"))
say("has dumpable", os.stat("/proc/self/environ").st_uid)

def attempt(name, act):
    try:
        act()
        say("can", name)
    except OSError as error:
        say("cannot", name, errno.errorcode[error.errno])

def read(path):
    with open(path, "rb", 0) as f:
        if path.endswith("/mem"):
            with open(path.replace("/mem", "/maps")) as maps:
                f.seek(int(maps.readline().split("-")[0], 16))
        f.read(16)

# An agent, and a child of its own: the control.
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
for who, pid in (("agent", os.getppid()), ("child", child.pid)):
    for part in ("mem", "environ", "maps"):
        attempt(f"{who}-{part}", lambda: read(f"/proc/{pid}/{part}"))
    attempt(f"{who}-fd", lambda: os.listdir(f"/proc/{pid}/fd"))
    attempt(f"{who}-signal", lambda: os.kill(pid, 0))
folder = os.path.dirname(os.environ["ROLLCALL_SOCKET"])
attempt("list-run-folder", lambda: os.listdir(folder))
attempt("write-run-folder", lambda: open(folder + "/mine", "w"))
attempt("read-lives", lambda: read(folder + "/lives"))
attempt("state", lambda: os.listdir(sys.argv[2]))
attempt("state-file", lambda: read(sys.argv[2] + "/admin.token"))
attempt("hosts-lock", lambda: [read("/run/rollcall/" + name)
                               for name in os.listdir("/run/rollcall")])
for name in ("WORLD_FILE", "HOSTFILE", "NCCL_ID_FILE"):
    path = os.environ["ROLLCALL_" + name]
    attempt(name, lambda: read(path))
    say("mode", name, oct(os.stat(path).st_mode & 0o777), os.stat(path).st_uid)
attempt("progress", lambda: open(os.environ["ROLLCALL_PROGRESS"], "w"))
for name in ("stdout", "stderr"):
    attempt(name, lambda: open("/dev/" + name, "w").close())
child.kill()
child.wait()
say("up")
open(sys.argv[1]).read()
"""


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class RankUser(E2E):
    def begin(self, flags, command):
        return self.stage.start(
            [*AS_IN_DOCKER, harness.ROLLCALL, "launch", "--hosts-file",
             self._hosts, *flags, "--", *command])

    def attend(self, join, flags, command):
        return self.stage.start(
            [*AS_IN_DOCKER, harness.ROLLCALL, "join", join, "--hosts-file",
             self._hosts, *flags, "--", *command])

    def reachable(self, name):
        """Copies a program or library of the build to a folder that every user
        may read, since others may not read the clone, for example below
        /root."""
        return shutil.copy(os.path.join(harness.BIN, name),
                           self.stage.path(name))

    def looks(self, user):
        """Returns what a rank prints, split into words, and its launcher."""
        gate, state = Gate(self.stage), self.stage.path("look-state")
        launcher = self.begin(
            ["--rank-user", user, "--job", "look", "--state", state,
             "--nccl-lib", self.reachable("libfake_nccl.so")],
            [PYTHON, "-c", LOOK, gate.path, state])
        launcher.await_line(r"\] up$")
        minters = subcommands(descendants(launcher.pid), "mint-nccl-id")
        self.assertEqual(len(minters), 1)
        with open(f"/proc/{minters[0]}/status", encoding="ascii") as f:
            uids = re.search(r"^Uid:\s+(.*)$", f.read(), re.M)[1].split()
        gate.open()
        self.assert_code(launcher, 0)
        said = [m[1].split() for line in launcher.out()
                for m in [re.search(r"\] (.*)$", line)] if m]
        return said, uids

    def has(self, said, name):
        [words] = [w[2:] for w in said if w[:2] == ["has", name]]
        return words

    def test_a_rank_is_that_user_and_reads_nothing_of_its_agent(self):
        said, minter = self.looks(IDS)
        self.assertEqual(self.has(said, "Uid"), ["31337"] * 4)
        self.assertEqual(self.has(said, "Gid"), ["31338"] * 4)
        self.assertEqual(minter, ["31337"] * 4)
        self.assertEqual(self.has(said, "Groups"), [])
        self.assertEqual(self.has(said, "NoNewPrivs"), ["1"])
        for name in ("CapEff", "CapPrm"):
            self.assertEqual(int(self.has(said, name)[0], 16), 0, name)
        self.assertEqual(self.has(said, "HOME"), ["/"])
        self.assertEqual(self.has(said, "XDG_RUNTIME_DIR"), ["unset"])
        # The rank owns its own files in /proc.
        self.assertEqual(self.has(said, "dumpable"), ["31337"])
        for part in ("mem", "environ", "maps", "fd"):
            self.assertIn(["cannot", f"agent-{part}", "EACCES"], said, part)
            self.assertIn(["can", f"child-{part}"], said, part)
        self.assertIn(["cannot", "agent-signal", "EPERM"], said)
        self.assertIn(["can", "child-signal"], said)
        for name in ("list-run-folder", "write-run-folder", "read-lives",
                     "state", "state-file", "hosts-lock"):
            self.assertTrue([w for w in said if w[:2] == ["cannot", name]
                             and w[2] in ("EACCES", "ENOENT")], name)
        for name in ("WORLD_FILE", "HOSTFILE", "NCCL_ID_FILE", "progress",
                     "stdout", "stderr"):
            self.assertIn(["can", name], said, name)
        self.assertIn(["mode", "NCCL_ID_FILE", "0o600", "31337"], said)

    def test_a_named_user_brings_its_groups_and_home(self):
        said, _ = self.looks("nobody")
        self.assertEqual(self.has(said, "Uid"), [str(NOBODY)] * 4)
        groups = os.getgrouplist("nobody", int(self.has(said, "Gid")[0]))
        self.assertEqual(sorted(map(int, self.has(said, "Groups"))),
                         sorted(groups))
        for name in ("USER", "LOGNAME"):
            self.assertEqual(self.has(said, name), ["nobody"])

    def test_a_stopped_rank_is_named_and_the_others_live_on(self):
        command = [self.reachable("rollcall-train"), "--data", *TEXT,
                   "--steps", "1000000", *MODEL]
        flags = ["--rank-user", IDS]
        launcher = self.begin(["--nodes", "2", "--name", "w0",
                               "--hang-timeout", "4s", *flags], command)
        join = self.join_string(launcher)
        agents = {"w0": launcher,
                  "w1": self.attend(join, ["--name", "w1", *flags], command)}
        before = {}
        for name, agent in agents.items():
            agent.await_line(r"\] step 20 .* generation 1$")
            [before[name]] = [p for p in descendants(agent.pid)
                              if command_line(p)[:1] == command[:1]]
        os.kill(before["w1"], signal.SIGSTOP)
        for agent in agents.values():
            agent.await_line(r"\] step \d+ .* world 2 generation 2$",
                             deadline_s=60)
        self.assertTrue(lives(before["w0"]), "it lived on")
        cause = self.status(join)["root_cause"]
        self.assertEqual((cause["node"], cause["code"]), ("w1", "hang"), cause)
        self.assertIn("it is stopped", cause["detail"])
        for name, agent in agents.items():
            # The number and the name of a system call come from the kernel,
            # which reports them only to the rank's user.
            agent.await_line(rf"process {before[name]} \(rollcall-train\)",
                             "err")
            agent.await_line(r": \w, waits in \w+, system call (\d+|running)",
                             "err")
            self.stage.pump(
                lambda a=agent: [m for line in a.err()
                                 for m in [re.search(FRAME, line)]
                                 if m and TRAINER.search(m[1])] or a.done(),
                f"a frame of {name}")
            self.assertEqual(agent.code, None)
        # The notice on their sockets stops both ranks at the same step.
        launcher.signal(signal.SIGTERM)
        self.assert_code(launcher, 75)
        self.assert_code(agents["w1"], 75)

    def ranks(self, gate):
        """A command with a child in its own session; it prints both pids."""
        return ["sh", "-c",
                "setsid sh -c 'echo child=$$; exec cat " + gate.path + "' & "
                "echo up g$ROLLCALL_GENERATION pid=$$ socket=$ROLLCALL_SOCKET; "
                f"cat {gate.path}; echo end=$$"]

    def pids(self, process):
        return [int(m) for _, _, text in process.lines
                for m in re.findall(r"(?:child|pid)=(\d+)", text)]

    def gather(self, gate):
        flags = ["--rank-user", IDS]
        launcher = self.begin(["--nodes", "1:2", *flags], self.ranks(gate))
        join = self.join_string(launcher)
        worker = self.attend(join, ["--name", "w1", *flags], self.ranks(gate))
        for process in (launcher, worker):
            process.await_line(r"\] up g\d+ pid=")
        worker.await_line(r"child=")
        # The socket's folder is below /tmp. It may stay there after an agent
        # was killed, so the test removes it.
        socket = worker.await_line(r"socket=(\S+)")[1]
        self.addCleanup(shutil.rmtree, os.path.dirname(socket), True)
        return launcher, join, worker

    def test_the_guard_ends_what_a_killed_agent_left(self):
        gate = Gate(self.stage)
        launcher, _, worker = self.gather(gate)
        ranks = self.pids(worker)
        worker.signal(signal.SIGKILL)
        self.stage.await_gone(ranks, "its ranks")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)

    def test_the_next_life_sweeps_what_no_guard_did(self):
        gate = Gate(self.stage)
        launcher, join, dead = self.gather(gate)
        ranks = self.pids(dead)
        [guard] = subcommands(descendants(dead.pid), "guard")
        # Both are stopped first, so that neither notices the other's end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (dead.pid, guard):
                os.kill(pid, number)
        self.stage.await_gone([dead.pid, guard], "agent and guard")
        # The kernel ends the rank together with its agent, but not the rank's
        # child. Only the child's environment shows that it belongs to the rank.
        self.assertTrue([p for p in ranks if lives(p)])
        after = self.attend(join, ["--name", "w1", "--rank-user", IDS],
                            self.ranks(gate))
        self.stage.await_gone(ranks, "the ranks of the life before")
        after.await_line(r"\] up g\d+ pid=")
        launcher.signal(signal.SIGINT)
        for process in (launcher, after):
            self.assert_code(process, 130)

    def test_stop_is_told_by_signal_and_file(self):
        gate = Gate(self.stage)
        launcher = self.begin(
            ["--rank-user", IDS],
            ["sh", "-c", "trap 'cat $ROLLCALL_NOTICE; exit 0' TERM; echo up; "
             f"while :; do read line < {gate.path}; done"])
        launcher.await_line(r"\] up$")
        launcher.signal(signal.SIGTERM)
        self.assert_code(launcher, 75)
        told = launcher.await_line(r'\] (\{"kind".*\})$')
        self.assertIn(json.loads(told[1])["kind"], ("preempt", "stop"))

    def fails_with(self, write):
        """Returns the root cause's detail for a rank that fails after
        `write`."""
        gate = Gate(self.stage)
        launcher = self.begin(
            ["--rank-user", IDS, "--nodes", "1:2"],
            ["sh", "-c", f"[ $ROLLCALL_GENERATION = 1 ] && {write} && exit 3; "
             f"echo up; cat {gate.path}"])
        join = self.join_string(launcher)
        launcher.await_line(r"\] up$")
        cause = self.status(join)["root_cause"]
        self.assertEqual(cause["code"], "rank_exit", cause)
        gate.open()
        self.assert_code(launcher, 0)
        return cause["detail"]

    def test_an_error_file_is_read_as_that_user(self):
        secret = self.stage.path("secret.json")
        with open(secret, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            json.dump({"message": "stolen words"}, f)
        own = self.fails_with(
            """echo '{"message": "own words"}' > $TORCHELASTIC_ERROR_FILE""")
        self.assertEqual("own words", own)
        led = self.fails_with(f"ln -s {secret} $TORCHELASTIC_ERROR_FILE")
        self.assertNotIn("stolen words", led)

    def test_a_command_that_the_user_cannot_reach(self):
        program = self.stage.path("closed")
        shutil.copy("/bin/true", program)
        os.chmod(program, 0o700)
        launcher = self.begin(["--rank-user", "nobody", "--max-restarts", "0"],
                              [program])
        self.assert_code(launcher, 126)
        self.assertRegex(launcher.text(), "Permission denied.*user nobody")

    def test_a_working_folder_that_the_user_cannot_enter(self):
        folder = self.stage.path("closed")
        os.mkdir(folder, 0o700)
        launcher = self.stage.start(
            [harness.ROLLCALL, "launch", "--no-hosts", "--rank-user", IDS,
             "--", "/bin/true"], cwd=folder)
        self.assert_code(launcher, 0)
        self.assertRegex(launcher.text(), f"user {IDS} .*working folder")

    def run_folder(self, *flags):
        """Starts a launcher whose first rank fails once the gate opens. Later
        ranks print their generation and end. Returns the launcher, the gate and
        the run folder."""
        gate = Gate(self.stage)
        launcher = self.begin(
            ["--rank-user", IDS, "--max-restarts", "1", *flags],
            ["sh", "-c",
             "echo up g$ROLLCALL_GENERATION socket=$ROLLCALL_SOCKET; "
             "[ -S $ROLLCALL_SOCKET ] && echo socket g$ROLLCALL_GENERATION; "
             f"[ $ROLLCALL_GENERATION = 1 ] || exit 0; cat {gate.path}; "
             "exit 3"])
        socket = launcher.await_line(r"up g1 socket=(\S+)")[1]
        folder = os.path.dirname(socket)
        self.addCleanup(shutil.rmtree, folder, True)
        return launcher, gate, folder

    def test_the_run_goes_on_after_tmp_was_cleaned(self):
        launcher, gate, folder = self.run_folder()
        shutil.rmtree(folder)
        gate.open()
        self.assert_code(launcher, 0)
        launcher.await_line(r"\] socket g2$")
        self.assertFalse(os.path.exists(folder))

    def test_a_run_folder_that_the_user_put_there_is_not_used(self):
        launcher, gate, folder = self.run_folder()
        victim = self.stage.path("victim")
        os.mkdir(victim, 0o700)
        shutil.rmtree(folder)
        os.mkdir(folder, 0o755)
        for generation in range(1, 9):
            os.symlink(victim, f"{folder}/gen-{generation}")
        os.lchown(folder, *map(int, IDS.split(":")))
        gate.open()
        launcher.wait()
        self.assertEqual(os.stat(victim).st_uid, 0)
        self.assertEqual(os.listdir(victim), [])
        self.assertNotEqual(launcher.code, 0)
        self.assertRegex(launcher.text(),
                         rf"{folder}: expected the run folder .*user 31337")

    def test_logs_stay_in_the_folder_that_was_named_at_the_start(self):
        theirs, victim = self.stage.path("theirs"), self.stage.path("victim")
        for folder in (theirs, victim):
            os.mkdir(folder)
        os.chown(theirs, *map(int, IDS.split(":")))
        launcher = self.begin(
            ["--rank-user", IDS, "--log-dir", f"{theirs}/mid/logs"],
            ["sh", "-c", "[ $ROLLCALL_GENERATION = 1 ] || exit 0; "
             f"mv {theirs}/mid {theirs}/away && ln -s {victim} {theirs}/mid; "
             "exit 3"])
        self.assert_code(launcher, 0)
        self.assertTrue(os.path.islink(f"{theirs}/mid"))
        self.assertEqual(os.listdir(victim), [])
        for generation in (1, 2):
            self.assertTrue(os.path.exists(
                f"{theirs}/away/logs/gen-{generation}/rank-0.out"))

    def test_who_cannot_be_that_user_is_told_at_once(self):
        rollcall = self.reachable("rollcall")
        launcher = self.launch(["--nodes", "2"], ["true"])
        join = self.join_string(launcher)
        for words, why in (
                (["--rank-user", "no-such-user"], "no-such-user.*unknown"),
                (["--rank-user", "4000000001"], "4000000001.*unknown"),
                (["--rank-user", "root"], "another user than root"),
                (["--rank-user", "1:"], "UID:GID")):
            for command in (["launch"], ["join", join]):
                failed = self.stage.run([rollcall, *command, "--no-hosts",
                                         *words, "--", "true"])
                self.assert_code(failed, USAGE)
                self.assertRegex(failed.text(), "--rank-user: .*" + why)
        for prefix, why in (
                (["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                  "--clear-groups"], f"only root.*user {NOBODY}"),
                (["setpriv", "--bounding-set=-setuid,-kill"],
                 "lacks CAP_SETUID, CAP_KILL")):
            failed = self.stage.run(
                [*prefix, rollcall, "launch", "--no-hosts", "--rank-user",
                 "daemon", "--", "true"])
            self.assert_code(failed, USAGE)
            self.assertRegex(failed.text(), "--rank-user: .*" + why)
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)


if __name__ == "__main__":
    harness.main()
