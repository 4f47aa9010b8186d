"""One launcher, its workers, and what their ranks get."""
import glob
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import time

import harness
import wire
from harness import E2E, Gate, Lab

# torchrun's contract, complete.
TORCH_CONTRACT = """
RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE
ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME NODE_RANK NNODES MASTER_ADDR MASTER_PORT
TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
TORCHELASTIC_ERROR_FILE OMP_NUM_THREADS
""".split()
OURS = """
ROLLCALL_JOB ROLLCALL_RUN ROLLCALL_NODE ROLLCALL_GENERATION
ROLLCALL_WORLD_FILE ROLLCALL_HOSTFILE ROLLCALL_PROGRESS ROLLCALL_NOTICE
ROLLCALL_SOCKET
""".split()

# A rank that writes its environment and its files to out.RANK as JSON.
TELL = [sys.executable, "-c", """
import json, os, stat
def read(name):
    path = os.environ.get(name)
    return open(path).read() if path and os.path.exists(path) else None
def mode(path): return stat.S_IMODE(os.stat(path).st_mode)
json.dump({
    "env": dict(os.environ), "session": os.getsid(0) == os.getpid(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "world": json.loads(read("ROLLCALL_WORLD_FILE")),
    "hostfile": read("ROLLCALL_HOSTFILE"),
    "ids": read("ROLLCALL_NCCL_ID_FILE"),
    "ids_mode": "ROLLCALL_NCCL_ID_FILE" in os.environ
        and mode(os.environ["ROLLCALL_NCCL_ID_FILE"]),
    "socket_folder_mode":
        mode(os.path.dirname(os.environ["ROLLCALL_SOCKET"])),
}, open("told." + os.environ["RANK"], "w"))
"""]


def read_env(path):
    # A value may hold line ends; what follows one is no NAME=.
    with open(path, encoding="utf-8", errors="replace") as f:
        return dict(line.rstrip("\n").split("=", 1)
                    for line in f if "=" in line)


