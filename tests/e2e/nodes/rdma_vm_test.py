"""Compares what rollcall reports of a real verbs device with `ibv_devinfo -v`.

The device is soft-RoCE of a kernel in a virtual machine (rdma_vm.py), because
the kernels that tests run on seldom have RDMA. Two machines agree on a plan;
their ranks take device, port and GID from it and exchange data over verbs.
"""
import ipaddress
import json
import re
import socket
import unittest

import harness
import rdma_vm
from harness import E2E

PHYSICAL_STATES = {"POLLING": "Polling", "DISABLED": "Disabled",
                   "LINK_UP": "LinkUp"}


def ports_of_devinfo(lines):
    """Maps (device, port) to the output of `ibv_devinfo -v`, in our words."""
    ports, firmware = {}, ""
    for line in lines:
        match = re.match(r"\s*([\w ]+(?:\[ *\d+\])?):\s*(.*?)\s*$", line)
        if match is None:
            continue
        key, value = match.groups()
        if key == "hca_id":
            device, firmware = value, ""
        elif key == "fw_ver":
            firmware = value
        elif key == "port":
            port = ports[device, int(value)] = {
                "firmware": firmware, "gids": []}
        elif key == "state":
            port["state"] = value.split()[0].removeprefix("PORT_")
        elif key == "phys_state":
            word = value.split(" (")[0]
            port["phys_state"] = PHYSICAL_STATES.get(word, word)
        elif key == "link_layer":
            port["link_layer"] = value
        elif key == "active_mtu":
            port["active_mtu"] = int(value.split()[0])
        elif key == "active_width":
            lanes = int(value.split("X")[0])
        elif key == "active_speed":
            port["rate_gbps"] = int(lanes * float(value.split()[0]))
        elif key.startswith("GID"):
            address, kind = value.split(", ")
            port["gids"].append({
                "index": int(key[4:-1]), "type": kind,
                "address": ipaddress.IPv6Address(address)})
    return ports


def ports_of_facts(facts):
    """The same map from `rollcall facts --json`, which omits 0 and ""."""
    return {
        (port["device"], port["port"]): {
            "firmware": port.get("firmware", ""),
            "state": port.get("state", ""),
            "phys_state": port.get("phys_state", ""),
            "link_layer": port.get("link_layer", ""),
            "active_mtu": port.get("active_mtu", 0),
            "rate_gbps": port.get("rate_gbps", 0),
            "gids": [{"index": gid.get("index", 0), "type": gid["type"],
                      "address": ipaddress.IPv6Address(gid["address"])}
                     for gid in port.get("gids", [])]}
        for port in facts.get("infiniband", [])}


class Comparing(unittest.TestCase):
    """The comparison notices a change of each field; needs no machine."""

    DEVINFO = """\
hca_id:\trxe0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t1.2
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tlink_layer:\t\tEthernet
\t\t\tactive_width:\t\t1X (1)
\t\t\tactive_speed:\t\t2.5 Gbps (1)
\t\t\tphys_state:\t\tLINK_UP (5)
\t\t\tGID[  1]:\t\t::ffff:10.0.0.1, RoCE v2
""".split("\n")
    FACTS = {
        "device": "rxe0", "port": 1, "firmware": "1.2", "state": "ACTIVE",
        "phys_state": "LinkUp", "link_layer": "Ethernet", "active_mtu": 1024,
        "rate_gbps": 2, "gids": [{"index": 1, "type": "RoCE v2",
                                  "address": "::ffff:10.0.0.1"}]}
    OTHER = {
        "device": "rxe1", "port": 2, "firmware": "1.3", "state": "DOWN",
        "phys_state": "Polling", "link_layer": "InfiniBand",
        "active_mtu": 4096, "rate_gbps": 10}
    OTHER_GIDS = [{"index": 0}, {"type": "RoCE v1"}, {"address": "fe80::1"}]

    def test_each_field_counts(self):
        said = ports_of_devinfo(self.DEVINFO)
        self.assertEqual(ports_of_facts({"infiniband": [self.FACTS]}), said)
        changed = [dict(self.FACTS, **{key: value})
                   for key, value in self.OTHER.items()]
        changed += [dict(self.FACTS, gids=[dict(self.FACTS["gids"][0], **gid)])
                    for gid in self.OTHER_GIDS]
        for port in changed + [dict(self.FACTS, gids=[])]:
            self.assertNotEqual(ports_of_facts({"infiniband": [port]}), said)
        self.assertNotEqual(ports_of_facts({}), said)


