"""Where a daemon listens, and that ranks and agents listen nowhere else."""
import os
import socket
import struct
import sys

import harness
import wire
from guarded import Guarded
from harness import Gate, Lab


def sockets_of(pid):
    """Returns {(protocol, address, port)} of the sockets on which a process
    listens (TCP) or that it has bound (UDP)."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    found = set()
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        with open(f"/proc/{pid}/net/{protocol}", encoding="ascii") as f:
            rows = [line.split() for line in f][1:]
        for row in rows:
            listens = row[3] == "0A" or protocol.startswith("udp")
            if listens and row[9] in inodes:
                address, port = row[1].split(":")
                words = struct.unpack(f">{len(address) // 8}I",
                                      bytes.fromhex(address))
                packed = struct.pack(f"={len(words)}I", *words)
                family = (socket.AF_INET if len(packed) == 4
                          else socket.AF_INET6)
                found.add((protocol, socket.inet_ntop(family, packed),
                           int(port, 16)))
    return found


class Listening(Guarded):
    # With a real NCCL, its bootstrap would also listen where the ids are made.
    NO_NCCL = ["--nccl-lib", os.path.join(harness.BIN, "libfake_nccl.so")]

    def ours(self):
        """Maps each pid that the test started to its listening sockets."""
        return {pid: sockets_of(pid)
                for pid in harness.descendants(os.getpid())
                if harness.command_line(pid)[:1] != [sys.executable]}

    def check(self, listen, expected):
        self.begin(["--listen", listen, *self.NO_NCCL])
        port = wire.Join(self.text).port()
        listening = self.ours()
        daemon = self.daemon_pid()
        self.assertEqual(listening.pop(daemon),
                         {(p, a, port) for p, a in expected})
        # The other processes are launcher, agents, guards and ranks. Node rank
        # 0 holds MASTER_PORT only until its rank starts, and the ranks of this
        # test open no port. Each agent has a port on which it answers probes.
        self.assertGreaterEqual(len(listening), 5)
        for pid, sockets in listening.items():
            if not sockets:
                continue
            self.assertIn(harness.command_line(pid)[1], ("agent", "join"))
            [(protocol, address, _)] = sockets
            self.assertEqual((protocol, address), ("tcp6", "::"))
        self.goes_on()

    def test_on_loopback(self):
        self.check("127.0.0.1:0", {("tcp", "127.0.0.1")})

    def test_on_loopback_ipv6(self):
        self.check("[::1]:0", {("tcp6", "::1")})

    def test_on_all_addresses(self):
        self.check("[::]:0", {("tcp6", "::")})

    def test_on_all_of_ipv4(self):
        self.check("0.0.0.0:0", {("tcp", "0.0.0.0")})

    def test_what_the_test_itself_sees(self):
        # Control: sockets_of finds sockets of this process.
        with socket.create_server(("127.0.0.1", 0)) as tcp, \
                socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp:
            udp.bind(("::1", 0))
            seen = sockets_of(os.getpid())
            self.assertIn(("tcp", "127.0.0.1", tcp.getsockname()[1]), seen)
            self.assertIn(("udp6", "::1", udp.getsockname()[1]), seen)

    def test_on_one_address_of_a_host(self):
        lab = Lab(self.stage, 2)
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--job", "one", "--nodes", "2",
            "--listen", "10.77.0.1:0", *self.NO_NCCL, "--", *command])
        text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        port = wire.Join(text).port()
        self.assertEqual(wire.Join(text).endpoints, [f"10.77.0.1:{port}"])
        worker = lab.start(2, [harness.ROLLCALL, "join", text, "--",
                               *command])
        launcher.await_line(r"\] up")
        worker.await_line(r"\] up")
        for host, expected in ((1, {("tcp", "10.77.0.1", port)}), (2, set())):
            found = set()
            for pid in lab.processes(host):
                found |= sockets_of(pid)
            # This is the agent's port for probes.
            [probes] = [s for s in found if s[:2] == ("tcp6", "::")]
            self.assertEqual(found - {probes}, expected, f"lab{host}")
        for address in ("127.0.0.1", "fd77::1"):
            tried = lab.run(1, ["python3", "-c", "import socket\n"
                                "try: socket.create_connection("
                                f"('{address}', {port}), 5)\n"
                                "except OSError as e: print(type(e).__name__)"])
            self.assertEqual(tried.out(), ["ConnectionRefusedError"])
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
