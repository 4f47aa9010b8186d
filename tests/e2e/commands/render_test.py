"""Tests `rollcall render`, which makes run specs of platforms from flags."""
import json
import os
import re
import subprocess
import sys

import yaml

import harness
from harness import E2E

SPECS = os.path.join(harness.PROJECT, "specs")

# The files in specs/ are equal to what is rendered without flags.
FILES = {
    "kubernetes": "kubernetes/job.yaml",
    "jobset": "kubernetes/jobset.yaml",
    "leaderworkerset": "kubernetes/leaderworkerset.yaml",
    "trainjob": "kubernetes/trainjob.yaml",
    "slurm": "slurm/train.sbatch",
    "compose": "compose/compose.yaml",
    "systemd": "systemd/rollcalld.service",
    "vessl": "launcher.yaml",
    "vessl-worker": "worker.yaml.tpl",
    "ssh": "ssh/hostfile",
}
PODS = ("kubernetes", "jobset", "leaderworkerset", "trainjob")

# Words that YAML, a shell, Kubernetes or compose would change unquoted.
HOSTILE = [
    "prog", "", " ", "a b", "'", '"', "\\", "\\n", "it's \"so\"", "a\nb\n",
    "\n", "\t", "$HOME", "$(HOME)", "$$", "$", "${X:-y}", "`id`", "a: b", "a:",
    "- a", "-", "#", "a #b", "#SBATCH --x", "&a", "*a", "!x", "{a: b}", "[1,2]",
    "@JOB@", "%h", "true", "No", "on", "null", "~", "1", "1e3", "0x1f", "1:30",
    "2001-01-01", ".5", "<<JOIN>>", "<<", "x<<y>>", "---", "...", "\x01\x7f",
    "\u00e9\u4e2d\U0001f600", "\u0085\u2028\ufeff", "|", ">-", "?", "A=b", "--x",
    "--a b", "\r\n", "=", "y",
]

# Replaces rollcall and writes its arguments to a file.
DUMP = """#!{python}
import json, os, sys
if sys.argv[1:] != ["token", "secret"]:
    with open(os.environ["WORDS"], "w") as f:
        json.dump(sys.argv[1:], f)
"""


