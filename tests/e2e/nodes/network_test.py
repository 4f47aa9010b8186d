"""Tests the network plan on hosts that differ: which address and which RDMA
ports it has, and what is reported if none fits."""
import json
import os
import re
import time

import harness
import wire
from harness import E2E, PROJECT, Gate, Lab

VERBS = os.path.join(harness.BIN, "fakes", "libibverbs.so.1")
# The fake library counts the port as down, as libibverbs does.
ONE_DOWN = ["env", "FAKE_VERBS=down=mlx5_5"]
CLOCK = os.path.join(harness.BIN, "libskewed_clock.so")

SHOW = ("python3 -c 'import json, os; print(\"world\", json.dumps(json.load("
        "open(os.environ[\"ROLLCALL_WORLD_FILE\"]))))'; "
        "env | grep -E '^(NCCL|UCX|GLOO)' | sort | tr '\\n' ' '"
        " | sed 's/^/plan /'; echo; ")


class Network(E2E):
    def begin(self, lab, flags=(), join_flags=(), listen="0.0.0.0:0",
              before=(), at=None):
        """Starts the launcher on lab1 and a worker on each other host. The
        workers use the join string's endpoints, or the address `at`."""
        self.gate = Gate(self.stage)
        command = ["sh", "-c", SHOW + f"cat {self.gate.path}"]
        self.launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--listen", listen, *flags, "--",
            *command])
        self.text = self.launcher.await_line(harness.JOIN_STRING.pattern)[0]
        if at is not None:
            join = wire.Join(self.text)
            join.endpoints = [f"{at}:{join.port()}"]
            self.text = join.text()
        self.workers = [
            lab.start(host, [*before, harness.ROLLCALL, "join", self.text,
                             *join_flags, "--", *command])
            for host in range(2, lab.hosts + 1)]

    def ask_status(self, lab, condition, what, *flags):
        """Returns the first state for which condition(state) holds."""
        until = time.monotonic() + harness.DEADLINE_S
        while time.monotonic() < until:
            asked = lab.run(1, [harness.ROLLCALL, "status", self.text,
                                "--json", *flags])
            if asked.code == 0:
                state = json.loads("\n".join(asked.out()))
                if condition(state):
                    return state
        self.stage.fail(f"asked in vain for {what}")

    def world(self, process):
        return json.loads(process.await_line(r"\] world (\{.*\})$")[1])

    def plan(self, process):
        words = process.await_line(r"\] plan (.*)$")[1].split()
        return dict(word.split("=", 1) for word in words)

    def ends(self):
        self.gate.open()
        for process in [self.launcher, *self.workers]:
            self.assert_code(process, 0)

    def machine(self, name):
        root = self.stage.path(name)
        if os.path.exists(root):
            return ["--sysroot", root, "--verbs-lib", VERBS]
        self.assert_code(self.stage.run(
            [os.path.join(harness.BIN, "sysfs_tree"),
             os.path.join(PROJECT, "tests", "facts", name + ".txt"), root]), 0)
        return ["--sysroot", root, "--verbs-lib", VERBS]

    def test_a_network_that_only_some_reach(self):
        """Each host has a docker0 with the same address, and an interface
        without a peer."""
        lab = Lab(self.stage, 3, docker=1)
        for host in (1, 2, 3):
            made = lab.run(host, ["sh", "-c", (
                "ip link add lost0 type veth peer name lost1 && "
                "ip link set lost0 up && ip link set lost1 up && "
                f"ip addr add 10.66.0.{host}/24 dev lost0 && "
                # It is not named like a bridge, and all hosts have its address.
                "ip link add same0 type veth peer name same1 && "
                "ip link set same0 up && ip link set same1 up && "
                "ip addr add 10.55.0.1/24 dev same0")])
            self.assert_code(made, 0)
        self.begin(lab, ["--nodes", "3", "--job", "partial"])
        for process in [self.launcher, *self.workers]:
            world = self.world(process)
            nodes = {n["node"]: n for n in world["nodes"]}
            for host in (1, 2, 3):
                node = nodes[f"lab{host}"]
                self.assertEqual(node["address"], f"10.77.0.{host}")
                self.assertEqual(node["hostname"], f"lab{host}")
                self.assertEqual(set(node["addresses"]),
                                 {f"10.77.0.{host}", f"fd77::{host}"})
            self.assertEqual(self.plan(process)["NCCL_SOCKET_IFNAME"], "=eth0")
        # Each host is told which of its interfaces no peer can reach.
        state = self.ask_status(lab, lambda s: s["state"] == "running",
                                "a world that runs")
        for node in state["nodes"]:
            self.assertRegex(
                node["reason"],
                r"^its peers do not reach it at lost0 10\.66\.0\.[123], "
                r"same0 10\.55\.0\.1 by TCP;")
        log = self.stage.path("state1", "rollcall", "partial", "daemon.log")
        with open(log, encoding="utf-8") as f:
            said = re.findall("event=warning node=lab2 .*lost0.*", f.read())
        self.assertEqual(len(said), 1, said)
        self.ends()

    def test_a_launcher_with_more_addresses_than_are_probed(self):
        """Other hosts connect to the address that they joined at."""
        lab = Lab(self.stage, 3)
        # The only reachable address comes last; only the join shows it.
        addresses = [f"10.201.{i}.1" for i in range(1, 9)] + ["10.77.0.1"]
        made = lab.run(1, ["sh", "-c", " && ".join(
            ["ip addr del 10.77.0.1/24 dev eth0"] +
            [f"ip addr add {a}/24 dev eth0" for a in addresses])])
        self.assert_code(made, 0)
        self.begin(lab, ["--nodes", "3"], at="10.77.0.1")
        for process in [self.launcher, *self.workers]:
            nodes = {n["node"]: n for n in self.world(process)["nodes"]}
            self.assertEqual(nodes["lab1"]["address"], "10.77.0.1")
        self.ends()

    def test_no_address_that_serves(self):
        lab = Lab(self.stage, 3)
        lab.cut_between([2], [3])
        self.begin(lab, ["--nodes", "3", "--join-timeout", "6s"])
        self.assert_code(self.launcher, 69)
        self.assertRegex(self.launcher.text(),
                         r"lab[23] cannot reach lab[23] at 10\.77\.0\.[23]")

    def test_a_newcomer_that_cannot_be_reached(self):
        """The newcomer ends no world. Once it is reachable, it gets a seat."""
        lab = Lab(self.stage, 3)
        lab.cut_between([2], [3])
        self.begin(lab, ["--nodes", "2:3", "--ping-interval", "2s"])
        # The spare is the one of lab2 and lab3 that came later.
        state = self.ask_status(
            lab, lambda s: s["state"] == "running" and any(
                "cannot reach" in n["reason"] for n in s["nodes"]),
            "a spare that is not reached")
        self.assertEqual((state["generation"], state["world_size"]), (1, 2))
        spare, = [n for n in state["nodes"] if n["state"] == "spare"]
        self.assertRegex(spare["reason"],
                         r"lab[23] cannot reach lab[23] at 10\.77\.0\.[23]")
        lab.fault("heal")
        state = self.ask_status(
            lab, lambda s: s["state"] == "running" and s["world_size"] == 3,
            "a world of three")
        self.assertEqual(state["generation"], 2)
        self.ends()

    def test_a_node_that_gets_another_address(self):
        """Its agent keeps running; the next world has the new address."""
        lab = Lab(self.stage, 2)
        self.begin(lab, ["--nodes", "2"])
        self.assertEqual([n["address"] for n in
                          self.world(self.launcher)["nodes"]],
                         ["10.77.0.1", "10.77.0.2"])
        self.assert_code(lab.run(2, [
            "sh", "-c", "ip -4 addr flush dev eth0 && "
            "ip addr add 10.77.0.77/24 dev eth0"]), 0)
        second = self.launcher.await_lines(r"\] world (\{.*\})$", 2)[1][1]
        self.assertEqual([n["address"] for n in json.loads(second)["nodes"]],
                         ["10.77.0.1", "10.77.0.77"])
        self.ends()

    def test_pings(self):
        lab = Lab(self.stage, 3)
        self.begin(lab, ["--nodes", "3", "--ping-interval", "2s"])
        for process in [self.launcher, *self.workers]:
            self.world(process)

        def pings(condition, what):
            return self.ask_status(
                lab, lambda s: condition(s["pings"]), what,
                "--pings")["pings"]

        first = pings(lambda p: p["pairs"] == 6, "six pairs")
        self.assertEqual(first["unreached"], 0)
        self.assertEqual(
            {(p["from"], p["to"]) for p in first["pings"]},
            {(a, b) for a in range(3) for b in range(3) if a != b})
        self.assertTrue(all(0 < p["ms"] < 2000
                            for p in first["pings"]), first)
        lab.cut_between([2], [3])
        cut = pings(lambda p: p["unreached"] == 2, "the pair that is cut")
        self.assertEqual({(p["from"], p["to"]) for p in cut["pings"]
                          if not p["reached"]}, {(1, 2), (2, 1)})
        table = lab.run(1, [harness.ROLLCALL, "status", self.text, "--pings"])
        self.assertRegex(table.text(), r"\n1 +lab2 +[0-9.]+ +- +none\n")
        self.assertRegex(table.text(), r"lab3 does not reach lab2 \(")
        # The cut between two nodes did not disturb the world.
        state = self.ask_status(lab, lambda s: True, "the state")
        self.assertEqual((state["state"], state["generation"]),
                         ("running", 1))
        lab.fault("heal")
        pings(lambda p: p["unreached"] == 0, "all pairs again")
        self.ends()

    def test_ipv6_alone(self):
        lab = Lab(self.stage, 2)
        for host in (1, 2):
            self.assert_code(lab.run(
                host, ["ip", "-4", "addr", "flush", "dev", "eth0"]), 0)
        self.begin(lab, ["--nodes", "2"], listen="[::]:0")
        for process in [self.launcher, *self.workers]:
            world = self.world(process)
            self.assertEqual([n["address"] for n in world["nodes"]],
                             ["fd77::1", "fd77::2"])
            self.assertEqual(world["master_addr"], "fd77::1")
        self.ends()

    def test_a_rail_that_one_node_lacks(self):
        lab = Lab(self.stage, 2)
        self.begin(lab, ["--nodes", "2", *self.machine("dgx_h100")],
                   self.machine("seven_of_eight"), before=ONE_DOWN)
        rails = [0, 1, 2, 3, 4, 6, 7]
        plan = self.plan(self.launcher)
        self.assertEqual(plan["NCCL_IB_HCA"],
                         "=" + ",".join(f"mlx5_{i}:1" for i in rails))
        self.assertNotIn("NCCL_IB_HCA", self.plan(self.workers[0]))
        world = self.world(self.workers[0])
        for node in world["nodes"]:
            found = {p["device"]: p["rail"] for p in node["infiniband"]
                     if p["rail"] is not None}
            self.assertEqual(found, {f"mlx5_{device}": rail
                                     for rail, device in enumerate(rails)})
            self.assertTrue(all(p["gid"]["address"].startswith("fe80:")
                                for p in node["infiniband"]
                                if p["rail"] is not None))
        state = self.ask_status(lab, lambda s: s["differences"], "differences")
        ports, = [d for d in state["differences"]
                  if d["fact"] == "active RDMA ports"]
        self.assertEqual(
            [(side["value"], side["nodes"]) for side in ports["sides"]],
            [("8 InfiniBand", ["lab1"]),
             ("7 InfiniBand; mlx5_5:1 DOWN", ["lab2"])])
        table = lab.run(1, [harness.ROLLCALL, "status", self.text])
        self.assertRegex(table.text(), r"7 InfiniBand; mlx5_5:1 DOWN +lab2")
        self.ends()

    def test_what_is_wrong_with_a_node_is_named(self):
        """lab2 really has a small /dev/shm, a low limit of locked memory and a
        wrong clock."""
        lab = Lab(self.stage, 2)
        self.assert_code(lab.run(
            2, ["mount", "-o", "remount,size=16m", "/dev/shm"]), 0)
        self.begin(lab, ["--nodes", "1:2", "--grow", "boundary",
                         *self.machine("dgx_h100")],
                   self.machine("dgx_h100"),
                   before=["prlimit", "--memlock=65536",
                           # With CAP_IPC_LOCK the limit would not apply.
                           "setpriv", "--bounding-set=-ipc_lock", "env",
                           f"LD_PRELOAD={CLOCK}", "SKEW_S=40"])
        state = self.ask_status(
            lab, lambda s: len(s["differences"]) >= 3, "three differences")
        found = {d["fact"]: d["sides"][1] for d in state["differences"]}
        self.assertEqual(found["/dev/shm"]["value"], "16 MiB")
        self.assertEqual(found["memlock limit"]["value"], "64 KiB")
        self.assertRegex(found["clock"]["value"],
                         r"^(39|40) s ahead of the daemon$")
        self.assertEqual({side["nodes"][0] for side in found.values()},
                         {"lab2"})
        self.ends()

    def test_strict(self):
        lab = Lab(self.stage, 2)
        self.begin(lab, ["--nodes", "1:2", "--preflight", "strict",
                         *self.machine("dgx_h100")],
                   self.machine("seven_of_eight"), before=ONE_DOWN)
        state = self.ask_status(
            lab, lambda s: s["state"] == "running" and any(
                n["node"] == "lab2" and n["state"] == "spare"
                and "mlx5_5:1 DOWN" in n["reason"] for n in s["nodes"]),
            "lab2 as a spare, and why")
        self.assertEqual(state["world_size"], 1)
        self.ends()
