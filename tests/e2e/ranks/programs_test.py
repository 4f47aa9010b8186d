"""Programs without support for rollcall, run under it as users run them."""
import os
import signal
import unittest

import harness
import proc
from harness import E2E, Gate, Lab
from sshd import Sshd
from with_torch import WithTorch

PYTHON = "/usr/bin/python3"

INTEROP = os.path.join(harness.PROJECT, "tests", "interop")
# scripts/packages.sh programs makes two environments in this folder.
ENVIRONMENTS = os.environ.get("ROLLCALL_PROGRAMS_VENVS", os.path.expanduser(
    "~/.cache/rollcall/programs"))

SLOW = unittest.skipUnless(
    os.environ.get("ROLLCALL_TEST_PROGRAMS") == "1",
    "NOT TESTED: takes long; ROLLCALL_TEST_PROGRAMS=1 runs it")


class OpenMpi(E2E):
    """Runs mpirun on node rank 0; it starts ranks on the others by ssh.

    From rollcall, mpirun gets only the hostfile.
    """

    def begin(self, hosts, flags, *arguments):
        self.lab = Lab(self.stage, hosts)
        self.sshd = Sshd(self.stage, self.lab, range(1, hosts + 1))
        with open(self.stage.path("hosts.txt"), "w", encoding="utf-8") as f:
            f.write("".join(f"lab{i}\n" for i in range(1, hosts + 1)))
        return self.lab.start(1, [
            harness.ROLLCALL, "launch", "--ssh", self.sshd.ssh, "--hostfile",
            self.stage.path("hosts.txt"), "--once", *flags, "--", "sh", "-c",
            "cat $ROLLCALL_HOSTFILE; exec mpirun --hostfile $ROLLCALL_HOSTFILE "
            f"--allow-run-as-root --mca plm_rsh_agent '{self.sshd.ssh}' "
            f"{PYTHON} {INTEROP}/mpi_rank.py {' '.join(arguments)}"])

    def commands(self, hosts):
        """Returns the hosts' command lines, except those of sshd."""
        found = [proc.command_line(pid) for host in hosts
                 for pid in self.lab.processes(host)]
        return [words for words in found if "sshd" not in " ".join(words)]

    def assert_clean(self, hosts=(1, 2, 3)):
        self.stage.pump(lambda: not self.commands(hosts),
                        f"the end of {self.commands(hosts)}")

    def await_ranks(self, launcher, size, count):
        """Waits for `count` lines of a world of `size` ranks; returns (rank,
        host) of each."""
        total = size * (size + 1) // 2
        found = launcher.await_lines(
            rf"mpi (\d+) of {size} on (lab\d) total {total}$", count)
        return sorted((int(m[1]), m[2]) for m in found)

    def test_slots_and_the_exit_code(self):
        launcher = self.begin(3, ["--nproc-per-node", "2", "--max-restarts",
                                  "0"], "7", "/dev/null")
        self.assert_code(launcher, 7)
        self.assertEqual(self.await_ranks(launcher, 6, 6),
                         [(rank, f"lab{rank // 2 + 1}") for rank in range(6)])
        self.assert_clean()

    def test_ctrl_c_ends_it_on_all_hosts(self):
        gate = Gate(self.stage)
        launcher = self.begin(3, [], "0", gate.path)
        self.await_ranks(launcher, 3, 3)
        os.kill(launcher.inner_pid(), signal.SIGINT)
        self.assert_code(launcher, 130)
        self.assert_clean()

    def test_a_lost_host_restarts_it_on_the_others(self):
        gate = Gate(self.stage)
        launcher = self.begin(3, [*harness.whole("2:3"), "--max-restarts", "0"],
                              "0", gate.path)
        self.await_ranks(launcher, 3, 3)
        self.lab.do("kill", 3)
        self.assertEqual(self.await_ranks(launcher, 2, 2),
                         [(0, "lab1"), (1, "lab2")])
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_clean((1, 2))

    @SLOW
    def test_a_killed_agent_leaves_no_process_on_any_host(self):
        gate = Gate(self.stage)
        launcher = self.begin(3, [*harness.whole("2:3"), "--job", "mpi"], "0",
                              gate.path)
        self.await_ranks(launcher, 3, 3)
        (agent,) = proc.subcommands(self.lab.processes(1), "agent")
        os.kill(agent, signal.SIGKILL)

        def of_mpi():
            return [words for words in self.commands((1, 2, 3))
                    if os.path.basename(words[0]) in ("mpirun", "orted")
                    or words[-1] == gate.path]
        self.stage.pump(lambda: not of_mpi(), f"the end of {of_mpi()}")
        # mpirun ran only on that host, so the daemon cannot know that it ended.
        launcher.await_line("may still train on lab1")
        evicted = self.lab.run(1, [harness.ROLLCALL, "evict", "lab1", "--job",
                                   "mpi"])
        self.assert_code(evicted, 0)
        self.assertEqual(self.await_ranks(launcher, 2, 2),
                         [(0, "lab2"), (1, "lab3")])
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_clean()


