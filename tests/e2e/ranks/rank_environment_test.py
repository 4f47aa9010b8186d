"""Tests what a rank gets: its environment and its files, and no secret."""
import glob
import hashlib
import json
import os
import sys

import harness
import wire
from harness import E2E, Gate

# All variables that torchrun sets.
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
    # A value may have several lines; only the first one has a name.
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
            print("notice: no libnccl here, so there are no NCCL ids to "
                  "compare", file=sys.stderr)

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
            # Both nodes have the same address, so one line stands for both.
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
        # The environment of the launcher's children contains no secret either.
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
        # There may also be a child of a rank that has not yet executed `cat`.
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
        # Not assertNotIn, because its failure would print the secret.
        found = [i for i, secret in enumerate(secrets) if secret in text]
        self.assertEqual(found, [], f"form {found} of the token in {where}")