class InMachines(E2E):
    maxDiff = None

    def setUp(self):
        if not rdma_vm.is_there():
            self.skipTest(rdma_vm.NOT_TESTED)
        super().setUp()

    def _formatMessage(self, msg, standardMsg):
        # A failure can only be understood with the output of the machines.
        return (super()._formatMessage(msg, standardMsg)
                + self.stage.transcript())

    def assert_ends(self, machine):
        """Asserts that the machine's script ended and it powered off."""
        self.assert_code(machine, 0, rdma_vm.BOOT_S)

    def facts(self, machine, label="facts"):
        told = rdma_vm.section(machine, label)
        if told.status != 0:
            self.stage.fail(f"rollcall facts exited with {told.status}")
        return json.loads("\n".join(told.out))

    def findings(self, machine, label="doctor"):
        """Maps each check to its findings in `doctor --json`."""
        told = rdma_vm.section(machine, label)
        said = json.loads("\n".join(told.out))
        self.assertEqual(said["exit_code"], told.status)
        found = {}
        for finding in said["findings"]:
            found.setdefault(finding["check"], []).append(finding)
        return found

    def missing(self, facts, fact):
        found, = [m for m in facts["missing"] if m["fact"] == fact]
        return found

    def the_same(self, machine, label=""):
        """Asserts that facts and devinfo agree; returns the ports."""
        told = rdma_vm.section(machine, label + "devinfo")
        ports = ports_of_devinfo(told.out)
        self.assertEqual(
            ports_of_facts(self.facts(machine, label + "facts")), ports)
        return ports


# `ask LABEL` prints the reports of rollcall and of libibverbs' own program. The
# doctor waits two seconds in all, in which the emulated processor may not have
# finished beside other tests; then it is asked again.
ASK = """
ask_doctor() {
  for _ in 1 2 3 4 5; do
    rollcall doctor --json >/tmp/doctor
    code=$?
    grep -q "no answer within" /tmp/doctor || break
  done
  cat /tmp/doctor
  return $code
}
ask() {
  report $1facts rollcall facts --json
  report $1doctor ask_doctor
  report $1devinfo ibv_devinfo -v
}
"""


