"""Tests what a node reports of its devices, by command and to the daemon.

The machines are those of tests/facts, made below a folder; libibverbs and NVML
are the fakes of tests/fakes. Other nodes see a node's devices in the world
file.
"""
import glob
import json
import os
import signal

import harness
from harness import E2E, PROJECT

FAKES = os.path.join(harness.BIN, "fakes")
VERBS = os.path.join(FAKES, "libibverbs.so.1")
NVML = os.path.join(FAKES, "libnvidia-ml.so.1")


class Facts(E2E):
    def machine(self, name):
        root = self.stage.path(name)
        made = self.stage.run(
            [os.path.join(harness.BIN, "sysfs_tree"),
             os.path.join(PROJECT, "tests", "facts", name + ".txt"), root])
        self.assert_code(made, 0)
        return root

    def facts(self, *flags, env=None):
        asked = self.stage.run([harness.ROLLCALL, "facts", "--json", *flags],
                               env=env)
        self.assert_code(asked, 0)
        return json.loads("\n".join(asked.out()))

    def test_a_machine_with_eight_of_each(self):
        facts = self.facts("--sysroot", self.machine("dgx_h100"),
                           "--verbs-lib", VERBS, "--nvml-lib", NVML)
        self.assertEqual([p["device"] for p in facts["infiniband"]],
                         [f"mlx5_{i}" for i in range(8)])
        self.assertTrue(all("unusable" not in p for p in facts["infiniband"]))
        self.assertEqual([g["near_hcas"] for g in facts["gpus"]],
                         [[f"mlx5_{i}"] for i in range(8)])
        self.assertEqual(facts["gpu_count"], 8)
        self.assertTrue(facts["interfaces"])

    def test_a_library_that_crashes_is_named(self):
        facts = self.facts(
            "--sysroot", self.machine("dgx_h100"), "--verbs-lib", VERBS,
            env={"FAKE_VERBS": "ibv_open_device@mlx5_6=crash"})
        bad = [p["device"] for p in facts["infiniband"] if "unusable" in p]
        self.assertEqual(bad, ["mlx5_6", "mlx5_7"])
        missing = {m["fact"]: m for m in facts["missing"]}
        self.assertIn(f"signal {signal.SIGABRT:d}",
                      missing["infiniband.mlx5_6"]["reason"])

    def test_what_this_machine_does_not_have_is_not_missing(self):
        facts = self.facts()
        missing = {m["fact"]: m["reason"] for m in facts.get("missing", [])}
        for part, shown in (("infiniband", "/sys/class/infiniband/*"),
                            ("gpus", "/proc/driver/nvidia/gpus/*")):
            if not facts.get(part) and part in missing:
                self.assertTrue(glob.glob(shown)
                                or "PCI device" in missing[part], missing)

    def test_wrong_flags_are_refused(self):
        for flags in (["--sysroot"], ["--what", "x"]):
            self.assert_code(
                self.stage.run([harness.ROLLCALL, "facts", *flags]), 2)

    def test_peers_learn_of_each_other_s_devices(self):
        flags = ["--sysroot", self.machine("roce_a")]
        launcher = self.launch(
            ["--nodes", "2", "--name", "a", *flags],
            ["sh", "-c", 'cat "$ROLLCALL_WORLD_FILE" > "world.$RANK"'])
        worker = self.join(
            self.join_string(launcher),
            ["--name", "b", "--sysroot", self.machine("roce_b")],
            ["sh", "-c", 'cat "$ROLLCALL_WORLD_FILE" > "world.$RANK"'])
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        paths = sorted(glob.glob(self.stage.path("world.*")))
        self.assertEqual(len(paths), 2)
        for path in paths:
            with open(path, encoding="utf-8") as f:
                nodes = {n["node"]: n for n in json.load(f)["nodes"]}
            for name, last in (("a", "::ffff:10.0.0.1"),
                               ("b", "::ffff:10.0.0.2")):
                ports = nodes[name]["infiniband"]
                self.assertEqual([p["device"] for p in ports],
                                 ["mlx5_0", "mlx5_1"])
                self.assertEqual(ports[0]["gid"]["address"], last)
