"""rollcall-train's checkpoints: an interrupted run loses nothing."""
import filecmp
import glob
import json
import math
import os
import re
import shlex
import shutil
import signal
import socket

import harness
import safetensors_file
from harness import Gate, Lab
from saving import TEXT, TRAIN, Saving


def gpt2_shapes(config):
    """Each tensor's shape in Hugging Face's GPT2Model with this config.json."""
    width = config["n_embd"]

    def linear(name, inputs, outputs):
        return {f"{name}.weight": [inputs, outputs], f"{name}.bias": [outputs]}

    def norm(name):
        return {f"{name}.weight": [width], f"{name}.bias": [width]}
    shapes = {"wte.weight": [config["vocab_size"], width],
              "wpe.weight": [config["n_positions"], width], **norm("ln_f")}
    for layer in range(config["n_layer"]):
        at = f"h.{layer}"
        shapes |= {**norm(f"{at}.ln_1"), **norm(f"{at}.ln_2"),
                   **linear(f"{at}.attn.c_attn", width, 3 * width),
                   **linear(f"{at}.attn.c_proj", width, width),
                   **linear(f"{at}.mlp.c_fc", width, 4 * width),
                   **linear(f"{at}.mlp.c_proj", 4 * width, width)}
    return shapes


class Checkpoints(Saving):
    # --- Results are equal to the bit ----------------------------------------

    def test_interrupted_and_resumed_is_the_same_to_the_bit(self):
        flags = ["--local-workers", "2", "--max-restarts", "0"]
        whole = self.launch(flags, self.command(
            60, "--save-every", "1000", folder=self.stage.path("whole")))
        first = self.launch(flags, self.command(60, "--save-every", "10"))
        first.await_line(r"checkpoint \S+/step-00000010,")
        os.kill(max(self.ranks(first)), signal.SIGKILL)
        self.assert_code(first, 128 + signal.SIGKILL)
        self.assert_code(whole, 0)
        resumed = self.launch(flags, self.command(60, "--save-every", "10"))
        self.assert_code(resumed, 0)
        expect, got = self.losses(whole), self.losses(resumed)
        self.assertEqual(list(expect), list(range(1, 61)))
        # The remaining ranks have kept their state.
        self.assertGreater(min(got), 10)
        self.assertEqual(list(got), list(range(min(got), 61)))
        self.assertEqual(got, {n: expect[n] for n in got})
        # The losses before the interruption are the same, too.
        self.assertEqual(self.losses(first),
                         {n: expect[n] for n in self.losses(first)})
        # The final states of both runs are the same, too.
        for name in ("model.safetensors", "optimizer.safetensors"):
            both = [os.path.join(folder, "step-00000060", name)
                    for folder in (self.folder, self.stage.path("whole"))]
            self.assertTrue(filecmp.cmp(*both, shallow=False), name)

    def test_resumes_in_a_world_of_another_size(self):
        flags = ["--local-workers", "2", "--max-restarts", "0"]
        first = self.launch(flags, self.command(40, "--save-every", "20"))
        self.assert_code(first, 0)
        # Without this checkpoint, the run is as if interrupted after step 20.
        shutil.rmtree(os.path.join(self.folder, "step-00000040"))
        other = self.stage.path("other")
        shutil.copytree(self.folder, other)
        second = self.alone(40)
        self.assert_code(second, 0)
        self.assertEqual(list(self.losses(second)), list(range(21, 41)))
        # The sums of one rank and of three round differently, so the results
        # are only close. In a world of the same size the bits are the same.
        expect = self.losses(first)
        for step, loss in self.losses(second).items():
            self.assertAlmostEqual(loss / expect[step], 1, delta=1e-4)
        again = self.launch(flags, self.command(40, folder=other))
        self.assert_code(again, 0)
        self.assertEqual(self.losses(again),
                         {n: expect[n] for n in range(21, 41)})

    def test_a_run_that_is_done_stays_done(self):
        self.assert_code(self.alone(20), 0)
        manifest = os.path.join(self.folder, "step-00000020", "manifest.json")
        before = os.stat(manifest)
        for steps in (20, 10):
            again = self.alone(steps)
            self.assert_code(again, 0)
            self.assertEqual(self.losses(again), {})
            self.assertEqual(self.saved(), ["step-00000020"])
            # The checkpoint is not written a second time.
            after = os.stat(manifest)
            self.assertEqual((after.st_ino, after.st_mtime_ns),
                             (before.st_ino, before.st_mtime_ns))

    def test_a_run_that_begins_below_the_checkpoint_is_named(self):
        """The next run of the job does not find the checkpoint."""
        state = self.stage.path("kept")
        flags = ["--job", "again", "--state", state, "--nodes", "1:2"]
        first = self.launch(flags, self.command(1 << 20, "--save-every", "5"))
        known = self.await_status(
            self.join_string(first), lambda s: s["saved_step"] > 0,
            "a checkpoint")
        self.assertGreaterEqual(known["step"], known["saved_step"])
        first.signal(signal.SIGUSR1)
        self.assert_code(first, 75)
        gate = Gate(self.stage)
        second = self.launch(flags, ["sh", "-c", "echo 1 >$ROLLCALL_PROGRESS; "
                                     f"cat {gate.path}"])
        told = second.await_line(
            r"generation 1 began at step 1, and step (\d+) had been reached "
            r"before by run \S+, with a checkpoint of step (\d+); check that "
            "the ranks find their checkpoint", "err")
        self.assertLessEqual(int(told[2]), int(told[1]))
        gate.open()
        self.assert_code(second, 0)
        with open(os.path.join(state, "events.jsonl"), encoding="utf-8") as f:
            events = [json.loads(line) for line in f]
        saved = [e["saved"] for e in events
                 if e["event"] in ("checkpoint", "end")]
        # One checkpoint is told at once, the last one with the end.
        self.assertLessEqual(int(saved[0]), int(told[2]))
        self.assertEqual(saved[1], told[2])

    def test_the_loss_is_that_of_the_last_step(self):
        run = self.alone(5)
        self.assert_code(run, 0)
        with open(os.path.join(self.folder, "step-00000005",
                               "trainer_state.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["loss"], self.losses(run)[5])

    def test_saved_by_the_first_rank_of_each_node(self):
        # Each node has its own folder, named after it.
        def command(steps):
            with_folder = self.command(steps, "--save-every", "10",
                                       "--saved-by", "node",
                                       folder="$0.$ROLLCALL_NODE")
            words = " ".join(w if "$0" in w else shlex.quote(w)
                             for w in with_folder)
            return ["sh", "-c", f"exec {words}", self.folder]
        flags = ["--name", "w0", "--local-workers", "1", "--nproc-per-node",
                 "2", "--max-restarts", "0"]
        folders = {node: f"{self.folder}.{node}" for node in ("w0", "local-1")}
        first = self.launch(flags, command(20))
        self.assert_code(first, 0)
        self.assertEqual(sorted(glob.glob(self.folder + "*")),
                         sorted(folders.values()))
        for folder in folders.values():
            self.assertEqual(self.saved(folder),
                             ["step-00000010", "step-00000020"])
        for name in ("model.safetensors", "optimizer.safetensors"):
            both = [os.path.join(folder, "step-00000020", name)
                    for folder in folders.values()]
            self.assertTrue(filecmp.cmp(*both, shallow=False), name)
        # The run resumes from them, each node from its own folder.
        second = self.launch(flags, command(30))
        self.assert_code(second, 0)
        self.assertEqual(list(self.losses(second)), list(range(21, 31)))
        for folder in folders.values():
            self.assertEqual(self.saved(folder)[-1], "step-00000030")

    def test_saved_by_rank_0_alone_unless_told(self):
        command = self.command(10, folder="$0.$ROLLCALL_NODE")
        words = " ".join(w if "$0" in w else shlex.quote(w) for w in command)
        run = self.launch(["--name", "w0", "--local-workers", "1"],
                          ["sh", "-c", f"exec {words}", self.folder])
        self.assert_code(run, 0)
        self.assertEqual(self.saved(self.folder + ".w0"), ["step-00000010"])
        self.assertFalse(glob.glob(self.folder + ".local-1/step-*"))

    def test_keeps_the_last_few(self):
        run = self.alone(50, "--save-every", "10", "--keep-last", "2")
        self.assert_code(run, 0)
        self.assertEqual(self.saved(), ["step-00000040", "step-00000050"])

    # --- Read by other programs ----------------------------------------------

    def test_tensor_files_are_as_published(self):
        self.assert_code(self.alone(5), 0)
        step = os.path.join(self.folder, "step-00000005")
        with open(os.path.join(step, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        expect = gpt2_shapes(config)
        self.assertEqual(len(expect), 4 + 12 * 2)
        weights = safetensors_file.read(os.path.join(step,
                                                     "model.safetensors"))
        self.assertEqual({name: shape for name, (shape, _) in weights.items()},
                         expect)
        moments = safetensors_file.read(os.path.join(step,
                                                     "optimizer.safetensors"))
        self.assertEqual({name: shape for name, (shape, _) in moments.items()},
                         {f"{moment}.{name}": shape
                          for name, shape in expect.items()
                          for moment in ("exp_avg", "exp_avg_sq")})
        for name, (_, values) in [*weights.items(), *moments.items()]:
            self.assertTrue(all(map(math.isfinite, values)), name)
            self.assertTrue(any(values), name)
            if name.startswith("exp_avg_sq."):
                self.assertGreaterEqual(min(values), 0, name)

    # --- Begun with a model ---------------------------------------------------

    def test_begins_with_a_model(self):
        self.assert_code(self.alone(5), 0)
        model = os.path.join(self.folder, "step-00000005")
        folder = self.stage.path("next")
        command = [TRAIN, "--data", *TEXT, "--steps", "3", "--batch", "12",
                   "--log-json", "--log-all-ranks", "--checkpoints", folder,
                   "--init-from", model]
        run = self.launch(["--nodes", "1", "--nproc-per-node", "2"], command)
        self.assert_code(run, 0)
        run.await_line(f"begins with the weights of {model}$", "err")
        # Another batch of the same data has about the same loss.
        before = self.alone(6)
        self.assert_code(before, 0)
        self.assertAlmostEqual(
            self.losses(run)[1] / self.losses(before)[6], 1, delta=0.05)
        # A checkpoint wins.
        command[command.index("--steps") + 1] = "4"
        again = self.stage.start(command)
        self.assert_code(again, 0)
        again.await_line(r"resumed from a checkpoint after step 3, so "
                         rf"--init-from {model} is not used$", "err")
        self.assertEqual(list(self.losses(again)), [4])

    def test_a_model_that_does_not_fit_is_named(self):
        self.assert_code(self.alone(5), 0)
        model = os.path.join(self.folder, "step-00000005")
        config = os.path.join(model, "config.json")
        command = [TRAIN, "--data", *TEXT, "--steps", "3",
                   "--init-from", model]
        run = self.stage.run([*command, "--layers", "9"])
        self.assertEqual(run.code, 2)
        self.assertRegex(run.text(), "--layers: got 9, expected 2")
        with open(os.path.join(model, "model.safetensors"), "r+b") as file:
            file.truncate(1000)
        run = self.stage.run(command)
        self.assertEqual(run.code, 1)
        self.assertRegex(run.text(), "--init-from: .*/model.safetensors: ")
        with open(config, encoding="utf-8") as file:
            said = json.load(file)
        with open(config, "w", encoding="utf-8") as file:
            json.dump({**said, "vocab_size": 300}, file)
        run = self.stage.run(command)
        self.assertEqual(run.code, 1)
        self.assertRegex(run.text(), "--init-from .* has a vocabulary of 300, "
                         "and the tokens of --data one of 256")

    # --- Samples -------------------------------------------------------------

    def test_samples_what_it_was_trained_on(self):
        text = self.stage.path("text")
        with open(text, "w", encoding="ascii") as file:
            file.write("abcdefgh " * 500)
        self.assert_code(self.alone(60, "--lr", "0.01", data=[text]), 0)
        command = [TRAIN, "--sample", "cde", "--sample-tokens", "60"]
        newest = os.path.join(self.folder, self.saved()[-1])
        for model in (["--checkpoints", self.folder], ["--init-from", newest]):
            run = self.stage.run([*command, *model, "--temperature", "0"])
            self.assertEqual(run.code, 0, run.text())
            # More than a context of 32 tokens.
            self.assertEqual(run.out(), [("abcdefgh " * 9)[2:65]])
        drawn = [self.stage.run([*command, *model, "--temperature", "5",
                                 "--seed", seed]).text()
                 for seed in ("1", "1", "2")]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_a_sample_that_is_not_possible_is_named(self):
        command = [TRAIN, "--sample", "a", "--checkpoints", self.folder]
        none = self.stage.run(command)
        self.assertEqual(none.code, 1)
        self.assertRegex(none.text(), "--checkpoints .*: expected a folder")
        self.assertFalse(os.path.exists(self.folder))
        os.mkdir(self.folder)
        self.assertRegex(self.stage.run(command).text(),
                         "--checkpoints .*: there is no checkpoint")
        self.assert_code(self.alone(5), 0)
        under = self.launch(["--max-restarts", "0"], command)
        self.assert_code(under, 1)
        self.assertRegex(under.text(), "--sample runs alone")
        step = os.path.join(self.folder, "step-00000005")
        with open(os.path.join(step, "model.safetensors"), "r+b") as file:
            file.truncate(1000)
        damaged = self.stage.run(command)
        self.assertEqual(damaged.code, 1)
        self.assertRegex(damaged.text(), r"model.safetensors: bytes: .*"
                         "name an older checkpoint with --init-from")

    # --- Stop requests -------------------------------------------------------

    def test_six_ranks_save_the_same_step(self):
        launcher = self.launch(
            ["--local-workers", "2", "--nproc-per-node", "2"],
            self.command(1_000_000, "--log-all-ranks", "--save-every",
                         "1000000"))
        launcher.await_lines(r'"step":10,', 6)
        launcher.signal(signal.SIGUSR1)
        self.assert_code(launcher, 75)
        last = {}
        for line in launcher.out():
            if m := re.search(r'\[(\S+/\d+)\] {"step":(\d+),', line):
                last[m[1]] = int(m[2])
        self.assertEqual(len(last), 6)
        self.assertEqual(len(set(last.values())), 1, last)
        stopped = {int(m[1]) for line in launcher.err() + launcher.out()
                   for m in [re.search(r"stopped after step (\d+)", line)]
                   if m}
        self.assertEqual(stopped, set(last.values()))
        [step] = stopped
        self.assertEqual(self.saved(), [f"step-{step:08d}"])
        # The run resumes from there.
        again = self.alone(step + 2)
        self.assert_code(again, 0)
        self.assertEqual(list(self.losses(again)), [step + 1, step + 2])

    def test_a_rank_alone_saves_when_it_is_asked(self):
        run = self.alone(1_000_000)
        run.await_line(r'"step":5,')
        run.signal(signal.SIGTERM)
        self.assert_code(run, 75)
        step = max(self.losses(run))
        self.assertEqual(self.saved()[-1], f"step-{step:08d}")

    def test_asked_while_a_world_is_formed_anew(self):
        launcher = self.launch(
            ["--local-workers", "2", *harness.whole("2:3"), "--max-restarts",
             "9"],
            self.command(1_000_000, "--save-every", "50"))
        # The line may come from the rank that is killed next, and the other
        # ranks may be one step behind it.
        launcher.await_line(r'"step":61,')
        victim = max(self.ranks(launcher))
        os.kill(victim, signal.SIGKILL)
        launcher.signal(signal.SIGUSR1)
        self.assert_code(launcher, 75)
        # The others' state is saved, even if no periodic save was due.
        self.assertGreaterEqual(int(self.saved()[-1][5:]), 60)
        again = self.alone(1)
        self.assert_code(again, 0)
        # There was a complete checkpoint at all times, and no step is repeated.
        self.assertNotEqual(self.saved(), [])
        self.assertEqual(self.losses(again), {})

    def test_asked_before_the_first_step(self):
        launcher = self.launch(["--nodes", "2"], self.command(10))
        launcher.await_line(harness.JOIN_STRING.pattern)
        launcher.signal(signal.SIGUSR1)
        self.assert_code(launcher, 75)
        self.assertEqual(self.losses(launcher), {})

    def test_asked_while_a_rank_attends(self):
        # If the signal ended this rank now, its peers would wait for it.
        path = self.stage.path("agent")
        with socket.socket(socket.AF_UNIX) as agent:
            agent.bind(path)
            agent.listen()
            agent.settimeout(harness.DEADLINE_S)
            rank = self.stage.start(self.command(10), env={
                "ROLLCALL_SOCKET": path, "LOCAL_RANK": "0",
                "ROLLCALL_GENERATION": "1"})
            connection, _ = agent.accept()
            for signum in (signal.SIGTERM, signal.SIGUSR1):
                rank.signal(signum)
            connection.close()
        os.unlink(path)
        self.assertEqual(rank.wait(), 1)
        self.assertRegex(rank.text(), "could not attend its agent")

    def test_asked_in_the_middle_of_a_checkpoint(self):
        # The rank saves after each step, so the signal arrives during a save.
        run = self.launch(
            ["--local-workers", "1"],
            self.command(1_000_000, "--save-every", "1", width=256))
        run.await_line(r"checkpoint \S+/step-00000003,")
        run.signal(signal.SIGUSR1)
        self.assert_code(run, 75)
        step = max(self.losses(run))
        self.assertEqual(self.saved()[-1], f"step-{step:08d}")
        self.assertEqual(glob.glob(self.folder + "/*.partial"), [])

    # --- Bad input -----------------------------------------------------------

    def test_what_is_damaged_is_skipped_and_named(self):
        self.assert_code(self.alone(30, "--save-every", "10"), 0)
        newest = os.path.join(self.folder, "step-00000030",
                              "model.safetensors")
        with open(newest, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        with open(os.path.join(self.folder, "step-00000020",
                               "optimizer.safetensors"), "r+b") as file:
            file.truncate(100)
        again = self.alone(30, "--save-every", "10")
        self.assert_code(again, 0)
        text = again.text()
        self.assertRegex(text, r"skipped: .*step-00000030/model.safetensors")
        self.assertRegex(text, r"skipped: .*step-00000020/optimizer")
        self.assertEqual(min(self.losses(again)), 11)

    def test_another_model_is_refused(self):
        self.assert_code(self.alone(10), 0)
        other = self.alone(10, layers=1)
        other.wait()
        self.assertEqual(other.code, 1)
        self.assertRegex(other.text(), r"step-00000010.*layer")
        seed = self.alone(10, "--seed", "2")
        self.assertEqual(seed.wait(), 1)
        self.assertRegex(seed.text(), r"--seed 1.*--seed 2")
        self.assertEqual(self.saved(), ["step-00000010"])

    def test_other_data_is_refused_and_other_options_are_named(self):
        self.assert_code(self.alone(10), 0)
        other = self.stage.path("other.txt")
        with open(other, "w", encoding="ascii") as file:
            file.write("other " * 1000)
        run = self.alone(20, data=[other])
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.text(), r"step-00000010 was trained on other data "
                         r"than this --data: .*--new-data")
        run = self.alone(20, "--new-data", "--lr", "0.001", "--schedule",
                         "linear", data=[other])
        self.assert_code(run, 0)
        run.await_line("resumed with other options: --lr 0.003 before, 0.001 "
                       "now; --schedule cosine before, linear now; --steps 10 "
                       "before, 20 now$", "err")
        self.assertEqual(min(self.losses(run)), 11)

    def test_a_full_disk_costs_a_checkpoint_and_no_more(self):
        lab = Lab(self.stage, 1)
        os.mkdir(self.folder)
        lab.run(1, ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs",
                    self.folder])
        # There is room for one checkpoint, not for two.
        run = lab.start(1, self.command(30, "--save-every", "10", width=128))
        self.assertEqual(run.wait(), 1)
        self.assertEqual(list(self.losses(run)), list(range(1, 31)))
        self.assertRegex(run.text(), r"checkpoint \S+/step-00000010,")
        self.assertRegex(run.text(), r"checkpoint not written: .*20.*"
                         r"No space left on device")
        left = lab.run(1, ["ls", self.folder]).out()
        self.assertIn("step-00000010", left)
        self.assertFalse([n for n in left if "partial" in n], left)

    def test_a_folder_that_cannot_be_written_is_told_at_the_start(self):
        lab = Lab(self.stage, 1)
        os.mkdir(self.folder)
        lab.run(1, ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", self.folder])
        run = lab.start(1, self.command(30))
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.text(), r"--checkpoints \S+: expected a folder "
                         r"that this rank may write to.*Read-only")
        self.assertEqual(self.losses(run), {})
        below = lab.start(1, self.command(
            30, folder=os.path.join(self.folder, "a", "b")))
        self.assertEqual(below.wait(), 1)
        self.assertRegex(below.text(), r"/a: cannot be made.*Read-only")

    def test_a_data_file_shorter_than_a_batch(self):
        short = self.stage.path("short.txt")
        with open(short, "w", encoding="ascii") as file:
            file.write("x" * 100)
        run = self.alone(10, data=[short])
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.text(), r"--data holds 100 bytes, or 3 samples.*"
                         r"at least the 12 of --batch")

    def test_a_foreign_shard(self):
        shard = self.stage.path("tokens.bin")
        with open(shard, "wb") as file:
            file.write((20240520).to_bytes(4, "little")
                       + (1).to_bytes(4, "little")
                       + (10**6).to_bytes(4, "little") + bytes(1012 + 1000))
        run = self.alone(10, data=[shard])
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.text(), r"tokens.bin.*1000000")
