"""Tests `rollcall launch --spec`, which reads a run from a file."""
import os
import sys

import yaml

import harness
from harness import E2E, Lab
from sshd import Sshd
from submit_test import SUBMIT

SAYS = "echo rank $RANK of $WORLD_SIZE: $WORD; exit 0"


class RunSpec(E2E):
    def spec(self, *, name="run.yaml", **settings):
        path = self.stage.path(name)
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump(settings, f)
        return path

    def write(self, text, name="run.yaml"):
        path = self.stage.path(name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def start(self, *flags):
        # The test does not use the machine's own /etc/hosts: a rename there
        # would end the bind mounts over it, and so the hosts files of labs.
        return self.stage.start([harness.ROLLCALL, "launch", "--hosts-file",
                                 self._hosts, *flags])

    def test_local_workers_and_flags_that_win(self):
        path = self.spec(job="by-file", spawn={"local": 2},
                         command=["sh", "-c", SAYS],
                         environment={"WORD": "a  'b' $HOME"})
        launcher = self.start("--spec", path)
        self.assert_code(launcher, 0)
        for rank in range(3):
            # SAYS's shell splits the value into words, but gets it unchanged.
            self.assertIsNotNone(launcher.find(
                rf"rank {rank} of 3: a 'b' \$HOME$"), launcher.text())
        launcher = self.start("--spec", path, "--nproc_per_node", "2",
                              "--local-workers", "1", "--rdzv-id", "Other 1",
                              "--", "sh", "-c", "echo $ROLLCALL_JOB $RANK of "
                              "$WORLD_SIZE $WORD")
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find("other-1 3 of 4 a"),
                             launcher.text())

    def test_what_all_nodes_must_share(self):
        os.mkdir(self.stage.path("data"))
        self.write("lr: 1", "config")
        path = self.spec(
            job="shared", spawn={"local": 1}, same=["config"],
            shared=["data"], command=["sh", "-c", "echo gets $NCCL_ALGO "
                                      "$NCCL_PROTO $UCX_TLS"],
            env={"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple",
                 "UCX_TLS": None})
        launcher = self.stage.start(
            ["env", "UCX_TLS=tcp", harness.ROLLCALL, "launch", "--hosts-file",
             self._hosts, "--spec", path, "--env", "NCCL_PROTO=LL"])
        self.assert_code(launcher, 0)
        for rank in range(2):
            self.assertIsNotNone(launcher.find(
                rf"/{rank}\] gets Ring LL tcp$"), launcher.text())
        # The agents have looked into the folder.
        self.assertEqual(os.listdir(self.stage.path("data")),
                         [".rollcall-shared"])

    def test_hosts_by_ssh(self):
        lab = Lab(self.stage, 3)
        sshd = Sshd(self.stage, lab, (2, 3))
        path = self.spec(
            job="remote", environment={"WORD": "said"},
            spawn={"ssh": {"hosts": ["lab1", "lab2 slots=2",
                                     "root@lab3 name=c"],
                           "command": sshd.ssh}},
            command=SAYS)
        launcher = lab.start(1, [harness.ROLLCALL, "launch", "--spec", path])
        self.assert_code(launcher, 0)
        for rank, node in enumerate(("lab1", "c", "lab2", "lab2")):
            self.assertIsNotNone(launcher.find(
                rf"^\[{node}/{rank}\] rank {rank} of 4: said$"),
                launcher.text())

    def test_a_hostfile_beside_the_file(self):
        lab = Lab(self.stage, 2)
        sshd = Sshd(self.stage, lab, (2,))
        self.write("lab1\nlab2\n", "hosts")
        path = self.spec(job="remote", command=SAYS, name="other.yaml",
                         spawn={"ssh": {"hostfile": "hosts"}})
        launcher = lab.start(1, [harness.ROLLCALL, "launch", "--spec", path,
                                 "--ssh", sshd.ssh, "-x", "WORD=flag"])
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find(r"\[lab2/1\] rank 1 of 2: flag"),
                             launcher.text())

    def test_workers_of_a_template(self):
        lab = Lab(self.stage, 2)
        script = self.write(SUBMIT, "submit.py")
        self.write("join: <<JOIN>>\n", "worker.tpl")
        path = self.spec(
            job="submitted", nodes=2, command=SAYS, listen="10.77.0.1:0",
            spawn={"template": {
                "file": "worker.tpl",
                "submit": f"{sys.executable} {script} {self.stage.folder}"}})
        launcher = lab.start(1, [harness.ROLLCALL, "launch", "--spec", path])
        launcher.await_line("mode .* submitted")
        with open(self.stage.path("worker-0.yaml"), encoding="utf-8") as f:
            join = yaml.safe_load(f)["join"]
        worker = lab.start(2, [harness.ROLLCALL, "join", "--", "sh", "-c",
                               SAYS], {"ROLLCALL_JOIN": join})
        self.assert_code(worker, 0)
        self.assert_code(launcher, 0)
        self.assertIsNotNone(worker.find("rank 1 of 2"), worker.text())

    def refused(self, text, *expect, flags=()):
        path = text if text.startswith("/") else self.write(text)
        process = self.stage.run([harness.ROLLCALL, "launch", "--state",
                                  self.stage.path("state"), "--spec", path,
                                  *flags])
        self.assert_code(process, 2)
        for one in expect:
            self.assertIn(one.format(path), process.text())
        self.assertFalse(os.path.exists(self.stage.path("state")))

    def test_mistakes_are_named_before_anything_starts(self):
        self.refused("nodes: 3:2\ngrow: slowly\nnproc-per-node: 65\n"
                     "join-timeout: soon\ncommand: [x]\n",
                     "{}:1:8: nodes takes", "{}:2:7: grow takes",
                     "{}:3:17: nproc-per-node takes 1 to 64",
                     "{}:4:15: join-timeout")
        self.refused("max-restarts: -3\ncommand: [x]",
                     "{}:1:15: max-restarts: expected a number of 0 or more, "
                     "got '-3'")
        self.refused("state: etcd://127.0.0.1:1\nlog-dir: ~/logs\n"
                     "listen: foo\nhttp: 8080\nname: a b\ncommand: [x]",
                     "{}:1:8: state: expected a path of this machine",
                     "{}:2:10: log-dir: expected a path of this machine",
                     "{}:3:9: listen: ", "{}:4:7: http: ", "{}:5:7: name: ")
        self.refused('command: [x, "a\\0b"]', "{}:1:14: ", "NUL byte")
        self.refused("job: a", "{}: expected the key command")
        self.refused("command: [torchrun, x]\nnproc-per-node: 2", "{}: ",
                     "torchrun")
        self.refused("setup-retries: 1\ncommand: [x]", "{}: ",
                     "expected --setup CMD as well")
        self.refused(self.stage.path("none"), "--spec: cannot read {}")
        self.write("rank <<NODE_RANK>>", "worker.tpl")
        self.refused("nodes: 2\ncommand: [x]\nspawn:\n  template:\n"
                     "    file: worker.tpl\n    submit: 'true'",
                     "{}:5:11:", "<<JOIN>>")
        self.write("<<JOIN>>\n  <<RANK>>", "worker.tpl")
        self.refused("nodes: 2\ncommand: [x]\nspawn:\n  template:\n"
                     "    file: worker.tpl\n    submit: 'true'",
                     "{}:5:11:", "line 2, column 3: unknown placeholder")
        self.refused("command: [x]\nspawn: {ssh: {hostfile: none}}",
                     "{}:2:25:", "cannot read")

    def test_a_flag_without_hosts(self):
        process = self.stage.run([harness.ROLLCALL, "launch", "--push", "--",
                                  "true"])
        self.assert_code(process, 2)
        self.assertIn("--push is for other hosts", process.text())

    def test_the_example(self):
        # This script replaces ssh and runs the command on this machine.
        ssh = self.write("#!/bin/sh\nfor command; do :; done\n"
                         "exec sh -c \"$command\"\n", "ssh")
        os.chmod(ssh, 0o700)
        launcher = self.start(
            "--spec", os.path.join(harness.PROJECT, "specs", "run.yaml"),
            "--ssh", ssh, "--last-call", "1m", "--", "sh", "-c",
            "echo $RANK of $WORLD_SIZE $NCCL_DEBUG")
        self.assert_code(launcher, 0)
        for rank in (0, 8, 23):
            self.assertIsNotNone(launcher.find(rf"{rank} of 24 WARN$"))
