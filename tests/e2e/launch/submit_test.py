"""Tests `--worker-template` and `--submit`: a scheduler starts the workers."""
import os
import shlex
import signal
import sys

import yaml

import harness
import proc
from harness import E2E, Gate, Lab

SPECS = os.path.join(harness.PROJECT, "specs")

# Replaces the scheduler: keeps the spec, and the test then runs it.
SUBMIT = """
import os, shutil, sys
spec, folder = sys.argv[-1], sys.argv[1]
shutil.copy(spec, os.path.join(folder, "worker-%d.yaml" % len([
    n for n in os.listdir(folder) if n.startswith("worker-")])))
# Last, since the test reads the copy once it has read this line.
print("mode", oct(os.stat(spec).st_mode & 0o777), "submitted", spec, flush=True)
"""


class Submit(E2E):
    def setUp(self):
        super().setUp()
        self.script = self.stage.path("submit.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(SUBMIT)
        self.submit = f"{sys.executable} {self.script} {self.stage.folder}"

    def template(self, text):
        path = self.stage.path("worker.tpl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_the_vessl_pair(self):
        lab = Lab(self.stage, 3)
        with open(os.path.join(SPECS, "launcher.yaml"),
                  encoding="utf-8") as f:
            spec = yaml.safe_load(f)
        says = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE"]

        def command(spec):
            words = shlex.split(spec["run"])
            at = words.index("--")
            self.assertEqual(words[0], "rollcall")
            self.assertEqual(words[at + 1:], ["python3", "/code/train.py"])
            return [harness.ROLLCALL, *words[1:at + 1], *says]
        words = command(spec)
        words[words.index("/code/worker.yaml.tpl")] = os.path.join(
            SPECS, "worker.yaml.tpl")
        self.assertEqual(words[words.index("--submit") + 1],
                         "vessl run create -f")
        words[words.index("--submit") + 1] = self.submit
        launcher = lab.start(1, words, dict(
            spec["env"], NUM_NODES="3", GPUS_PER_NODE="2"))
        told = launcher.await_lines(r"mode (\S+) submitted (\S+)$", 2)
        nodes = [launcher]
        for i in (0, 1):
            self.assertEqual(told[i][1], "0o600")
            with open(self.stage.path(f"worker-{i}.yaml"),
                      encoding="utf-8") as f:
                worker = yaml.safe_load(f)
            self.assertEqual(worker["name"], f"train-worker-{i + 1}")
            nodes.append(lab.start(i + 2, command(worker), {
                name: str(value) for name, value in worker["env"].items()}))
        for node in nodes:
            self.assert_code(node, 0)
            self.assertEqual(len([line for line in node.out()
                                  if "rank" in line and "of 6" in line]), 2)
        for _, _, path in [(m[0], m[1], m[2]) for m in told]:
            self.assertFalse(os.path.exists(path))
        # The token in the template can be used a few times per worker.
        self.assertNotIn(worker["env"]["ROLLCALL_JOIN"], launcher.text())

    def test_a_spec_of_another_scheduler_and_a_shared_secret(self):
        template = self.template("rank=<<NODE_RANK>> of=<<NUM_NODES>> "
                                 "at=<<MASTER_ADDR>> job=<<RDZV_ID>> "
                                 "gpus=<<GPUS_PER_NODE>>\n")
        launcher = self.launch(
            ["--job", "some-job", "--nodes", "2", "--nproc-per-node", "4",
             "--listen", "127.0.0.1:0", "--worker-template", template,
             "--submit", self.submit + " {} --force",
             "--secret-file", self.stage.secret_file("secret")], ["true"])
        # The script expects the spec's path as its last argument.
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find("worker 1 is not submitted"))
        launcher = self.launch(
            ["--job", "some-job", "--nodes", "2", "--nproc-per-node", "4",
             "--listen", "127.0.0.1:0", "--worker-template", template,
             "--submit", self.submit, "--secret-file",
             self.stage.path("secret")], ["true"])
        launcher.await_line("submitted")
        with open(self.stage.path("worker-0.yaml"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "rank=1 of=2 at=127.0.0.1 job=some-job "
                                       "gpus=4\n")
        launcher.signal(2)
        self.assert_code(launcher, 130)

    def test_what_the_template_lacks_is_said_before_anything_starts(self):
        for text, flags, expect in (
                ("<<JOIN>>\n  x: <<RANK>>", ["--nodes", "2"],
                 "line 2, column 6: unknown placeholder <<RANK>>"),
                ("name: w", ["--nodes", "2"], "<<JOIN>>"),
                ("<<JOIN>>", [], "give --nodes"),
                ("<<JOIN>> <<GPUS_PER_NODE>>",
                 ["--nodes", "2", "--nproc-per-node", "auto"],
                 "<<GPUS_PER_NODE>> has no value"),
                ("<<JOIN>>" + " " * (1 << 20), ["--nodes", "2"],
                 "expected at most 1048576 bytes, found more")):
            process = self.stage.run([
                harness.ROLLCALL, "launch", *flags, "--worker-template",
                self.template(text), "--submit", self.submit, "--", "true"])
            self.assert_code(process, 2)
            self.assertIsNotNone(process.find(expect), process.text())

    def test_a_command_that_fails_ends_the_run(self):
        launcher = self.launch(
            ["--nodes", "2", "--worker-template", self.template("<<JOIN>>"),
             "--submit", "false"], ["true"])
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find(
            "worker 1 is not submitted: `false` exited with code 1"))
        self.assertIsNotNone(launcher.find(
            "too few workers could be submitted for --nodes 2"))

    def test_a_worker_that_cannot_be_submitted_is_left_out(self):
        refuses, kept = self.stage.path("refuses"), self.stage.path("kept")
        with open(refuses, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\ngrep -q "rank 1$" "${1#--spec=}" && exit 3\n'
                    f'cp "${{1#--spec=}}" {kept} && echo submitted\n')
        os.chmod(refuses, 0o700)
        launcher = self.launch(
            ["--nodes", "2:3", "--job", "fewer", "--worker-template",
             self.template("<<JOIN>>\nrank <<NODE_RANK>>\n"),
             "--submit", f"{refuses} --spec={{}}"], ["true"])
        launcher.await_line("^submitted$")
        with open(kept, encoding="utf-8") as f:
            join = f.readline().strip()
        worker = self.join(join, ["--name", "w2"], ["true"])
        for node in launcher, worker:
            self.assert_code(node, 0)
        self.assertIsNotNone(launcher.find("worker 1 is not submitted"))
        # The submit command is no node.
        self.assertIsNone(launcher.find("job fewer: enough to begin"))
        self.assertIsNotNone(launcher.find("job fewer: 1 more to begin"))

    def test_ctrl_c_ends_the_command_and_removes_the_file(self):
        waits, gate = self.stage.path("waits"), Gate(self.stage)
        with open(waits, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\ntrap '' TERM\n"
                    f'echo "submits $1 by $$"\ncat {gate.path}\n')
        os.chmod(waits, 0o700)
        launcher = self.launch(
            ["--nodes", "2", "--worker-template", self.template("<<JOIN>>"),
             "--submit", waits], ["true"])
        told = launcher.await_line(r"submits (\S+) by (\d+)$")
        path, pid = told[1], int(told[2])
        self.assertTrue(os.path.exists(path))
        below = proc.descendants(pid)
        # SIGUSR2 is meant only for agents.
        launcher.await_line("missing|waiting")
        launcher.signal(signal.SIGUSR2)
        for told in "stopping the run", "once more":
            launcher.signal(signal.SIGINT)
            launcher.await_line(told)
        self.assert_code(launcher, 130)
        self.assertFalse(os.path.exists(path))
        self.stage.await_gone([pid, *below], "the submit command")

    def test_signals_again_and_again_do_not_put_its_end_off(self):
        waits, gate = self.stage.path("waits"), Gate(self.stage)
        with open(waits, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\ntrap '' TERM\necho by $$\ncat {gate.path}\n")
        os.chmod(waits, 0o700)
        launcher = self.launch(
            ["--nodes", "2", "--worker-template", self.template("<<JOIN>>"),
             "--submit", waits], ["true"])
        pid = int(launcher.await_line(r"by (\d+)$")[1])
        submit, _ = proc.parents()[pid]
        again = self.stage.start([
            "sh", "-c", f"while kill -TERM {submit}; do sleep 1; done"])
        self.stage.await_gone([pid, submit], "the submit command")
        again.wait()
        launcher.wait()