@SLOW
class TorchrunPerNode(WithTorch):
    """Runs torchrun as the only rank of each node, with two children each."""

    def begin(self):
        self.gate = Gate(self.stage)
        self.lab = Lab(self.stage, 2)
        # This torch fails on its own enum without --redirects and --tee. -u: it
        # prints what it tees when its buffer is full.
        command = ["sh", "-c", f"exec {PYTHON} -u -m torch.distributed.run "
                   "--nnodes=$NNODES --node_rank=$NODE_RANK "
                   "--master_addr=$MASTER_ADDR --master_port=$MASTER_PORT "
                   "--nproc_per_node=2 --redirects 2 --tee 1 "
                   f"--log_dir {self.stage.path('torch')} "
                   f"{INTEROP}/gloo_rank.py {self.gate.path}"]
        launcher = self.lab.start(1, [harness.ROLLCALL, "launch", "--nodes",
                                      "1:2", "--", *command])
        worker = self.lab.start(2, [
            harness.ROLLCALL, "join", self.join_string(launcher), "--",
            *command])
        return launcher, worker

    def await_world(self, process, node_rank, size, worlds):
        """Waits until both children of a node have been in a world of `size`
        ranks for the `worlds`th time; returns their process ids on the node's
        host."""
        lines = process.await_lines(
            rf"gloo (\d) of {size} local (\d) total {size * (size + 1) // 2} "
            r"process (\d+)$", 2 * worlds)[-2:]
        self.assertEqual(sorted((int(m[1]), int(m[2])) for m in lines),
                         [(2 * node_rank + i, i) for i in range(2)])
        return [int(m[3]) for m in lines]

    def of_torch(self, host):
        """Returns (pid, words) of torchrun and its children on the host."""
        found = [(pid, proc.command_line(pid))
                 for pid in self.lab.processes(host)]
        return [(pid, words) for pid, words in found
                if words[:1] == [PYTHON] and words[-1] == self.gate.path]

    def test_torchrun_and_an_agent_are_killed(self):
        launcher, worker = self.begin()
        self.await_world(launcher, 0, 4, 1)
        self.await_world(worker, 1, 4, 1)
        before = {pid: words for host in (1, 2)
                  for pid, words in self.of_torch(host)}
        self.assertEqual(len(before), 6)

        # torchrun's children lead their own sessions; torchrun ends none.
        (torchrun,) = [pid for pid, words in self.of_torch(2)
                       if "torch.distributed.run" in words]
        os.kill(torchrun, signal.SIGKILL)
        self.await_world(launcher, 0, 4, 2)
        self.await_world(worker, 1, 4, 2)
        after = {pid for host in (1, 2) for pid, _ in self.of_torch(host)}
        self.assertEqual((len(after), after & set(before)), (6, set()))
        self.assertIsNotNone(launcher.find(
            r"generation 2: rank 1 on lab2 was ended by signal 9"),
            launcher.text())

        os.kill(worker.inner_pid(), signal.SIGKILL)
        self.await_world(launcher, 0, 2, 1)
        self.assertEqual(self.of_torch(2), [])
        self.gate.open()
        self.assert_code(launcher, 0)