class Environment(E2E):
    def tell(self, flags, env=None):
        launcher = self.launch(flags, TELL, env)
        self.assert_code(launcher, 0)
        told = {}
        for path in glob.glob(self.stage.path("told.*")):
            with open(path, encoding="utf-8") as f:
                told[int(path.rsplit(".", 1)[1])] = json.load(f)
        return told

    def test_eight_ranks_on_four_nodes(self):
        launcher = self.launch(
            ["--nodes", "4", "--local-workers", "3", "--nproc-per-node", "2"],
            ["sh", "-c", 'env | sort > "out.$RANK"; '
             'test -z "$ROLLCALL_NCCL_ID_FILE" || '
             'cat "$ROLLCALL_NCCL_ID_FILE" > "ids.$RANK"'])
        self.assert_code(launcher, 0)
        paths = sorted(os.path.basename(p)
                       for p in glob.glob(self.stage.path("out.*")))
        self.assertEqual(paths, [f"out.{r}" for r in range(8)])
        ranks = [read_env(self.stage.path(p)) for p in paths]
        self.assertEqual([r["RANK"] for r in ranks],
                         [str(r) for r in range(8)])
        self.assertEqual([r["LOCAL_RANK"] for r in ranks], list("01010101"))
        self.assertEqual([r["NODE_RANK"] for r in ranks], list("00112233"))
        for name, value in [("WORLD_SIZE", "8"), ("LOCAL_WORLD_SIZE", "2"),
                            ("NNODES", "4"), ("GROUP_WORLD_SIZE", "4")]:
            self.assertEqual({r[name] for r in ranks}, {value}, name)
        for name in ["MASTER_ADDR", "MASTER_PORT", "ROLLCALL_GENERATION",
                     "ROLLCALL_RUN", "ROLLCALL_JOB", "TORCHELASTIC_RUN_ID"]:
            self.assertEqual(len({r[name] for r in ranks}), 1, name)
        paths = glob.glob(self.stage.path("ids.*"))
        if paths:
            self.check_ids(paths)
        else:
            print("notice: no libnccl here, so there are no NCCL ids of its "
                  "own to compare", file=sys.stderr)

    def check_ids(self, paths):
        self.assertEqual(sorted(os.path.basename(p) for p in paths),
                         [f"ids.{r}" for r in range(8)])
        sums = set()
        for path in paths:
            with open(path, "rb") as f:
                text = f.read()
            self.assertRegex(text, rb"\A(?:[0-9a-f]{64}){4}\n\Z")
            sums.add(hashlib.sha256(text).hexdigest())
        self.assertEqual(len(sums), 1, "every rank has the same ids")

    def test_nccl_ids_of_a_library_that_we_brought(self):
        library = os.path.join(harness.BIN, "libfake_nccl.so")
        launcher = self.launch(
            ["--nodes", "4", "--local-workers", "3", "--nproc-per-node", "2",
             "--nccl-lib", library],
            ["sh", "-c", 'set -e; echo mode=$(stat -c %a '
             '"$ROLLCALL_NCCL_ID_FILE"); '
             'cat "$ROLLCALL_NCCL_ID_FILE" > "ids.$RANK"'])
        self.assert_code(launcher, 0)
        self.check_ids(glob.glob(self.stage.path("ids.*")))
        modes = [m[1] for m in launcher.await_lines(r"mode=(\d+)", 8)]
        self.assertEqual(modes, ["600"] * 8)

    def test_the_whole_contract(self):
        told = self.tell(["--local-workers", "1", "--nproc-per-node", "2",
                          "--job", "contract"])
        self.assertEqual(sorted(told), [0, 1, 2, 3])
        for rank, t in told.items():
            env = t["env"]
            missing = [n for n in TORCH_CONTRACT + OURS if n not in env]
            self.assertEqual(missing, [])
            self.assertEqual(env["GROUP_RANK"], env["NODE_RANK"])
            self.assertEqual(env["ROLE_RANK"], str(rank))
            self.assertEqual(env["ROLE_WORLD_SIZE"], "4")
            self.assertEqual(env["ROLLCALL_JOB"], "contract")
            self.assertEqual(env["ROLLCALL_GENERATION"], "1")
            self.assertEqual(env["TORCHELASTIC_RESTART_COUNT"], "0")
            self.assertEqual(env["OMP_NUM_THREADS"], "1")
            self.assertEqual(t["stdin"], "/dev/null")
            self.assertTrue(t["session"])
            self.assertEqual(t["socket_folder_mode"], 0o700)
            world = t["world"]
            self.assertEqual(world, told[0]["world"])
            self.assertEqual(world["world_size"], 4)
            self.assertEqual(world["generation"], 1)
            self.assertEqual(str(world["master_port"]), env["MASTER_PORT"])
            self.assertEqual(world["master_addr"], env["MASTER_ADDR"])
            node = world["nodes"][int(env["NODE_RANK"])]
            self.assertEqual(node["node"], env["ROLLCALL_NODE"])
            self.assertEqual(node["first_rank"] + int(env["LOCAL_RANK"]), rank)
            # Both nodes share this machine's address: one line for both.
            self.assertEqual({n["address"] for n in world["nodes"]},
                             {"127.0.0.1"})
            self.assertEqual(t["hostfile"], "127.0.0.1 slots=4\n")
            if t["ids"] is not None:
                self.assertEqual(t["ids_mode"], 0o600)
                self.assertRegex(t["ids"], r"\A[0-9a-f]{256}\n\Z")
        port = int(told[0]["env"]["MASTER_PORT"])
        with open("/proc/sys/net/ipv4/ip_local_port_range",
                  encoding="ascii") as f:
            low, high = map(int, f.read().split())
        self.assertFalse(low <= port <= high, "an ephemeral MASTER_PORT")

    def test_what_the_user_set_stays_and_secrets_go(self):
        told = self.tell(
            ["--nproc-per-node", "2"],
            {"OMP_NUM_THREADS": "7", "ROLLCALL_JOIN": "", "MINE": "a b",
             "RANK": "99", "TORCHELASTIC_RUN_ID": "of-another-launcher"})
        self.assertEqual(sorted(told), [0, 1])
        for rank, t in told.items():
            self.assertEqual(t["env"]["OMP_NUM_THREADS"], "7")
            self.assertEqual(t["env"]["MINE"], "a b")
            self.assertEqual(t["env"]["RANK"], str(rank))
            self.assertNotIn("ROLLCALL_JOIN", t["env"])
            self.assertNotEqual(t["env"]["TORCHELASTIC_RUN_ID"],
                                "of-another-launcher")

    def test_no_secret_reaches_ranks_or_argv(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", f"env; echo here-$RANK; cat {gate.path}"]
        logs = self.stage.path("logs")
        launcher = self.launch(["--nodes", "2", "--log-dir", logs], command)
        join = self.join_string(launcher)
        worker = self.join(join, ["--name", "w", "--log-dir", logs], command,
                           {"ROLLCALL_JOIN": join})
        worker.await_line("here-1")
        launcher.await_line("here-0")
        token = wire.Join(join)
        secrets = [join.split(".", 1)[1], token.secret.hex(),
                   f"{token.token_id}.{token.secret.hex()}"]
        for process in (launcher, worker):
            said = [text for _, _, text in process.lines
                    if text.startswith("[")]
            self.assertTrue([t for t in said if "ROLLCALL_RUN=" in t])
            self.assert_none_of(secrets, "\n".join(said), str(process))
        running = harness.descendants(os.getpid())
        self.assertGreaterEqual(len(running), 7)
        for pid in running:
            self.assert_none_of(secrets, " ".join(harness.command_line(pid)),
                                f"the arguments of {pid}")
        # Nor what the launcher started its children with.
        started = [p for p in running if harness.command_line(p)[1:2] in
                   (["daemon"], ["agent"])]
        self.assertEqual(len(started), 2)
        for pid in started if os.geteuid() == 0 else []:
            with open(f"/proc/{pid}/environ", "rb") as f:
                names = [e.split(b"=")[0] for e in f.read().split(b"\0")]
            self.assertIn(b"HOME", names)
            self.assertNotIn(b"ROLLCALL_SECRET", names)
            self.assertNotIn(b"ROLLCALL_JOIN", names)
        ranks = [p for p in running
                 if harness.command_line(p)[:2] == command[:2]]
        # And a child of one, before it has become `cat`.
        self.assertGreaterEqual(len(ranks), 2)
        for pid in ranks:
            with open(f"/proc/{pid}/environ", "rb") as f:
                self.assert_none_of(secrets, f.read().decode(), "a rank")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        self.assert_none_of(secrets, "\n".join(worker.out() + worker.err()),
                            str(worker))
        written = [p for folder in (logs, self.stage.path("state"))
                   for p in glob.glob(folder + "/**/*", recursive=True)
                   if os.path.isfile(p)
                   and (folder == logs or p.endswith(".log"))]
        self.assertGreaterEqual(len(written), 4)
        for path in written:
            with open(path, encoding="utf-8", errors="replace") as f:
                self.assert_none_of(secrets, f.read(), path)

    def assert_none_of(self, secrets, text, where):
        # Not assertNotIn: what fails must not show the secret.
        found = [i for i, secret in enumerate(secrets) if secret in text]
        self.assertEqual(found, [], f"form {found} of the token in {where}")


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
        # The driver's list of GPUs, as CountGpuDevices reads it, in a host of
        # its own: 3 GPUs there, whatever this machine has.
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
        # On hosts of their own, where nobody else has that port.
        lab = Lab(self.stage, 2)
        secret = self.stage.path("secret")
        with open(secret, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(self.stage.run([harness.ROLLCALL, "token",
                                    "secret"]).out()[0] + "\n")
        flags = ["--job", "known", "--secret-file", secret]
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
        # Nothing tells when it is; each string opens the job meanwhile.
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
        # All that is no rank's output is the launcher's own.
        summary = [text for text in launcher.err() if not text.startswith("[")]
        self.assertRegex(summary[0], r"\brank 2 on local-2\b.*\bcode 3\b")
        self.assertRegex(summary[1], r"^ *\| the-reason$")
        # The ranks' own words came before it.
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
        # One rank: a second one may be stopped before it prints anything.
        launcher = self.launch(
            ["--max-restarts", "2"],
            ["sh", "-c", "echo run-g$ROLLCALL_GENERATION; exit 6"])
        self.assert_code(launcher, 6)
        ran = [line.split("-")[-1] for line in launcher.out()
               if "run-" in line]
        self.assertEqual(ran, ["g1", "g2", "g3"])

    def test_a_command_that_is_not_there(self):
        # The end at once, with restarts left: none of them is spent.
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
        launcher = self.launch(["--nodes", "2:3", "--name", "main"], command)
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
        # The world ends; w2 cannot start its rank in the next one.
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
            # Nobody has ranks that would be given their grace of 15 s.
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


class NoHome(E2E):
    """A user whose home cannot be written: containers with a random one."""

    user = 12345
    no_home = "/nonexistent/.local/state/rollcall"

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can start commands as another user")
        # Where the build lies that user may not be able to look.
        self.program = self.stage.path("rollcall")
        shutil.copy(harness.ROLLCALL, self.program)
        self.tmp = self.stage.path("tmp")
        os.mkdir(self.tmp)
        os.chmod(self.tmp, 0o1777)
        self.root = os.path.join(self.tmp, f"rollcall-state-{self.user}")
        self.gate = Gate(self.stage)
        self.command = ["sh", "-c", f"echo up; cat {self.gate.path}"]

    def as_user(self, words, home="/nonexistent", program=None):
        return self.stage.start(
            ["setpriv", f"--reuid={self.user}", f"--regid={self.user}",
             "--clear-groups", program or self.program, *words],
            {"HOME": home, "XDG_STATE_HOME": None, "XDG_RUNTIME_DIR": None,
             "TMPDIR": self.tmp})

    def ask(self, words, home="/nonexistent"):
        asked = self.as_user(words, home)
        asked.wait()
        return asked

    def run_job(self, home="/nonexistent"):
        return self.as_user(["launch", "--no-hosts", "--job", "homeless", "--",
                             *self.command], home)

    def test_state_goes_below_tmpdir_and_is_found_there(self):
        home = self.stage.path("home")
        os.mkdir(home)
        os.chown(home, self.user, self.user)
        launcher = self.run_job()
        launcher.await_line(r"\] up$")
        # One line, with both folders, the reason, and what is lost.
        told = [line for line in launcher.err() if "state is kept in" in line]
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], rf"{self.root}/homeless and not below "
                         rf"{self.no_home}: cannot make /nonexistent: .*"
                         r"Permission denied; .*restart.* --state DIR")
        status = os.stat(self.root)
        self.assertEqual((status.st_uid, stat.S_IMODE(status.st_mode)),
                         (self.user, 0o700))
        # By its name and without; also with a home by now.
        for words in (["--job", "homeless"], []):
            for at in ("/nonexistent", home):
                asked = self.ask(["status", *words, "--json"], at)
                self.assert_code(asked, 0)
                self.assertEqual(json.loads("\n".join(asked.out()))["job"],
                                 "homeless")
        self.assert_code(self.ask(["token", "list", "--job", "homeless"]), 0)
        # A second launcher finds the first, and one after its death its run.
        second = self.run_job(home)
        self.assert_code(second, 69)
        self.assertRegex(second.text(),
                         f"the launcher of process {launcher.pid} has "
                         f"the state folder {self.root}/homeless")
        launcher.signal(signal.SIGKILL)
        self.stage.pump(lambda: launcher.code is not None, "its death")
        again = self.run_job(home)
        again.await_line("job homeless goes on: its daemon is process", "err")
        self.assertIn(self.root, again.text())
        self.assert_code(self.ask(["stop", "--job", "homeless"]), 0)
        self.assert_code(again, 143)

    def test_a_folder_of_another_user_is_refused(self):
        os.mkdir(self.root, 0o700)
        refused = self.run_job()
        self.assert_code(refused, 69)
        self.assertRegex(
            refused.text(), rf"{self.root}: expected a folder of user "
            rf"{self.user}, .* got one of user 0; .*--state DIR")
        self.assertIn("cannot make /nonexistent", refused.text())
        self.assertEqual(os.listdir(self.root), [])
        self.assertRegex(self.ask(["status", "--job", "homeless"]).text(),
                         "no job homeless runs on this machine")

    def test_an_explicit_folder_that_cannot_be_made_is_an_error(self):
        refused = self.ask(["launch", "--no-hosts", "--job", "homeless",
                            "--state", "/nonexistent/x", "--", "true"])
        self.assert_code(refused, 69)
        self.assertIn("cannot make /nonexistent: Permission denied",
                      refused.text())
        self.assertEqual(os.listdir(self.tmp), [])

    def test_a_standing_daemon_goes_there_too(self):
        program = self.stage.path("rollcalld")
        shutil.copy(os.path.join(harness.BIN, "rollcalld"), program)
        daemon = self.as_user(["--listen", "127.0.0.1:0"], program=program)
        daemon.await_line(f"state in {self.root}/rollcalld$")
        daemon.await_line(f"state is kept in {self.root}/rollcalld and not "
                          f"below {self.no_home}")
        daemon.signal(signal.SIGTERM)
        self.assert_code(daemon, 0)


