"""Facts of a node that change while its agent attends."""
import os
import re
import signal

from facts_test import NVML
from harness import (BIN, E2E, Gate, Lab, PROJECT, ROLLCALL, command_line,
                     nodes_by_name)


class FactWatch(E2E):
    def begin(self, flags=(), env=None):
        """Starts a run of one rank on lab1. It exits with 3 once the gate
        opens."""
        self.gate = Gate(self.stage)
        self.launcher = self.lab.start(1, [
            ROLLCALL, "launch", "--job", "watched", "--no-hosts",
            "--max-restarts", "0", *flags, "--", "sh", "-c",
            f"cat {self.gate.path}; exit 3"], env)

    def await_sources(self, *sources):
        """Waits until these sources are watched: until then, a change is not
        noticed as one. Their threads tell by their names; no event does."""
        for source in sources:
            self.assert_code(self.lab.run(1, [
                "sh", "-c", f"until grep -qsx {source} "
                "/proc/[0-9]*/task/[0-9]*/comm; do :; done"]), 0)

    def await_changes(self, *expected):
        """Waits until lab1 has these changes, as (kind, subject, after)."""
        def has(state):
            seen = [(c["kind"], c["subject"], c["after"]) for c in
                    nodes_by_name(state)["lab1"]["changes"]]
            return all(any(change[:2] == one[:2] and change[2] in one[2]
                           for one in seen) for change in expected)
        return self.await_watched(
            [ROLLCALL, "status", "--job", "watched"],
            lambda state: state["nodes"] and has(state), str(expected),
            start=lambda argv: self.lab.start(1, argv))

    def ip(self, *words):
        self.assert_code(self.lab.run(1, ["ip", *words]), 0)

    def add_interface(self):
        """Adds x0, which is up and has no carrier, since its peer is down."""
        self.ip("link", "add", "x0", "type", "veth", "peer", "name", "x1")
        self.ip("link", "set", "x0", "up")

    def test_interfaces_and_space_and_the_root_cause(self):
        self.lab = Lab(self.stage, 1)
        folder = self.stage.path("checkpoints")
        os.mkdir(folder)
        self.assert_code(self.lab.run(1, [
            "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]), 0)
        self.add_interface()
        self.begin(["--folder", folder])
        self.await_sources("links", "folder")
        self.ip("link", "set", "x0", "down")
        self.ip("link", "set", "x0", "up")
        self.assert_code(self.lab.run(1, [
            "dd", "if=/dev/zero", f"of={folder}/full", "bs=512K", "count=31"
        ]), 0)
        state = self.await_changes(
            ("interface", "interface x0", "down"),
            ("interface", "interface x0", "no carrier"),
            ("disk_space", f"folder {folder}"[:128], "free ("))
        changes = nodes_by_name(state)["lab1"]["changes"]
        self.assertEqual([(c["before"], c["after"], c["count"])
                          for c in changes if c["kind"] == "interface"],
                         [("no carrier", "down", 1), ("down", "no carrier", 1)])
        # A full folder is named once, until it recovers.
        self.assertEqual(len([c for c in changes
                              if c["kind"] == "disk_space"]), 1)
        table = self.lab.run(1, [ROLLCALL, "status", "--job", "watched"])
        self.assertTrue(table.find(
            r"^changed \d+ s ago: lab1: interface x0: no carrier -> down$"))
        self.gate.open()
        self.assert_code(self.launcher, 3)
        self.assertTrue(self.launcher.find(
            r"rank 0 on lab1 exited with code 3; changes on lab1: .*"
            r"interface x0: down -> no carrier \d+ s before"))

    def test_a_disk_that_fills_is_named_before_a_checkpoint_fails(self):
        self.lab = Lab(self.stage, 1)
        folder = self.stage.path("full")
        os.mkdir(folder)
        self.assert_code(self.lab.run(1, [
            "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]), 0)
        gate = Gate(self.stage)
        launcher = self.lab.start(1, [
            ROLLCALL, "launch", "--job", "watched", "--no-hosts",
            "--max-restarts", "0", "--folder", folder, "--", "sh", "-c",
            'cat "$0"; exec "$@"', gate.path,
            os.path.join(BIN, "rollcall-train"), "--data",
            "/usr/share/common-licenses/GPL-3", "--steps", "40", "--batch", "4",
            "--layers", "1", "--heads", "2", "--width", "64", "--context", "32",
            "--save-every", "10", "--checkpoints", folder])
        self.await_sources("folder")
        # Too little is left for a checkpoint.
        self.assert_code(self.lab.run(1, [
            "dd", "if=/dev/zero", f"of={folder}/full", "bs=64K", "count=254"
        ]), 0)
        subject = f"folder {folder}"[:128]
        self.await_changes(("disk_space", subject, "free ("))
        log = self.lab.run(1, [ROLLCALL, "status", "--job", "watched",
                               "--events"])
        self.assertTrue(log.find(
            "fact_changed.*" + re.escape(subject) +
            r": 16 MiB free \(\d+%\) -> .* free \(0%\)"), log.text())
        self.assertFalse(launcher.find("checkpoint not written"))
        gate.open()
        self.assert_code(launcher, 1)
        self.assertTrue(launcher.find(
            r"checkpoint not written: .*No space left on device"))
        self.assertTrue(launcher.find(
            r"rank 0 on lab1 exited with code 1; changes on lab1: "
            + re.escape(subject) + r": .* -> .* free \(0%\) \d+ s before"))

    def test_an_interface_that_flaps_is_counted(self):
        self.lab = Lab(self.stage, 1)
        self.add_interface()
        self.begin()
        self.await_sources("links")
        for _ in range(10):
            self.ip("link", "set", "x0", "down")
            self.ip("link", "set", "x0", "up")

        def counted(state):
            changes = nodes_by_name(state)["lab1"]["changes"]
            return sum(c["count"] for c in changes) == 20 and changes
        state = self.await_watched(
            [ROLLCALL, "status", "--job", "watched"], counted, "20 changes",
            start=lambda argv: self.lab.start(1, argv))
        changes = nodes_by_name(state)["lab1"]["changes"]
        self.assertLess(len(changes), 8, changes)
        self.assertEqual(changes[-1]["after"], "no carrier")

    def test_what_nvml_reports(self):
        self.lab = Lab(self.stage, 1)
        fifo = self.stage.path("events")
        os.mkfifo(fifo)
        self.begin(["--nvml-lib", NVML],
                   {"FAKE_NVML": f"events={fifo};chatter=1"})
        self.await_sources("gpus")
        # Open for reading as well, so that it does not wait for the fake.
        with os.fdopen(os.open(fifo, os.O_RDWR), "w") as events:
            events.write("xid 3 79\nxid 3 45\nxid 3 45\nclocks 5 0x48\necc 6 9\n")
            events.flush()
            self.await_changes(
                ("xid", "GPU 3 Xid 79", "occurred"),
                ("throttle", "GPU 5 clocks", "hw_slowdown, hw_thermal"),
                ("ecc", "GPU 6 uncorrectable ECC errors", "9"))
        self.gate.open()
        self.assert_code(self.launcher, 3)
        self.assertTrue(self.launcher.find(r"GPU 3 Xid 79: occurred"))

    def test_an_rdma_port_that_goes_down(self):
        self.lab = Lab(self.stage, 1)
        root = self.stage.path("machine")
        self.assert_code(self.stage.run([
            os.path.join(BIN, "sysfs_tree"),
            os.path.join(PROJECT, "tests", "facts", "dgx_h100.txt"), root]), 0)
        self.begin(["--sysroot", root])
        self.await_sources("ports")
        port = os.path.join(root, "sys/class/infiniband/mlx5_3/ports/1")
        with open(os.path.join(port, "state"), "w", encoding="ascii") as f:
            f.write("1: DOWN\n")
        self.await_changes(("rdma_port", "RDMA port mlx5_3/1", "DOWN"))
        self.gate.open()
        self.assert_code(self.launcher, 3)

    def ends_only_its_own_watch(self, fate):
        self.lab = Lab(self.stage, 1)
        self.add_interface()
        self.begin(["--nvml-lib", NVML],
                   {"FAKE_NVML": f"nvmlEventSetCreate={fate}"})
        self.await_sources("links")
        self.ip("link", "set", "x0", "down")
        self.await_changes(("interface", "interface x0", "down"))

    def test_a_library_that_crashes_is_named(self):
        self.ends_only_its_own_watch("crash")
        self.launcher.await_line(
            "errors and clocks of this node's GPUs are not watched any more: "
            r"the process that asks NVML ended by signal \d+$")
        self.assertFalse(self.launcher.find("facts are not watched"))
        self.gate.open()
        self.assert_code(self.launcher, 3)

    def test_a_library_that_hangs(self):
        self.ends_only_its_own_watch("hang")
        self.assertFalse(self.launcher.find("not watched"))
        self.gate.open()
        self.assert_code(self.launcher, 3)

    def test_a_watch_that_ends_is_named_and_ends_nothing_else(self):
        self.lab = Lab(self.stage, 1)
        self.begin()
        self.await_sources("links")
        (watch,) = [pid for pid in self.lab.processes(1)
                    if "--watch" in command_line(pid)]
        os.kill(watch, signal.SIGKILL)
        self.launcher.await_line(
            "changes of this node's facts are not watched any more: it ended "
            "by signal 9")
        self.gate.open()
        self.assert_code(self.launcher, 3)