class NcclIds(E2E):
    def test_a_c_program_reads_the_same_id_on_all_ranks(self):
        program = self.stage.path("nccl_id")
        built = self.stage.run(["cc", "-Wall", "-Wextra", "-Werror", "-o",
                                program, f"{INTEROP}/nccl_id.c"])
        self.assert_code(built, 0)
        ids = []
        for _ in range(2):
            launcher = self.launch(
                ["--local-workers", "1", "--nproc-per-node", "2", "--nccl-lib",
                 os.path.join(harness.BIN, "libfake_nccl.so")], [program])
            self.assert_code(launcher, 0)
            lines = launcher.await_lines(r"rank (\d) id ([0-9a-f]{256})$", 4)
            self.assertEqual(sorted(m[1] for m in lines), list("0123"))
            self.assertEqual(len({m[2] for m in lines}), 1)
            ids.append(lines[0][2])
        self.assertNotEqual(*ids)


# Replaces apptainer, which Debian does not have. The command after the image
# sees the files as in apptainer, in its own mount namespace and root.
APPTAINER = """#!/bin/sh
test "$1" = exec && shift
test "$1" != --bind || { bind=$2; shift 2; }
export bind
exec unshare --mount sh -c '
  root=$(mktemp -d /run/root.XXXXXX)
  mount -t tmpfs tmpfs $root
  for at in /bin /dev /etc /lib /lib64 /proc /tmp /usr $bind; do
    mkdir -p $root$at && mount --rbind $at $root$at
  done
  shift
  exec chroot $root "$@"' sh "$@"
"""
CONTAINED = """
trap 'echo told to stop; exit 0' TERM
test -s $ROLLCALL_WORLD_FILE && test -S $ROLLCALL_SOCKET && echo sees its files
test -d /var && echo sees the folders of the host
grep -c contained.rollcall /etc/hosts
setsid cat $0 &
echo up
wait
"""