class OneMachine(InMachines):
    def boot(self, script):
        return rdma_vm.boot(self.stage, "lone", ASK + script)

    def test_a_kernel_without_rdma(self):
        machine = self.boot("""
            load network
            $ip addr add 10.5.0.1/24 dev dummy0
            $ip link set dummy0 up
            ask
            load rdma
            ask loaded_
            """)
        self.assertIn("Function not implemented",
                      rdma_vm.section(machine, "devinfo").err[0])
        facts = self.facts(machine)
        self.assertNotIn("infiniband", facts)
        # "infiniband" is not missing: rollcall knows that there is none.
        self.assertNotIn("infiniband",
                         [m["fact"] for m in facts.get("missing", [])])
        dummy, = [i for i in facts["interfaces"] if i["name"] == "dummy0"]
        self.assertEqual(dummy["addresses"][0]["address"], "10.5.0.1")
        found = self.findings(machine)
        self.assertEqual(found["hca-usable"][0]["severity"], "not applicable")
        self.assertEqual(found["address"][0]["severity"], "ok", found)
        # The modules are loaded, but there is still no device.
        facts = self.facts(machine, "loaded_facts")
        self.assertNotIn("infiniband", facts)
        self.assertNotIn("infiniband",
                         [m["fact"] for m in facts.get("missing", [])])
        self.assert_ends(machine)

    def test_each_field_is_that_of_libibverbs(self):
        """Two devices; the second is on an interface with large frames."""
        machine = self.boot("""
            load network
            load rdma
            $ip link add dummy1 type dummy
            $ip link set dummy1 mtu 9000
            $ip addr add 10.5.0.1/24 dev dummy0
            $ip addr add 10.6.0.1/24 dev dummy1
            $ip addr add fd06::1/64 dev dummy1 nodad
            $ip link set dummy0 up
            $ip link set dummy1 up
            rdma link add rxe2 type rxe netdev dummy0
            rdma link add rxe10 type rxe netdev dummy1
            await_gid rxe2 :0a05:0001
            await_gid rxe10 :0a06:0001
            await_gid rxe10 fd06:
            ask
            """)
        ports = self.the_same(machine)
        self.assertEqual(set(ports), {("rxe2", 1), ("rxe10", 1)})
        for port in ports.values():
            self.assertEqual((port["state"], port["link_layer"]),
                             ("ACTIVE", "Ethernet"))
        self.assertEqual(ports["rxe2", 1]["active_mtu"], 1024)
        self.assertEqual(ports["rxe10", 1]["active_mtu"], 4096)
        self.assertLessEqual(
            {ipaddress.IPv6Address("::ffff:10.6.0.1"),
             ipaddress.IPv6Address("fd06::1")},
            {gid["address"] for gid in ports["rxe10", 1]["gids"]})
        facts = self.facts(machine)
        self.assertEqual(
            [(p["device"], p["driver"], p["net_device"], p["numa_node"])
             for p in facts["infiniband"]],
            [("rxe2", "rdma_rxe", "dummy0", -1),
             ("rxe10", "rdma_rxe", "dummy1", -1)])
        for port in facts["infiniband"]:
            self.assertNotIn("unusable", port)
            self.assertEqual({gid["net_device"] for gid in port["gids"]},
                             {port["net_device"]})
        found = self.findings(machine)
        self.assertEqual({f["severity"] for check in ("hca-usable", "hca-state")
                          for f in found[check]}, {"ok"}, found)
        self.assert_ends(machine)

    def test_an_interface_goes_down_and_a_device_is_removed(self):
        machine = self.boot("""
            load network
            load rdma
            $ip addr add 10.5.0.1/24 dev dummy0
            $ip link set dummy0 up
            rdma link add rxe0 type rxe netdev dummy0
            await_gid rxe0 :0a05:0001
            ask up_
            $ip link set dummy0 down
            ask down_
            $ip link set dummy0 up
            ask again_
            rdma link del rxe0
            ask removed_
            """)
        up = self.the_same(machine, "up_")["rxe0", 1]
        self.assertEqual((up["state"], up["phys_state"]), ("ACTIVE", "LinkUp"))
        down = self.the_same(machine, "down_")["rxe0", 1]
        self.assertEqual((down["state"], down["phys_state"]),
                         ("DOWN", "Disabled"))
        self.assertIn("::ffff:10.5.0.1",
                      [gid["address"] for gid in self.facts(
                          machine, "down_facts")["infiniband"][0]["gids"]])
        finding, = self.findings(machine, "down_doctor")["hca-state"]
        self.assertEqual(finding["severity"], "retryable")
        self.assertIn("ip link set dummy0 up", finding["mend"])
        again = self.the_same(machine, "again_")["rxe0", 1]
        self.assertEqual(again["state"], "ACTIVE")
        self.assertEqual(self.the_same(machine, "removed_"), {})
        finding, = self.findings(machine, "removed_doctor")["hca-state"]
        self.assertEqual(finding["severity"], "not applicable")
        self.assert_ends(machine)

    def test_a_device_that_a_user_cannot_use(self):
        machine = self.boot("""
            load network
            load rdma
            $ip addr add 10.5.0.1/24 dev dummy0
            $ip link set dummy0 up
            rdma link add rxe0 type rxe netdev dummy0
            await_gid rxe0 :0a05:0001
            ulimit -l unlimited
            facts() { report $1 su user -c "$2 rollcall facts --json"; }
            facts free
            facts low "ulimit -l 64;"
            chmod 600 /dev/infiniband/uverbs0
            facts closed
            # As udev does. libibverbs then waits for another node, 5 s.
            mkdir /dev/char
            ln -s /dev/infiniband/uverbs0 /dev/char/$(
              cat /sys/class/infiniband_verbs/uverbs0/dev)
            facts closed_by_udev
            rm /dev/infiniband/uverbs0
            facts gone
            """)
        self.assertNotIn("unusable",
                         self.facts(machine, "free")["infiniband"][0])
        for label, fact, reason, remedy in (
                ("low", "infiniband.memlock",
                 "the limit on locked memory is 64 KiB", "ulimit -l"),
                ("closed", "infiniband.rxe0",
                 "/dev/infiniband/uverbs0: Permission denied", "group rdma"),
                ("closed_by_udev", "infiniband.rxe0",
                 "/dev/infiniband/uverbs0: Permission denied", "group rdma"),
                ("gone", "infiniband.rxe0",
                 "/dev/infiniband/uverbs0: No such file or directory",
                 "--device=/dev/infiniband")):
            with self.subTest(label):
                facts = self.facts(machine, label)
                port, = facts["infiniband"]
                self.assertIn(reason, port["unusable"], label)
                missing = self.missing(facts, fact)
                self.assertIn(reason, missing["reason"])
                self.assertIn(remedy, missing["remedy"])
        self.assert_ends(machine)