class NobodyReads(E2E):
    """stdout and stderr are held: Ctrl-S, or a full pipe that nobody reads."""

    def setUp(self):
        super().setUp()
        self.full = self.stage.path("full")
        self.up = self.stage.path("up")
        os.mkfifo(self.full)
        os.mkfifo(self.up)
        fd = os.open(self.full, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, fd)
        for size in (4096, 1):
            try:
                while os.write(fd, b"." * size):
                    pass
            except BlockingIOError:
                pass
        self.gate = Gate(self.stage)
        self.command = ["sh", "-c", f"echo $ROLLCALL_GENERATION >{self.up}; "
                        f"cat {self.gate.path}"]

    def held(self, *words):
        return self.stage.start(
            ["sh", "-c", 'exec "$@" >"$0" 2>&1', self.full, harness.ROLLCALL,
             words[0], "--hosts-file", self._hosts, *words[1:], "--",
             *self.command])

    def await_up(self, ranks):
        """Blocks until so many have said their generation, which is 1."""
        said = ""
        while len(said.split()) < ranks:
            with open(self.up, encoding="ascii") as f:
                said += f.read()
        self.assertEqual(set(said.split()), {"1"})

    def kill_daemon(self, job):
        path = os.path.join(self.stage.path("state"), "rollcall", job,
                            "daemon.json")
        with open(path, encoding="utf-8") as f:
            pid = json.load(f)["daemon_pid"]
        os.kill(pid, signal.SIGKILL)
        self.stage.await_gone([pid], "the daemon")

    def test_a_launcher_starts_its_daemon_again_and_ends(self):
        launcher = self.held("launch", "--job", "held")
        self.await_up(1)
        self.kill_daemon("held")
        self.gate.open()
        self.assert_code(launcher, 0)

    def test_a_launcher_hears_signals(self):
        launcher = self.held("launch", "--job", "held")
        self.await_up(1)
        launcher.signal(signal.SIGTERM)
        self.assert_code(launcher, 75)

    def test_an_agent_redials(self):
        launcher = self.launch(["--job", "held", "--nodes", "2"], self.command)
        worker = self.held("join", self.join_string(launcher), "--name", "w1")
        self.await_up(2)
        self.kill_daemon("held")
        launcher.await_line("it is started again")
        self.gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)


if __name__ == "__main__":
    harness.main()