class Contained(E2E):
    """Ranks in containers that share the agent's processes, not its files."""

    def begin(self, options=()):
        path = self.stage.path("apptainer")
        with open(path, "w", encoding="ascii",
                  opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write(APPTAINER)
        self.gate = Gate(self.stage)
        self.lab = Lab(self.stage, 1)
        launcher = self.lab.start(1, [
            "sh", "-c", 'mkdir -m 700 $XDG_RUNTIME_DIR && exec "$@"', "sh",
            harness.ROLLCALL, "launch", "--job", "contained", "--", path,
            "exec", *options, "image.sif", "sh", "-c", CONTAINED,
            self.gate.path], {"XDG_RUNTIME_DIR": "/run/mine"})
        launcher.await_line(r"\] up$")
        self.assertIsNone(launcher.find("sees the folders"))
        self.assertIsNotNone(launcher.find(r"\] 1$"))
        return launcher

    def test_the_folder_that_is_missing_is_named(self):
        launcher = self.begin()
        self.assertIsNone(launcher.find("sees its files"))
        launcher.await_line(r"WARNING.*apptainer exec --bind /run/mine ")
        os.kill(launcher.inner_pid(), signal.SIGINT)
        self.assert_code(launcher, 130)

    def test_signals_and_the_end_of_its_agent(self):
        launcher = self.begin(["--bind", "/run/mine"])
        self.assertIsNotNone(launcher.find("sees its files"))
        os.kill(launcher.inner_pid(), signal.SIGINT)
        launcher.await_line("told to stop")
        self.assert_code(launcher, 130)
        # A disk with little free space gives a warning as well.
        self.assertIsNone(launcher.find("WARNING(?!.* free of )"),
                          launcher.text())
        self.assertEqual(self.lab.processes(1), [])

    def test_a_killed_agent_leaves_no_process(self):
        launcher = self.begin(["--bind", "/run/mine"])
        (agent,) = proc.subcommands(self.lab.processes(1), "agent")
        os.kill(agent, signal.SIGKILL)

        def left():
            return [words for words in map(proc.command_line,
                                           self.lab.processes(1))
                    if self.gate.path in words]
        self.stage.pump(lambda: len(left()) == 1, f"the end of {left()}")
        os.kill(launcher.inner_pid(), signal.SIGTERM)
        launcher.wait()


class Jax(E2E):
    def run_four(self, *command):
        python = os.path.join(ENVIRONMENTS, "jax", "bin", "python3")
        if not os.access(python, os.X_OK):
            self.skipTest(f"NOT TESTED: there is no {python} here; scripts/"
                          "packages.sh programs makes it")
        launcher = self.launch(
            ["--local-workers", "3", "--max-restarts", "0"],
            [python, *command],
            {"JAX_PLATFORMS": "cpu",
             "PYTHONPATH": os.path.join(harness.PROJECT, "client", "python")})
        self.assert_code(launcher, 0)
        return launcher

    def check(self, *arguments):
        launcher = self.run_four(f"{INTEROP}/jax_rank.py", *arguments)
        found = launcher.await_lines(r"jax (\d) of 4 total 10$", 4)
        self.assertEqual(sorted(m[1] for m in found), list("0123"))

    def test_initialize(self):
        self.check()

    def test_initialize_without_arguments(self):
        self.check("cluster")

    def test_the_spec(self):
        launcher = self.run_four(os.path.join(
            harness.PROJECT, "specs", "jax", "data_parallel.py"), "60")
        found = launcher.await_lines(
            r"rank (\d) of 4: step 60, loss 0\.000\d+$", 4)
        self.assertEqual(sorted(m[1] for m in found), list("0123"))


class DeepSpeed(E2E):
    """Runs DeepSpeed's own launcher on node rank 0; it starts its ranks on all
    hosts by pdsh and ssh."""

    def begin(self):
        self.python = os.path.join(ENVIRONMENTS, "deepspeed", "bin", "python3")
        if not os.access(self.python, os.X_OK):
            self.skipTest(f"NOT TESTED: there is no {self.python} here; "
                          "scripts/packages.sh programs makes it")
        self.gate = Gate(self.stage)
        self.lab = Lab(self.stage, 2)
        self.sshd = Sshd(self.stage, self.lab, (1, 2))
        os.mkdir(self.stage.path("bin"))
        with open(self.stage.path("bin/ssh"), "w", encoding="ascii",
                  opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write(f'#!/bin/sh\nexec /usr/bin/{self.sshd.ssh} "$@"\n')
        # DeepSpeed passes variables to other hosts only from this file.
        with open(self.stage.path(".deepspeed_env"), "w",
                  encoding="ascii") as f:
            f.write("GLOO_SOCKET_IFNAME=eth0\n")
        command = ["sh", "-c", f"PATH={self.stage.path('bin')}:$PATH exec "
                   f"{self.python} -m deepspeed.launcher.runner "
                   "--hostfile $ROLLCALL_HOSTFILE --master_port $MASTER_PORT "
                   f"{INTEROP}/gloo_rank.py {self.gate.path}"]
        launcher = self.lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "2", "--nproc-per-node",
            "2", "--once", "--max-restarts", "0", "--", *command])
        self.lab.start(2, [harness.ROLLCALL, "join",
                           self.join_string(launcher), "--nproc-per-node",
                           "2", "--once", "--", *command])
        found = launcher.await_lines(r"gloo (\d) of 4 local (\d) total 10", 4)
        self.assertEqual(sorted((int(m[1]), int(m[2])) for m in found),
                         [(0, 0), (1, 1), (2, 0), (3, 1)])
        return launcher

    def test_it_starts_the_slots_of_the_hostfile(self):
        launcher = self.begin()
        self.gate.open()
        self.assert_code(launcher, 0)

    def test_ctrl_c_ends_it_on_all_hosts(self):
        launcher = self.begin()
        os.kill(launcher.inner_pid(), signal.SIGINT)
        self.assert_code(launcher, 130)
        self.stage.pump(lambda: not self.of_deepspeed(),
                        f"the end of {self.of_deepspeed()}")

    def of_deepspeed(self):
        found = [proc.command_line(pid) for host in (1, 2)
                 for pid in self.lab.processes(host)]
        return [words for words in found if words[:1] == [self.python]]
