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

    def test_a_file_that_differs_is_named(self):
        paths = [self.stage.path(name) for name in ("config", "other")]
        for path, text in zip(paths, ("lr: 1", "lr: 2")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        same = ["--same", paths[0]]
        self.begin(4, {}, ["--nodes", "3:4", "--preflight", "strict", *same],
                   "echo formed", late=3)
        self.assert_code(self.lab.run(
            4, ["mount", "--bind", paths[1], paths[0]]), 0)
        for host in (2, 3, 4):
            self.workers.append(self.start(host, "join", self.text, *same))
        for process in [self.launcher, *self.workers[:2]]:
            process.await_line(r"\] formed$")
        self.launcher.await_line(f"nodes differ in {paths[0]} ")
        state = self.status()
        self.assertEqual(
            [n["node"] for n in state["nodes"] if n["state"] == "spare"],
            ["lab4"])
        difference, = state["differences"]
        self.assertEqual([side["nodes"] for side in difference["sides"]],
                         [["lab1", "lab2", "lab3"], ["lab4"]])
        self.ends()

    def test_the_launchers_own_node_must_have_them(self):
        for flags, found in (
                (["--same", "none"], "none to be a file that ranks can read, "
                 "found: No such file or directory; make it"),
                (["--shared", "none"], "none/ to be a folder to which ranks "
                 "can write, found: no file can be written there")):
            launcher = self.launch(["--local-workers", "1", *flags], ["true"])
            self.assert_code(launcher, 69)
            launcher.await_line(f"--same or --shared: expected .*/{found}",
                                "err")
            launcher = self.launch(["--preflight", "off", *flags], ["true"])
            self.assert_code(launcher, 0)

    def test_a_folder_that_is_not_shared_takes_the_seat(self):
        """lab4 has another file system there, lab5 cannot write to it."""
        folder = self.stage.path("data")
        os.mkdir(folder)
        shared = ["--shared", folder]
        self.begin(5, {}, ["--nodes", "3:5", *shared], "echo formed", late=4)
        for host, mount in ((4, f"mount -t tmpfs none {folder}"),
                            (5, f"mount --bind {folder} {folder} && "
                                f"mount -o remount,ro,bind {folder}")):
            self.assert_code(self.lab.run(host, ["sh", "-c", mount]), 0)
        for host in (2, 3, 4, 5):
            self.workers.append(self.start(host, "join", self.text, *shared))
        for process in [self.launcher, *self.workers[:2]]:
            process.await_line(r"\] formed$")
        self.workers[3].await_line("no file can be written there: Read-only")
        self.launcher.await_line(f"nodes differ in {folder}/ ")
        nodes = {n["node"]: n for n in self.status()["nodes"]}
        for host in (4, 5):
            self.assertEqual(nodes[f"lab{host}"]["state"], "spare")
            self.assertIn(f"--shared: {folder}/: mark",
                          nodes[f"lab{host}"]["reason"])
        self.ends()
        self.assertEqual(os.listdir(folder), [".rollcall-shared"])
