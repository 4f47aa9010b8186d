"""Tests the READMEs: command lines, flags, keys, links, and the first run."""
import os
import re
import shlex
import subprocess
import unicodedata

import yaml

import harness
from harness import E2E, JOIN_STRING, Lab

PROGRAMS = ("rollcall", "rollcalld", "rollcall-train")
FIRST_WORD = re.compile(
    r"(?:^|(?<=[\s(;|&]))(rollcall-train|rollcalld|rollcall)(?=\s|$)")
FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
# Flags of other programs.
OTHERS = {
    "cmake, ctest": "--preset --build --output-on-failure",
    "docker, podman": "--init --network --gpus --shm-size --ulimit --device "
                      "--stop-timeout --hostname --ipc",
    "apptainer, enroot": "--nv --bind --cleanenv --containall --conf",
    "torchrun": "--nnodes --node_rank --nproc_per_node --master_addr "
                "--master_port --max-restarts --nproc-per-node --rdzv-backend "
                "--rdzv-endpoint --rdzv-id --rdzv-conf --standalone "
                "--monitor-interval --node-rank --redirects --tee "
                "--local-ranks-filter --role --no-python --module "
                "--start-method --run-path --local-addr --numa-binding "
                "--log-line-prefix-template --duplicate-stdout-filters "
                "--duplicate-stderr-filters --logs-specs --print-completion "
                "--event-log-handler --virtual-local-rank --signals-to-handle "
                "--shutdown-timeout",
    "deepspeed, mpirun": "--hostfile --master_port",
    "Slurm": "--signal --container-image",
    "GoogleTest": "--gtest_filter",
    "rollcall_sim and its scripts": "--seed --seeds --trace --group --journal "
                                    "--merge --only --floors --list",
    "etcdctl": "--prefix",
    # Hidden flags, for torchrun's command lines and for tests.
    "rollcall": "--node_rank --master_addr --master_port --master-addr "
                "--master-port --rdzv_backend --sysroot --verbs-lib "
                "--nvml-lib",
}
OTHER_FLAGS = {flag for flags in OTHERS.values() for flag in flags.split()}
# Commands that --help does not list.
HIDDEN = ("facts",)
# Text that looks like a command line but is none.
NO_COMMANDS = ("rollcall v1",)


def readmes():
    listed = subprocess.run(
        ["git", "ls-files", "*README.md"], cwd=harness.PROJECT, text=True,
        capture_output=True, check=False).stdout.split()
    if not listed:  # An archive of the project is not a git repository.
        for folder, folders, files in os.walk(harness.PROJECT):
            folders[:] = [name for name in folders
                          if name not in ("build", ".git")]
            if "README.md" in files:
                listed.append(os.path.relpath(os.path.join(
                    folder, "README.md"), harness.PROJECT))
    return sorted(listed)


def read(path):
    with open(os.path.join(harness.PROJECT, path), encoding="utf-8") as f:
        return f.read()


def blocks(text):
    """Returns (text outside of code blocks, list of code blocks)."""
    parts = re.split(r"^```.*\n([\s\S]*?)^```$", text, flags=re.M)
    return "\n".join(parts[::2]), parts[1::2]


def section(text, title):
    """Returns the text below a heading, up to the next of its level."""
    found = re.search(rf"^(#+) {re.escape(title)}$\n([\s\S]*?)(?=^\1 |\Z)",
                      text, re.M)
    return found[2]


def lines_of_code(text):
    """Each line of a code block or code span that may be a command line."""
    prose, code = blocks(text)
    for block in code:
        for line in block.replace("\\\n", " ").splitlines():
            # Removes a prompt, variables, or a recording's marker.
            line = re.sub(r"^\s*(\$ |--- |(\w+=\S* )+)?\s*", "", line)
            if FIRST_WORD.match(line):
                yield line
    for span in re.findall(r"``?([^`]+)``?", prose):
        span = " ".join(span.split())
        if FIRST_WORD.match(span) and span not in NO_COMMANDS:
            yield span


