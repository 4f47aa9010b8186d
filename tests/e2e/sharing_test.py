"""What all nodes of a world must have in common."""
import json
import os
import re

import harness
from harness import E2E, Gate, Lab


class Sharing(E2E):
    def begin(self, hosts, environment=(), flags=(), command="true", late=0):
        """Starts the launcher on lab1 and a worker on each other host but the
        last `late` ones. `environment`: the additional variables of each host,
        by its number. The ranks run `command` and wait."""
        self.environment = dict(environment)
        self.gate = Gate(self.stage)
        self.lab = Lab(self.stage, hosts)
        self.command = ["sh", "-c", f"{command}; cat {self.gate.path}"]
        self.launcher = self.start(1, "launch", "--listen", "0.0.0.0:0",
                                   "--job", "sharing", *flags)
        self.text = self.launcher.await_line(harness.JOIN_STRING.pattern)[0]
        self.workers = []
        for host in range(2, hosts + 1 - late):
            self.join(host)

    def start(self, host, *rollcall):
        return self.lab.start(host, [
            "env", *self.environment.get(host, ()), harness.ROLLCALL, *rollcall,
            "--", *self.command])

    def join(self, host):
        self.workers.append(self.start(host, "join", self.text))

    def status(self):
        asked = self.lab.run(1, [harness.ROLLCALL, "status", self.text,
                                 "--json"])
        self.assert_code(asked, 0)
        return json.loads("\n".join(asked.out()))

    def log(self):
        path = self.stage.path("state1", "rollcall", "sharing", "daemon.log")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def ends(self):
        self.gate.open()
        for process in [self.launcher, *self.workers]:
            self.assert_code(process, 0)

    def test_variables_that_differ_are_named(self):
        self.begin(3, {
            1: ["NCCL_ALGO=Ring", "NCCL_HOSTID=one"],
            2: ["NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"],
            3: ["NCCL_ALGO=Tree", "NCCL_BLOCKING_WAIT=1",
                "NCCL_X_TOKEN=s3cret"]},
            ["--nodes", "3"], "echo formed")
        for process in [self.launcher, *self.workers]:
            process.await_line(r"\] formed$")
        self.launcher.await_line("nodes differ in NCCL_ALGO ")
        self.workers[1].await_line(
            "WARNING: NCCL_BLOCKING_WAIT: .*Use TORCH_NCCL_BLOCKING_WAIT")
        found = {d["fact"]: [(s["value"], s["nodes"]) for s in d["sides"]]
                 for d in self.status()["differences"]}
        secret = found.pop("NCCL_X_TOKEN")
        self.assertEqual(found, {
            "NCCL_ALGO": [("Ring", ["lab1", "lab2"]), ("Tree", ["lab3"])],
            "NCCL_BLOCKING_WAIT": [("not set", ["lab1", "lab2"]),
                                   ("1", ["lab3"])]})
        self.assertRegex(secret[1][0], "^not shown, digest [0-9a-f]{8}$")
        said = re.findall("event=differs text=.NCCL_ALGO.*lab3", self.log())
        self.assertEqual(len(said), 1, said)
        self.ends()
        for process in [self.launcher, *self.workers]:
            self.assertNotIn("s3cret", process.text())
        self.assertNotIn("s3cret", self.log())

    def test_the_launchers_variables_reach_all_nodes(self):
        self.begin(4, {1: ["NCCL_PROTO=LL"], 2: ["NCCL_ALGO=Tree"]},
                   ["--nodes", "3:4", "--preflight", "strict",
                    "--env", "NCCL_ALGO=Ring", "--env", "NCCL_PROTO"],
                   "echo gets $NCCL_ALGO $NCCL_PROTO", late=1)
        for process in [self.launcher, *self.workers]:
            process.await_line(r"\] gets Ring LL$")
        self.workers[0].await_line(r"NCCL_ALGO=Ring \(--env of the launcher\) "
                                   "replaces Tree of this node")
        self.assertEqual(self.status()["differences"], [])
        # The daemon that is started again knows them from its journal.
        record = self.stage.path("state1", "rollcall", "sharing",
                                 "launch.json")
        with open(record, encoding="utf-8") as file:
            daemon = json.load(file)["daemon"]["pid"]
        # The pid is one of lab1's own.
        self.assert_code(self.lab.run(1, ["kill", "-9", str(daemon)]), 0)
        self.workers[0].await_line("attending again")
        self.join(4)
        self.workers[-1].await_line(r"\] gets Ring LL$")
        self.ends()

    def test_variables_that_a_launcher_may_not_set(self):
        self.lab = Lab(self.stage, 1)
        for given, said in (
                ("LD_PRELOAD=/tmp/x.so", "--env LD_PRELOAD: expected NCCL_"),
                ("NCCL_NET_PLUGIN=x", "that loads no code and names no file"),
                ("NCCL_PROTO", "it is not set here")):
            ended = self.lab.run(1, [harness.ROLLCALL, "launch", "--env", given,
                                     "--", "true"])
            self.assert_code(ended, 2)
            self.assertIn(said, ended.text())
