"""Tests rollcall as the entry point of containers: podman with runc, no image.

The root file system has a busybox and the release's rollcall, which needs this
machine's C library.
"""
import os
import shutil
import subprocess

import harness
from harness import E2E, Gate

NEEDS = ("podman", "runc", "catatonit", "busybox")


class Podman(E2E):
    def setUp(self):
        super().setUp()
        lacking = [name for name in NEEDS if shutil.which(name) is None]
        if lacking or os.geteuid() != 0:
            self.skipTest(f"NOT TESTED: needs root and {', '.join(NEEDS)}; "
                          "scripts/packages.sh programs installs them")
        self.root = self.stage.path("root")
        for name in ("bin", "dev", "etc", "lib64", "proc", "run", "sys", "tmp",
                     "var"):
            os.makedirs(os.path.join(self.root, name))
        os.chmod(os.path.join(self.root, "tmp"), 0o1777)
        shutil.copy(shutil.which("busybox"), os.path.join(self.root, "bin"))
        for name in ("sh", "cat", "ps"):
            os.symlink("busybox", os.path.join(self.root, "bin", name))
        shutil.copy(harness.ROLLCALL, os.path.join(self.root, "bin"))
        self.copy_libraries()
        self.podman = ["podman", "--root", self.stage.path("store"),
                       "--runroot", self.stage.path("runroot"),
                       "--storage-driver", "vfs", "--cgroup-manager",
                       "cgroupfs", "--runtime", "runc"]
        self.addCleanup(subprocess.run, [*self.podman, "rm", "-f", "-a", "-t",
                                         "0"], stdout=subprocess.DEVNULL)
        probe = self.stage.run(self.words("probe", [], ["cat", "/dev/null"]))
        if probe.code != 0:
            self.skipTest(f"NOT TESTED: podman cannot run here: {probe.text()}")

    def copy_libraries(self):
        listed = subprocess.run(["ldd", harness.ROLLCALL], check=True,
                                text=True, stdout=subprocess.PIPE).stdout
        for word in listed.split():
            if word.startswith("/"):
                to = self.root + word
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy(word, to)

    def words(self, name, flags, command):
        # podman would raise these limits, which not every machine allows.
        return [*self.podman, "run", "--rm", "--init", "--name", name,
                "--hostname", name, "--network", "host",
                "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
                *flags, "--rootfs", self.root, *command]

    def contain(self, name, flags, command):
        return self.stage.start(self.words(name, flags, command))

    def inside(self, name):
        """Returns the command lines in that container."""
        listed = self.stage.run([*self.podman, "exec", name, "ps"])
        self.assertEqual(listed.code, 0, listed.text())
        return "\n".join(listed.out())

    def test_two_containers_are_two_nodes(self):
        gate = Gate(self.stage)
        share = ["-v", f"{gate.path}:/gate"]
        command = ["--", "sh", "-c", "cat /etc/hosts; echo rank $RANK of "
                   "$WORLD_SIZE on $ROLLCALL_NODE; exec cat /gate"]
        launcher = self.contain("first", share, [
            "rollcall", "launch", "--job", "boxes", "--nodes", "2", *command])
        worker = self.contain("second", share, [
            "rollcall", "join", self.join_string(launcher), *command])
        launcher.await_line("rank 0 of 2 on first$")
        worker.await_line("rank 1 of 2 on second$")
        # The hosts file is a bind mount, as in every container.
        for process in (launcher, worker):
            for rank in (0, 1):
                process.await_line(rf"\] \S+ .*node-{rank}\.boxes\.rollcall$")
        self.assertIn("podman-init", self.inside("second"))

        stopped = self.stage.run([*self.podman, "stop", "--time", "45",
                                  "first"])
        self.assertEqual(stopped.code, 0, stopped.text())
        for process in (launcher, worker):
            self.assert_code(process, 75)

    def test_doctor_names_a_flag_that_is_missing(self):
        for flags, small in (([], True), (["--shm-size", "1g"], False)):
            told = self.stage.run(self.words("doctor", flags,
                                             ["rollcall", "doctor"]))
            self.assertIsNotNone(told.find("^nofile|warning +nofile"))
            self.assertEqual(told.find("--shm-size=1g") is not None, small,
                             told.text())