def pod_commands(document):
    """Yields all `command` lists below this node."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "command":
                yield value
            yield from pod_commands(value)
    elif isinstance(document, list):
        for value in document:
            yield from pod_commands(value)


class Render(E2E):
    def render(self, *words):
        # Returns the exact bytes, which the lines of a stage's process are not.
        return subprocess.run(
            [harness.ROLLCALL, "render", *words], check=True, timeout=60,
            stdout=subprocess.PIPE).stdout.decode("utf-8")

    def refused(self, *words):
        process = self.stage.run([harness.ROLLCALL, "render", *words])
        self.assert_code(process, 2)
        self.assertEqual(process.out(), [])
        return process.text()

    def test_the_specs_are_what_it_renders(self):
        for platform, path in FILES.items():
            with self.subTest(platform):
                with open(os.path.join(SPECS, path), encoding="utf-8") as f:
                    self.assertEqual(self.render(platform), f.read(),
                                     f"render it again into specs/{path}")

    def test_every_place_has_a_value(self):
        for platform in FILES:
            self.assertIsNone(re.search("@[A-Z_]+@", self.render(platform)))

    def words_of_shell(self, script, *words):
        """Returns the command with which a script starts `rollcall`."""
        folder = self.stage.path("bin")
        os.makedirs(folder, exist_ok=True)
        for name in ("rollcall", "srun"):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(DUMP.format(python=sys.executable)
                        if name == "rollcall" else
                        "#!/bin/sh\nwhile [ \"$1\" != rollcall ]; do shift; "
                        "done\nexec \"$@\"\n")
            os.chmod(path, 0o700)
        said = self.stage.path("words.json")
        process = self.stage.run([*script, *words], dict(
            os.environ, PATH=f"{folder}:{os.environ['PATH']}", WORDS=said,
            SLURM_JOB_ID="1", HOME="/elsewhere"))
        self.assert_code(process, 0)
        with open(said, encoding="utf-8") as f:
            found = json.load(f)
        return found[found.index("--") + 1:]

    def test_hostile_words_reach_the_program(self):
        for platform in (*PODS, "compose"):
            text = self.render(platform, "--", *HOSTILE)
            commands = [c for document in yaml.safe_load_all(text)
                        for c in pod_commands(document)]
            self.assertTrue(commands)
            for command in commands:
                at = command.index("--")
                # Kubernetes and compose replace $$ by $, and read a name after
                # a single $ as a variable.
                self.assertIsNone(re.search(
                    r"(?<!\$)(\$\$)*\$(?!\$)", "\n".join(command)))
                self.assertEqual([w.replace("$$", "$")
                                  for w in command[at + 1:]], HOSTILE)

    def test_hostile_words_pass_a_shell(self):
        path = self.stage.path("train.sbatch")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.render("slurm", "--", *HOSTILE))
        self.assertEqual(self.words_of_shell(["bash", path]), HOSTILE)
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.render("slurm"))
        self.assertEqual(self.words_of_shell(["bash", path], *HOSTILE),
                         HOSTILE)
        for words in (HOSTILE, ["python3", "a b", "$HOME", "'"]):
            spec = yaml.safe_load(self.render("vessl", "--", *words))
            self.assertEqual(self.words_of_shell(["sh", "-c", spec["run"]]),
                             words)
            template = self.render("vessl-worker", "--", *words)
            names = re.findall("<<(.*?)>>", template)
            self.assertLessEqual(set(names), {
                "JOIN", "NODE_RANK", "NUM_NODES", "GPUS_PER_NODE", "RDZV_ID",
                "MASTER_ADDR"})
            spec = yaml.safe_load(re.sub("<<([A-Z_]+)>>", r"\1",
                                         template))
            self.assertEqual(self.words_of_shell(["sh", "-c", spec["run"]]),
                             words)

    def test_flags(self):
        text = self.render(
            "kubernetes", "--job", "no", "--image", "10.0.0.1:5000/a/b@sha256:"
            "00", "--nodes", "16", "--nproc_per_node", "4", "--gpus", "0",
            "--secret-name", "1.2", "--join-timeout", "90s", "--", "x")
        service, job = yaml.safe_load_all(text)
        self.assertEqual(service["metadata"]["name"], "no")
        self.assertEqual(service["spec"]["selector"], {"job-name": "no"})
        self.assertEqual(job["spec"]["completions"], 16)
        self.assertEqual(job["spec"]["backoffLimit"], 48)
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(pod["subdomain"], "no")
        container, = pod["containers"]
        self.assertEqual(container["image"], "10.0.0.1:5000/a/b@sha256:00")
        self.assertEqual(container["command"], [
            "rollcall", "run", "--nodes=16", "--nproc-per-node=4",
            "--join-timeout=90s", "--", "x"])
        self.assertEqual(container["env"][0]["valueFrom"]["secretKeyRef"],
                         {"name": "1.2", "key": "secret"})
        self.assertNotIn("resources", container)
        size = yaml.safe_load(self.render("leaderworkerset", "--nodes", "2"))
        self.assertEqual(size["spec"]["leaderWorkerTemplate"]["size"], 2)
        compose = yaml.safe_load(self.render("compose", "--nodes", "5"))
        self.assertEqual(
            compose["services"]["worker"]["deploy"]["replicas"], 4)
        self.assertEqual(self.render(
            "ssh", "--host", "a", "--host", "me@b slots=2",
            "--nproc-per-node", "4").splitlines()[-2:],
            ["a slots=4", "me@b slots=2"])
        self.assertIn("SBATCH --nodes=9\n", self.render("slurm", "--nodes",
                                                        "9"))

    def test_a_range_of_nodes(self):
        """There are as many pods as the maximum, and each gets the range."""
        counts = {
            "kubernetes": lambda spec: spec["completions"],
            "jobset": lambda spec: spec["replicatedJobs"][0]["template"]
            ["spec"]["parallelism"],
            "leaderworkerset": lambda spec: spec["leaderWorkerTemplate"]
            ["size"],
            "trainjob": lambda spec: spec["trainer"]["numNodes"],
        }
        for platform in PODS:
            with self.subTest(platform):
                documents = list(yaml.safe_load_all(self.render(
                    platform, "--nodes", "2:4")))
                self.assertEqual(counts[platform](documents[-1]["spec"]), 4)
                command, = pod_commands(documents[-1])
                self.assertEqual(command[2], "--nodes=2:4")
                # The same number twice gives the same spec as one number.
                self.assertEqual(self.render(platform, "--nodes", "4:4"),
                                 self.render(platform))

    def test_what_it_refuses(self):
        for words, expect in (
                ((), "expected a platform"),
                (("kubernets",), "did you mean kubernetes?"),
                (("kubernetes", "--job", "Train"), 'got "Train"'),
                (("kubernetes", "--job", "a_b"), "a_b"),
                (("kubernetes", "--job", "1a"), "RFC 1035"),
                (("kubernetes", "--job", "a-"), 'got "a-"'),
                (("kubernetes", "--job", "a" * 62), "at most 61"),
                (("jobset", "--job", "a" * 60), "at most 54"),
                (("kubernetes", "--job", "a\nb"), 'got "a\\nb"'),
                (("kubernetes", "--image", "a b"), "found 'a b'"),
                (("compose", "--image", "a\n  privileged: true"), "--image"),
                (("kubernetes", "--secret-name", "A"), "RFC 1123"),
                (("kubernetes", "--secret-name", "a..b"), "RFC 1123"),
                (("slurm", "--nodes", "2:4"), "one number of nodes for slurm"),
                (("compose", "--nodes", "2:4"), "one number"),
                (("kubernetes", "--nodes", "4:2"), "MIN <= MAX"),
                (("kubernetes", "--nodes", "0"), "--nodes"),
                (("kubernetes", "--gpus", "x"), "--gpus takes 0 to 64"),
                (("kubernetes", "--nproc-per-node", "x"), "auto"),
                (("kubernetes", "--join-timeout", "x"), "--join-timeout"),
                (("slurm", "--image", "a"), "`rollcall render slurm` uses"),
                (("systemd", "--job", "a"), "it has none"),
                (("systemd", "--", "x"), "expected no command"),
                (("ssh", "--host", "-oProxyCommand=x"), "expected a host"),
                (("ssh", "--host", "a\nb"), "expected one host in each"),
                (("ssh", "--host", "a # b"), "--host"),
                (("vessl", "--", b"a\xff".decode("utf-8",
                                                 "surrogateescape")), "UTF-8")):
            with self.subTest(words=words):
                self.assertIn(expect, self.refused(*words))