# The script of each rank. The first rank is the server of one peer, then exits.
PING_PONG = r"""#!/bin/sh
set -eu
echo "world $(tr -d '\n' <"$ROLLCALL_WORLD_FILE")"
echo "plan" $(env | grep -E '^(NCCL|UCX|GLOO)_' | sort)
hca=${NCCL_IB_HCA#=}
set -- -n 100 -d "${hca%:*}" -i "${hca#*:}" -g "$NCCL_IB_GID_INDEX"
if [ "$NODE_RANK" != 0 ]; then
  set -- "$@" $(awk -F '"' '/"node_rank": 0,/ { found = 1 }
                            found && $2 == "address" { print $4; exit }' \
                "$ROLLCALL_WORLD_FILE")
fi
echo "ping-pong $*"
# The client tries again until the server listens: nothing tells it when.
until timeout 60 ibv_rc_pingpong "$@"; do
  [ "$NODE_RANK" != 0 ]
  usleep 100000
done
"""


class TwoMachines(InMachines):
    FLAGS = "--job pair --secret-file /secret --nccl-env all -- /bin/ping_pong"

    def boot(self, name, place, wire, script):
        return rdma_vm.boot(
            self.stage, name, "load network\nload rdma\n" + script,
            {"/bin/ping_pong": (PING_PONG, 0o755),
             "/secret": (self.secret, 0o600)}, wire, place)

    def test_their_ranks_do_verbs_by_the_plan(self):
        """Devices and GID indices differ, so each rank needs its own plan."""
        made = self.stage.run([harness.ROLLCALL, "token", "secret"])
        self.assert_code(made, 0)
        self.secret = "\n".join(made.out()) + "\n"
        wires = socket.socketpair()
        for wire in wires:
            self.addCleanup(wire.close)
        # IPv6 is added first, so that the IPv4 address has GID index 2.
        one = self.boot("one", 1, wires[0], f"""
            $ip link set eth0 up
            rdma link add rxe0 type rxe netdev eth0
            $ip addr add fd77::1/64 dev eth0 nodad
            await_gid rxe0 fd77:
            $ip addr add 10.77.0.1/24 dev eth0
            await_gid rxe0 :0a4d:0001
            follow run rollcall launch --nodes 2 --max-restarts 0 {self.FLAGS}
            """)
        # Its first device is on an interface that the peer cannot reach.
        two = self.boot("two", 2, wires[1], f"""
            $ip addr add 10.5.0.1/24 dev dummy0
            $ip link set dummy0 up
            rdma link add rxe0 type rxe netdev dummy0
            await_gid rxe0 :0a05:0001
            $ip link set eth0 up
            $ip addr add 10.77.0.2/24 dev eth0
            rdma link add rxe1 type rxe netdev eth0
            await_gid rxe1 :0a4d:0002
            follow run rollcall join --endpoint 10.77.0.1:29400 {self.FLAGS}
            """)
        self.assertEqual(
            self.plan_and_traffic(one, 0, "rxe0", 2, "10.77.0.1"),
            self.plan_and_traffic(two, 1, "rxe1", 1, "10.77.0.2"))

    def plan_and_traffic(self, machine, rank, device, gid, address):
        """Checks the plan and the traffic of a machine's rank; returns the
        rank's world."""
        told = rdma_vm.section(machine, "run")
        if told.status != 0:
            self.stage.fail(f"the agent of node rank {rank} failed")

        def said(pattern):
            """Returns group 1 of the first line of the rank that matches."""
            lines = [line.split("] ", 1)[1] for line in told.out
                     if line.startswith("[")]
            return next(match[1] for match in map(
                re.compile(pattern).fullmatch, lines) if match)

        world = json.loads(said("world (.*)"))
        nodes = {node["node_rank"]: node for node in world["nodes"]}
        self.assertEqual(nodes[rank]["address"], address)
        port, = [p for p in nodes[rank]["infiniband"] if p["rail"] is not None]
        self.assertEqual(port["device"], device)
        self.assertEqual(port["gid"], {"index": gid, "type": "RoCE v2",
                                       "address": f"::ffff:{address}"})
        plan = dict(word.split("=", 1) for word in said("plan (.*)").split())
        self.assertEqual(plan["NCCL_IB_HCA"], f"={device}:1")
        self.assertEqual(plan["UCX_NET_DEVICES"], f"{device}:1")
        self.assertEqual(plan["NCCL_IB_GID_INDEX"], str(gid))
        # The two ends of the queue pair have the GIDs of the plan.
        peer, = [p for p in nodes[1 - rank]["infiniband"]
                 if p["rail"] is not None]
        self.assertEqual(said(r" *local address:.*GID (\S+)"),
                         port["gid"]["address"])
        self.assertEqual(said(r" *remote address:.*GID (\S+)"),
                         peer["gid"]["address"])
        self.assertEqual(said(r"(\d+) iters in .*"), "100")
        self.assert_ends(machine)
        return world