def commands_of(line):
    """Yields (program, words) for each of our programs in a line. Words after
    `--` belong to the next program. A comment or a column of explanations ends
    the line."""
    line = re.split(r"\s#|\s{3,}(?=[a-z])|[|;&>](?:\s|$)", line)[0]
    starts = [m.start(1) for m in FIRST_WORD.finditer(line)]
    for begin, end in zip(starts, starts[1:] + [len(line)]):
        words = line[begin:end].replace("[", " ").replace("]", " ").split()
        at = words.index("--") if "--" in words else len(words)
        yield words[0], words[1:at]


class Readmes(E2E):
    def setUp(self):
        super().setUp()
        self.helps = {}

    def help(self, *words):
        """Returns the output of --help for these words."""
        if words not in self.helps:
            done = subprocess.run(
                [os.path.join(harness.BIN, words[0]), *words[1:], "--help"],
                text=True, capture_output=True, timeout=60, check=True)
            self.helps[words] = done.stdout
        return self.helps[words]

    def flags(self, *words):
        return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*",
                              self.help(*words)))

    def commands(self):
        """Returns the commands of rollcall and those of token."""
        def listed(text):
            return re.findall(r"^  (\w[\w-]*)", text.split(
                "Subcommands:\n")[1], re.M)
        names = listed(self.help("rollcall"))
        self.assertIn("launch", names)
        return [(name,) for name in names] + [
            ("token", verb) for verb in listed(self.help("rollcall", "token"))]

    def check_command(self, program, words):
        """Returns what is wrong with a command line, or "" if nothing is."""
        given = [word.split("=")[0] for word in words if FLAG.match(word)]
        path = (program,)
        if program == "rollcall":
            named = [w for w in words if re.fullmatch(r"[a-z][a-z|-]*", w)]
            if not named:
                return ""
            if named[0] in HIDDEN:
                return ""
            path = (program, named[0])
            if (named[0],) not in self.commands():
                return f"no command {named[0]}"
            if named[0] == "token" and len(named) > 1:
                for verb in named[1].split("|"):
                    if ("token", verb) not in self.commands():
                        return f"no command token {verb}"
                path = (*path, named[1].split("|")[0])
        unknown = [flag for flag in given if flag not in self.flags(*path)]
        return f"{' '.join(path)} has no {unknown}" if unknown else ""

    def test_every_command_line(self):
        seen, wrong = 0, []
        for path in readmes():
            for line in lines_of_code(read(path)):
                for program, words in commands_of(line):
                    seen += 1
                    problem = self.check_command(program, words)
                    if problem:
                        wrong.append(f"{path}: {line}: {problem}")
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 60)
        # The check also finds errors in lines that have some.
        for line in ("rollcall lunch -- true", "rollcall token mint",
                     "rollcall join X --hostfile h", "rollcalld --nodes 2",
                     "rollcall launch -- rollcall-train --dat x"):
            self.assertTrue(any(self.check_command(*command)
                                for command in commands_of(line)), line)

    def test_every_flag(self):
        known = set(OTHER_FLAGS)
        for words in [("rollcalld",), ("rollcall-train",)] + [
                ("rollcall", *command) for command in self.commands()]:
            known |= self.flags(*words)
        wrong = [f"{path}: {flag}" for path in readmes()
                 for flag in FLAG.findall(read(path)) if flag not in known]
        self.assertEqual(wrong, [])

    def test_the_tables_of_flags(self):
        client = read("client/README.md")
        # Each flag in the table exists, and the README has each flag of launch.
        table = section(client, "Flags of `launch`")
        cells = re.findall(r"^\| ((?:`[^`]*`(?:, )?)+) \|", table, re.M)
        documented = set(FLAG.findall(" ".join(cells)))
        self.assertGreater(len(documented), 40)
        launch = self.flags("rollcall", "launch")
        self.assertEqual(documented - launch, set())
        self.assertEqual(
            {flag for flag in launch if flag.startswith("--")}
            - set(FLAG.findall(client)) - {"--help"}, set())
        # The flags of the other commands.
        rows = re.findall(r"^\| `(join|status|drain|evict|stop)` \| (.*) \|$",
                          client, re.M)
        self.assertEqual(len(rows), 5)
        for command, text in rows:
            self.assertEqual(set(FLAG.findall(text)) -
                             self.flags("rollcall", command), set(), command)
        # The flags of the platforms of render.
        for platforms, text in re.findall(
                r"^\| ((?:`[\w-]+`(?:, )?)+)[^|]*\| (`--.*) \|$",
                section(read("client/launch/README.md"),
                        "Run specs of platforms"), re.M):
            for platform in re.findall(r"`([\w-]+)`", platforms):
                for flag in FLAG.findall(text):
                    done = self.stage.run([harness.ROLLCALL, "render",
                                           platform, flag, "1"])
                    self.assertNotIn("expected a flag that", done.text())

    # Values for keys whose flag checks its value; others get "1h".
    VALUES = {
        "nodes": 2, "nproc-per-node": 2, "max-restarts": 1, "grow": "never",
        "preflight": "off", "preempt-signal": "TERM", "requeue-exit-code": 75,
        "listen": "127.0.0.1:0", "http": "127.0.0.1:0", "nccl-env": "all",
        "token-ttl": "1h", "folder": ["d"], "hosts-names": ["a"],
        "same": ["f"], "shared": ["d"], "env": {"NCCL_ALGO": "Ring"},
        "setup-retries": 1, "last-call": "30s",
    }

    def spec_takes(self, key):
        """Returns whether a run spec may have this key."""
        value = self.VALUES.get(key, "1h")
        path = self.stage.path("spec.yaml")
        messages = []
        for one in (value, True):
            with open(path, "w", encoding="utf-8") as f:
                yaml.safe_dump({key: one}, f)
            ended = self.stage.run([harness.ROLLCALL, "launch", "--spec", path])
            self.assert_code(ended, 2)
            messages.append(ended.text())
        self.assertEqual(*("expected a key of a run spec" in text
                           for text in messages), messages)
        # One of the values has the right type; only the command is missing.
        taken = any("expected the key command" in text or
                    "needs" in text or "requires" in text.lower()
                    for text in messages)
        unknown = "expected a key of a run spec" in messages[0]
        self.assertNotEqual(taken, unknown, messages)
        return taken

    def test_every_key_of_a_run_spec(self):
        text = section(read("client/README.md"), "A run spec")
        keys = set(re.findall(r"`([a-z-]+)`", re.search(
            r"^Keys: ([\s\S]*?)\.$", text, re.M)[1]))
        self.assertGreater(len(keys), 30)
        for key in sorted(keys):
            self.assertTrue(self.spec_takes(key), key)
        for flag in sorted(self.flags("rollcall", "launch")):
            key = flag.lstrip("-")
            if flag.startswith("--") and key != "help":
                self.assertEqual(self.spec_takes(key), key in keys, key)
        # These keys have a form of their own; error messages list them.
        table = set(re.findall(r"^\| `([a-z]+)", text, re.M))
        self.assertEqual(table, {"command", "environment", "spawn"})
        for path, inside in (
                ("spawn", "local ssh template"),
                ("spawn.ssh", "hosts hostfile command push"),
                ("spawn.template", "file submit")):
            spec = {"none": 1}
            for key in reversed(path.split(".")):
                spec = {key: spec}
            with open(self.stage.path("spec.yaml"), "w",
                      encoding="utf-8") as f:
                yaml.safe_dump(spec, f)
            said = self.stage.run([harness.ROLLCALL, "launch", "--spec",
                                   self.stage.path("spec.yaml")]).text()
            known = re.search("; known are (.*)", said)[1].split(", ")
            self.assertEqual(known, inside.split())
            for key in known:
                self.assertIn(key, text)

    def test_every_link(self):
        wrong, seen = [], 0
        for path in readmes():
            prose, _ = blocks(read(path))
            for target in re.findall(r"\]\(([^)\s]+)\)", prose):
                if re.match(r"[a-z]+:", target):
                    continue
                seen += 1
                problem = self.check_link(path, target)
                if problem:
                    wrong.append(f"{path}: {target}: {problem}")
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 40)
        for target in ("nothing.md", "#nothing", "client/README.md#nothing"):
            self.assertTrue(self.check_link("README.md", target), target)

    def test_every_name_in_a_file(self):
        """Checks for each "`Name` in `file.cc`" that the file has the name."""
        wrong, seen = [], 0
        for path in readmes():
            prose = " ".join(blocks(read(path))[0].split())
            for names, file in re.findall(
                    r"((?:`[\w:]+`(?: \([^)]*\))?(?:,| and)? )+)"
                    r"in `([\w./]+\.\w+)`", prose):
                for name in re.findall(r"`([\w:]+)`",
                                       re.sub(r"\([^)]*\)", "", names)):
                    seen += 1
                    problem = self.check_name(path, name, file)
                    if problem:
                        wrong.append(f"{path}: {problem}")
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 20)
        for name, file in (("Classify", "client/admin/job_text.cc"),
                           ("Classify", "no/such_file.cc")):
            self.assertTrue(self.check_name("README.md", name, file))

    def check_name(self, path, name, file):
        """Returns what is wrong with such a name. `file` is the end of a path
        below the README's folder or, if no file matches there, below the top
        folder."""
        text = ""
        for top in (os.path.dirname(path), ""):
            top = os.path.join(harness.PROJECT, top)
            for folder, folders, files in os.walk(top):
                folders[:] = [one for one in folders
                              if one not in ("build", ".git")]
                if os.path.basename(file) in files:
                    found = os.path.join(folder, os.path.basename(file))
                    if found.endswith("/" + file):
                        text += read(os.path.relpath(found, harness.PROJECT))
            if text:
                break
        if not text:
            return f"there is no {file}"
        last = name.split(":")[-1]
        return "" if re.search(rf"\b{last}\b", text) else f"no {name} in {file}"

    @staticmethod
    def check_link(path, target):
        name, _, anchor = target.partition("#")
        found = os.path.normpath(os.path.join(
            harness.PROJECT, os.path.dirname(path), name)
            if name else os.path.join(harness.PROJECT, path))
        if not os.path.exists(found):
            return "no such file"
        if not anchor:
            return ""
        prose, _ = blocks(read(found))
        known = {}
        for heading in re.findall(r"^#+ (.*)$", prose, re.M):
            # The anchors are made as GitHub makes them.
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
            slug = "".join(
                "-" if c == " " else c for c in text
                if c in " -_" or unicodedata.category(c)[0] in "LN")
            count = known.get(slug, 0)
            known[slug] = count + 1
            if count:
                known[f"{slug}-{count}"] = 1
        return "" if anchor in known else "no such heading"


