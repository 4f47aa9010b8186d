"""Names, addresses and /etc/hosts on four lab hosts, as on real machines."""
import json
import os
import signal
import sys

import harness
import wire
from harness import E2E, Gate, Lab

# Listens until every address in its arguments has connected, then exits. A
# worker that starts before its launcher thus connects to something that is not
# a daemon.
DOORMAN = """
import socket, sys
door = socket.socket(); door.bind(("0.0.0.0", 0)); door.listen()
print("port", door.getsockname()[1], flush=True)
missing = set(sys.argv[1:])
while missing:
    caller, (address, _) = door.accept()
    missing.discard(address); caller.close()
"""

# Prints the world file on one line, then waits at the gate.
SHOW = ("python3 -c 'import json, os; print(\"world\", json.dumps(json.load("
        "open(os.environ[\"ROLLCALL_WORLD_FILE\"]))))'; ")


class Hosts(E2E):
    job = "lab"

    def gather(self, lab, gate, flags=(), nodes=None):
        """Starts the workers first, the launcher on lab1 last; all attend."""
        doorman = lab.start(1, [sys.executable, "-c", DOORMAN, *(
            f"10.77.0.{host}" for host in range(2, lab.hosts + 1))])
        port = doorman.await_line(r"port (\d+)")[1]
        secret = self.stage.secret_file("secret")
        command = ["sh", "-c", SHOW + f"cat {gate.path}"]
        launch = [harness.ROLLCALL, "launch", "--job", self.job, "--nodes",
                  nodes or lab.hosts, "--listen", f"0.0.0.0:{port}",
                  "--secret-file", secret, *flags, "--", *command]
        join = [harness.ROLLCALL, "join", "--endpoint", f"10.77.0.1:{port}",
                "--job", self.job, "--secret-file", secret, "--", *command]
        started = {}
        for host in range(2, lab.hosts + 1):
            started[host] = lab.start(host, join)
        # Each worker has connected, and found no daemon.
        self.assert_code(doorman, 0)
        started[1] = lab.start(1, launch)
        return [started[host] for host in range(1, lab.hosts + 1)]

    def worlds(self, processes):
        return [json.loads(p.await_line(r"\] world (\{.*\})$")[1])
                for p in processes]

    def end(self, gate, processes):
        gate.open()
        for process in processes:
            self.assert_code(process, 0)

    def address_of(self, lab, host, name):
        found = lab.run(host, ["getent", "ahosts", name])
        self.assertEqual(found.code, 0, f"{name} has no address on lab{host}")
        return {line.split()[0] for line in found.out()}

    def check_names(self, lab):
        """Checks that every host resolves every host's name, its own too."""
        for host in range(1, lab.hosts + 1):
            for other in range(1, lab.hosts + 1):
                node = f"node-{other - 1}.{self.job}.rollcall"
                self.assertEqual(self.address_of(lab, host, node),
                                 {f"10.77.0.{other}"})
                got = self.address_of(lab, host, f"lab{other}")
                if other == host:
                    # The host's own line has 127.0.1.1 and is kept. A resolver
                    # that merges all lines of a name (`multi on`) returns both
                    # addresses.
                    got.discard("127.0.1.1")
                self.assertEqual(got, {f"10.77.0.{other}"})
                first = lab.run(host, ["getent", "hosts", f"lab{other}"])
                self.assertEqual(first.out()[0].split()[0],
                                 f"10.77.0.{other}")

    def test_workers_first_launcher_last(self):
        lab = Lab(self.stage, 4)
        before = [lab.read_hosts(h) for h in range(1, 5)]
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        worlds = self.worlds(processes)
        self.assertEqual(worlds[0], worlds[1])
        self.assertEqual([n["node"] for n in worlds[0]["nodes"]],
                         ["lab1", "lab2", "lab3", "lab4"])
        self.check_names(lab)
        for host in range(1, 5):
            now = lab.read_hosts(host)
            # The block is at the beginning; the rest of the file is unchanged.
            self.assertTrue(now.endswith(before[host - 1]), now)
            self.assertGreater(len(now), len(before[host - 1]))
        self.end(gate, processes)
        for host in range(1, 5):
            self.assertEqual(lab.read_hosts(host), before[host - 1])
            self.stage.await_gone(lab.processes(host), f"lab{host}")

    def test_a_second_run_knows_itself(self):
        lab = Lab(self.stage, 3)
        before = lab.read_hosts(2)
        for _ in range(2):
            gate = Gate(self.stage)
            processes = self.gather(lab, gate)
            for host, process in enumerate(processes, 1):
                world = json.loads(process.await_line(
                    r"\] world (\{.*\})$")[1])
                mine = world["nodes"][host - 1]
                self.assertEqual(mine["node"], f"lab{host}")
                self.assertEqual(mine["address"], f"10.77.0.{host}")
            self.check_names(lab)
            self.end(gate, processes)
            self.assertEqual(lab.read_hosts(2), before)

    def test_interfaces_that_differ_and_a_docker0(self):
        lab = Lab(self.stage, 3, ifaces="eth0 ens5 enp1s0f1", docker=1)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        for world in self.worlds(processes):
            self.assertEqual([n["address"] for n in world["nodes"]],
                             ["10.77.0.1", "10.77.0.2", "10.77.0.3"])
        self.end(gate, processes)

    def test_all_addresses_travel(self):
        lab = Lab(self.stage, 2)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        for world in self.worlds(processes):
            for host, node in enumerate(world["nodes"], 1):
                self.assertIn(f"10.77.0.{host}", node["addresses"])
                self.assertIn(f"fd77::{host}", node["addresses"])
        self.end(gate, processes)

    def test_over_ipv6(self):
        lab = Lab(self.stage, 2)
        gate = Gate(self.stage)
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", 2, "--listen", "[::]:0",
            "--", "sh", "-c", f"echo up; cat {gate.path}"])
        join = wire.Join(launcher.await_line(
            harness.JOIN_STRING.pattern)[0])
        join.endpoints = [f"[fd77::1]:{join.port()}"]
        worker = lab.start(2, [harness.ROLLCALL, "join", join.text(), "--",
                               "sh", "-c", f"echo up; cat {gate.path}"])
        launcher.await_line(r"\] up")
        worker.await_line(r"\] up")
        self.end(gate, [launcher, worker])

    def test_strangers_change_no_hosts_file(self):
        lab = Lab(self.stage, 3)
        before = [lab.read_hosts(h) for h in range(1, 4)]
        gate = Gate(self.stage)
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "2", "--", "sh", "-c",
            SHOW + f"cat {gate.path}"])
        text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        worker = lab.start(2, [harness.ROLLCALL, "join", text, "--", "sh",
                               "-c", SHOW + f"cat {gate.path}"])
        self.worlds([launcher, worker])
        during = [lab.read_hosts(h) for h in range(1, 4)]
        # A third host sends lines that gather_hosts.sh would have accepted, and
        # runs a proper agent with a forged token.
        forged = wire.Join(text)
        forged.secret = bytes(16)
        stranger = lab.run(3, [sys.executable, "-c", (
            "import sys; sys.path.insert(0, %r); import wire\n"
            "j = wire.Join(%r)\n"
            "s = wire.Stranger(j.port(), '10.77.0.1')\n"
            "s.raw(b'10.77.0.3 lab1\\n10.77.0.3 lab2\\n')\n"
            "t = wire.Stranger(j.port(), '10.77.0.1').open()\n"
            "print('code', t.say(wire.hello(j, 'lab2')).end())\n") % (
                os.path.dirname(wire.__file__), forged.text())])
        self.assertEqual(stranger.out(),
                         [f"code {wire.UNAUTHENTICATED}"], stranger.text())
        agent = lab.run(3, [harness.ROLLCALL, "join", forged.text(), "--",
                            "true"])
        self.assertEqual(agent.code, 77)
        self.assertEqual([lab.read_hosts(h) for h in range(1, 4)], during)
        self.end(gate, [launcher, worker])
        self.assertEqual([lab.read_hosts(h) for h in range(1, 4)], before)

    def forge(self, lab, text, node, address):
        """Starts a client on lab2 that attends as a worker of one rank with
        this name and address, and prepares. It runs until the lab ends."""
        return lab.start(2, [sys.executable, "-c", (
            "import sys; sys.path.insert(0, %r); import wire\n"
            "j = wire.Join(%r)\n"
            "s = wire.Stranger(j.port(), '10.77.0.1').open()\n"
            "address = wire.field(1, %r) + wire.field(2, 24)\n"
            "eth0 = wire.field(1, 'eth0') + wire.field(2, address)\n"
            "facts = (wire.field(1, 'x') + wire.field(7, 'another boot')\n"
            "         + wire.field(2, eth0 + wire.field(5, 1)))\n"
            "s.say(wire.hello(j, %r, facts=facts))\n"
            "for generation in range(1, 9):\n"
            "    s.say(wire.prepared(generation))\n"
            "while True:\n"
            "    message = s.message()\n"
            "    if message is None: break\n"
            "    for number, value in wire.fields(message):\n"
            "        if number == 4:\n"  # The number of Proposal.
            "            s.say(wire.prepared(dict(wire.fields(value))[1]))\n"
        ) % (os.path.dirname(wire.__file__), text, address, node)])

    def test_a_workers_name_of_several_labels_is_written_only_if_listed(self):
        # The name comes with the worker's own address, since the daemon accepts
        # no other address into a world.
        name, address = "archive.internal.example.com", "10.77.0.2"
        for flags in [], ["--hosts-names", name]:
            lab = Lab(self.stage, 2)
            before = lab.read_hosts(1)
            gate = Gate(self.stage)
            launcher = lab.start(1, [
                harness.ROLLCALL, "launch", "--nodes", "2", *flags, "--",
                "sh", "-c", f"echo up; cat {gate.path}"])
            text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
            self.forge(lab, text, name, address)
            launcher.await_line(r"\] up")
            block = lab.read_hosts(1)[:-len(before)].decode()
            lines = [line.split() for line in block.splitlines()
                     if line.startswith(address)]
            bare = [name] if flags else []
            [line] = lines
            self.assertEqual(line[1:-1], bare, block)
            self.assertTrue(line[-1].endswith(".rollcall"), block)
            told = launcher.find(f"hosts file.*{name}.*{address}", "err")
            self.assertEqual(told is None, bool(flags))
            lab.down()

    def test_a_peer_does_not_take_this_machines_hostname(self):
        lab = Lab(self.stage, 3)
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        meant = lab.run(2, ["getent", "ahosts", "lab2"]).out()
        before = lab.read_hosts(2)
        launcher = lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "3", "--", *command])
        text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        worker, peer = (
            lab.start(host, [harness.ROLLCALL, "join", text, "--name", name,
                             "--", *command])
            for host, name in ((2, "w1"), (3, "lab2")))
        for process in launcher, worker, peer:
            process.await_line(r"\] up")
        block = lab.read_hosts(2)[:-len(before)].decode()
        [line] = [line.split() for line in block.splitlines()
                  if line.startswith("10.77.0.3")]
        self.assertEqual(len(line), 2, block)
        self.assertEqual(lab.run(2, ["getent", "ahosts", "lab2"]).out(), meant)
        self.assertIsNotNone(worker.find(
            r"hosts file: name lab2 left out.*127\.0\.1\.1.*10\.77\.0\.3",
            "err"))
        self.end(gate, [launcher, worker, peer])

    def test_a_name_that_the_resolver_cannot_tell_now_is_left_out(self):
        lab = Lab(self.stage, 2)
        nsswitch = self.stage.path("nsswitch")
        with open(nsswitch, "w", encoding="ascii") as f:
            f.write("passwd: files\nhosts: files dns\n")
        # There is no name server, so DNS lookups fail with a temporary error.
        for host in (1, 2):
            self.assertEqual(lab.run(host, [
                "mount", "--bind", nsswitch, "/etc/nsswitch.conf"]).code, 0)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        self.worlds(processes)
        for host, other in (1, 2), (2, 1):
            self.assertEqual(
                self.address_of(lab, host, f"node-{other - 1}.lab.rollcall"),
                {f"10.77.0.{other}"})
            found = lab.run(host, ["getent", "ahosts", f"lab{other}"])
            self.assertNotEqual(found.code, 0, found.text())
            self.assertIsNotNone(
                processes[host - 1].find(f"hosts file.*lab{other}", "err"))
        self.end(gate, processes)

    def test_read_only_hosts(self):
        lab = Lab(self.stage, 2)
        self.assertEqual(lab.run(2, [
            "mount", "-o", "remount,ro,bind", "/etc/hosts"]).code, 0)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        self.worlds(processes)
        self.assertIsNotNone(processes[1].find("/etc/hosts", "err"))
        self.end(gate, processes)

    def test_locks_that_others_made_beforehand(self):
        """Other users left links with the lock's name in shared folders."""
        lab = Lab(self.stage, 2)
        name = harness.lock_name("/etc/hosts")
        for folder in ("/run/lock", "/tmp"):
            self.assertEqual(lab.run(2, [
                "ln", "-s", "/dev/null", f"{folder}/{name}"]).code, 0)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        self.worlds(processes)
        self.check_names(lab)
        self.assertIsNone(processes[1].find("hosts file", "err"))
        self.end(gate, processes)

    def test_a_killed_agents_block_is_swept(self):
        lab = Lab(self.stage, 2)
        before = [lab.read_hosts(h) for h in (1, 2)]
        gate = Gate(self.stage)
        processes = self.gather(lab, gate, flags=["--join-timeout", "15s"])
        self.worlds(processes)
        os.kill(processes[1].inner_pid(), signal.SIGKILL)
        self.assert_code(processes[0], 69)
        self.assertEqual(lab.read_hosts(1), before[0])
        gate.open()
        again = Gate(self.stage)
        processes = self.gather(lab, again)
        self.worlds(processes)
        self.end(again, processes)
        self.assertEqual(lab.read_hosts(2), before[1])

    def test_a_killed_agents_block_goes_without_another_agent(self):
        """Its guard removes it, also from a hosts file that is a mount."""
        lab = Lab(self.stage, 2)
        before = lab.read_hosts(2)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate)
        self.worlds(processes)
        self.assertNotEqual(lab.read_hosts(2), before)
        there = lab.processes(2)
        os.kill(processes[1].inner_pid(), signal.SIGKILL)
        self.stage.await_gone(there, "agent, rank and guard of lab2")
        self.assertEqual(lab.read_hosts(2), before)
        gate.open()
        os.kill(processes[0].inner_pid(), signal.SIGINT)
        self.assert_code(processes[0], 130)

    def test_no_block_of_another_that_lives_goes_with_a_killed_agent(self):
        before = self.read_own_hosts()
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        other = self.launch(["--job", "other"], command)
        launcher = self.launch(["--job", "shared", "--nodes", "2",
                                "--no-worker"], command)
        agents = {name: self.join(self.join_string(launcher),
                                  ["--name", name], command)
                  for name in ("a", "b")}
        for process in (other, *agents.values()):
            process.await_line("up")
        guards = [pid for pid in harness.descendants(agents["a"].pid)
                  if harness.command_line(pid)[1:] == ["guard"]]
        self.assertEqual(len(guards), 1)
        agents["a"].signal(signal.SIGKILL)
        self.stage.await_gone(guards, "the guard of a")
        text = self.read_own_hosts()
        self.assertEqual(text.count(b"# rollcall begin "), 2)
        self.assertIn(b"node-1.shared.rollcall", text)
        self.assertIn(b"node-0.other.rollcall", text)
        self.assertRegex(text, rb"owner .* node=b\n")
        self.assertNotRegex(text, rb"owner .* node=a\n")
        gate.open()
        self.assert_code(other, 0)
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)
        agents["b"].wait()
        self.assertEqual(self.read_own_hosts(), before)

    def read_own_hosts(self):
        with open(self._hosts, "rb") as f:
            return f.read()

    def test_a_host_that_falls_silent(self):
        lab = Lab(self.stage, 3)
        before = lab.read_hosts(1)
        gate = Gate(self.stage)
        processes = self.gather(lab, gate, ["--last-call", "1m"], nodes="2:3")
        self.worlds(processes)
        # The cut sends no FIN or RST, so only the lease shows the loss.
        lab.fault("cut", 3)
        for process in processes[:2]:
            _, second = process.await_lines(r"\] world (\{.*\})$", 2)
            world = json.loads(second[1])
            self.assertEqual(world["generation"], 2)
            self.assertEqual([n["node"] for n in world["nodes"]],
                             ["lab1", "lab2"])
        self.end(gate, processes[:2])
        self.assertEqual(lab.read_hosts(1), before)

    def cut_while_gathering(self, until):
        """lab2 says Hello and is cut off, then lab3 completes the job. The cut
        heals once until(state) holds. Then all three run in one world."""
        lab = Lab(self.stage, 3)
        before = [lab.read_hosts(h) for h in range(1, 4)]
        gate = Gate(self.stage)
        command = ["sh", "-c", SHOW + f"cat {gate.path}"]
        launcher = lab.start(1, [harness.ROLLCALL, "launch", "--nodes", "3",
                                 "--", *command])
        text = launcher.await_line(harness.JOIN_STRING.pattern)[0]
        watch = lab.start(1, [harness.ROLLCALL, "status", text, "--json",
                              "--watch"])
        seen = []

        def state_with(condition, what):
            def look():
                while len(seen) < len(watch.out()):
                    seen.append(json.loads(watch.out()[len(seen)]))
                    if condition(seen[-1]):
                        return True
                if watch.done():
                    self.stage.fail(f"the watch ended before {what}")
                return False
            self.stage.pump(look, what)

        def node(state, name):
            found = [n["state"] for n in state["nodes"] if n["node"] == name]
            return found[0] if found else None
        join = [harness.ROLLCALL, "join", text, "--", *command]
        second = lab.start(2, join)
        state_with(lambda s: node(s, "lab2") == "attending", "lab2's Hello")
        lab.fault("cut", 2)
        third = lab.start(3, join)
        state_with(lambda s: until(s, node(s, "lab2"), node(s, "lab3")),
                   "the time to heal")
        self.assertIsNone(second.find(r"\] world "))
        lab.fault("heal")
        processes = [launcher, second, third]
        worlds = self.worlds(processes)
        self.assertEqual([n["node"] for n in worlds[0]["nodes"]],
                         ["lab1", "lab2", "lab3"])
        self.assertEqual(worlds[1:], [worlds[0]] * 2)
        self.end(gate, processes)
        self.assert_code(watch, 0)
        self.assertEqual([lab.read_hosts(h) for h in range(1, 4)], before)

    def test_cut_while_it_gathers_and_healed_at_once(self):
        self.cut_while_gathering(lambda state, lab2, lab3: lab3)

    def test_cut_while_it_gathers_until_it_is_lost(self):
        self.cut_while_gathering(
            lambda state, lab2, lab3: lab3 and lab2 in (None, "lost"))