class FirstRun(E2E):
    def test_two_machines(self):
        """The commands of README.md's "Two machines" print its output."""
        _, (first, second) = blocks(section(read("README.md"), "Two machines"))
        launch, *shown = first.rstrip("\n").split("\n")
        self.assertTrue(launch.startswith("$ "))
        self.assertTrue(second.startswith("$ ") and second.count("\n") == 1)
        with open(self.stage.path("train.py"), "w", encoding="utf-8") as f:
            f.write("import os\nprint('rank', os.environ['RANK'], 'of', "
                    "os.environ['WORLD_SIZE'])\n")
        lab = Lab(self.stage, 2)
        launcher = lab.start(1, shlex.split(launch[2:]))
        token = launcher.await_line(JOIN_STRING.pattern, "err")[0]
        # The lines are compared as one block of text.
        launcher.await_line("worker.join", "err")
        example = re.compile(r"rc1\.[\w-]+\.*")
        self.assertIn("rc1.", "\n".join(shown))
        self.assertIn(
            "\n".join(example.sub(token, line) for line in shown),
            "\n".join(launcher.err()), self.stage.transcript())
        worker = lab.start(2, shlex.split(example.sub(token, second[2:], 1)))
        for process, rank in ((worker, 1), (launcher, 0)):
            self.assert_code(process, 0)
            self.assertIsNotNone(process.find(f"rank {rank} of 2"),
                                 process.text())
