"""rollcall-train on four nodes with real text: all ranks have one loss."""
import glob
import json
import os
import random
import re
import signal

import harness
from harness import E2E

STEP = re.compile(r"\[([^/\]]+)/(\d+)\] step (\d+) loss (\d+\.\d+) "
                  r"(\d+\.\d+) samples/s lr (\S+) norm \S+ world (\d+) "
                  r"generation (\d+)")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))


class Train(E2E):
    def steps(self, flags, train_flags):
        launcher = self.launch(
            [*flags, "--max-restarts", "0"],
            [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
             "--log-all-ranks",
             *train_flags])
        self.assert_code(launcher, 0, 100)
        return [m.groups() for line in launcher.out()
                for m in [STEP.search(line)] if m]

    def test_four_nodes_learn_together(self):
        steps = self.steps(["--local-workers", "3"],
                           ["--steps", "100", "--log-every", "20"])
        self.assertEqual({s[6:] for s in steps}, {("4", "1")})
        self.assertEqual({s[1] for s in steps}, set("0123"))
        by_step = {}
        for _, _, step, loss, *_ in steps:
            by_step.setdefault(int(step), []).append(float(loss))
        losses = [losses[0] for _, losses in sorted(by_step.items())]
        for all_ranks in by_step.values():
            self.assertEqual(len(all_ranks), 4)
            self.assertEqual(len(set(all_ranks)), 1, "one loss for all ranks")
        # An untrained model's loss is the logarithm of the vocabulary's size.
        self.assertGreater(losses[0], 5.0)
        self.assertLess(losses[0], 6.0)
        self.assertLess(losses[-1], 3.0)

    def test_all_ranks_validate_on_held_out_text(self):
        with open(self.stage.path("held_out"), "w", encoding="ascii") as file:
            file.write("This text is in no license. " * 400)
        held_out = ["--val-data", self.stage.path("held_out")]
        launcher = self.launch(
            ["--local-workers", "2", "--max-restarts", "0"],
            [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
             "--log-all-ranks", "--steps", "5", "--log-every", "1000",
             *held_out, "--val-every", "2"])
        self.assert_code(launcher, 0, 100)
        said = {}
        for line in launcher.out():
            found = re.search(r"step (\d+) .* validation loss (\d+\.\d+)$",
                              line)
            if found:
                said.setdefault(int(found[1]), []).append(found[2])
        self.assertEqual(sorted(said), [2, 4, 5])
        for losses in said.values():
            self.assertEqual(len(losses), 3)
            self.assertEqual(len(set(losses)), 1, said)
        self.assertRegex(launcher.text(), r"validation on 174 samples of "
                         r"--val-data every 2 steps\n")
        self.assertNotIn("warning: ", launcher.text())

    def test_a_stop_does_not_wait_for_a_validation(self):
        run = self.stage.start(
            [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT[1:],
             "--steps", "1000000", "--log-json", "--val-data", TEXT[0],
             "--val-every", "1"])
        run.await_line(r'"step":3,')
        run.signal(signal.SIGUSR1)
        self.assert_code(run, 75)
        told = [json.loads(line)["validation_loss"] for line in run.out()]
        self.assertIsNone(told.pop())
        self.assertNotIn(None, told)

    def test_all_ranks_skip_the_same_steps(self):
        # A few samples are noise among words that are soon learned.
        mixed = self.stage.path("mixed")
        with open(mixed, "wb") as file:
            file.write(b"The same words again and again. " * 2000)
            file.write(random.Random(1).randbytes(2000))
        launcher = self.launch(
            ["--local-workers", "2", "--max-restarts", "0"],
            [os.path.join(harness.BIN, "rollcall-train"), "--data", mixed,
             "--log-all-ranks", "--log-json", "--steps", "120", "--batch", "4",
             "--skip-spikes", "2"])
        self.assert_code(launcher, 0, 100)
        skipped = {}
        for rank, step, count in re.findall(
                r"\[[^/\]]+/(\d+)\] rollcall-train: step (\d+) skipped, it "
                r"changes no weights: a gradient of norm .* above 2 times .*; "
                r"(\d+) skipped so far", launcher.text()):
            skipped.setdefault(rank, []).append((int(step), int(count)))
        self.assertEqual(sorted(skipped), ["0", "1", "2"])
        self.assertEqual(skipped["1"], skipped["0"])
        self.assertEqual(skipped["2"], skipped["0"])
        last = [json.loads(line[line.index("{"):]) for line in launcher.out()
                if '"step":120,' in line]
        self.assertEqual([said["skipped_steps"] for said in last],
                         [len(skipped["0"])] * 3)
        self.assertEqual(len({said["loss"] for said in last}), 1)

    def test_a_training_that_diverges_ends_and_keeps_its_checkpoints(self):
        # Far too large updates, of the last gradient alone.
        diverges = ["--lr", "10", "--clip", "1e9", "--beta1", "0", "--beta2",
                    "0", "--weight-decay", "10", "--warmup", "2"]
        kept = self.stage.path("kept")
        for flags, said in (
                ([], r"step \d+: loss -?(nan|inf); try a lower --lr"),
                (["--skip-spikes", "3", "--checkpoints", kept, "--save-every",
                  "1", "--keep-last", "1"],
                 r"step \d+: loss -?(nan|inf); --skip-spikes would skip 10 "
                 r"steps in a row, so the run ends")):
            launcher = self.launch(
                ["--local-workers", "1"],
                [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
                 "--layers", "1", "--heads", "2", "--width", "32", "--context",
                 "32", "--batch", "8", *diverges, *flags])
            self.assert_code(launcher, 1, 100)
            self.assertRegex(launcher.text(), said)
            # The same step would give it again, so no restart is spent.
            self.assertFalse(launcher.find("generation 2"), launcher.text())
        skipped = [int(step) for step in re.findall(
            r"step (\d+) skipped, it changes no weights", launcher.text())]
        self.assertEqual(skipped[-9:],
                         list(range(skipped[-9], skipped[-9] + 9)))
        # No checkpoint was written while steps were skipped.
        self.assertEqual([name for name in os.listdir(kept)
                          if name.startswith("step-")],
                         [f"step-{skipped[-9] - 1:08d}"])

    def test_a_wrong_flag_spends_no_restart(self):
        launcher = self.launch(
            ["--local-workers", "1"],
            [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
             "--val-every", "1"])
        self.assert_code(launcher, 2)
        self.assertTrue(launcher.find("--val-every needs --val-data"))
        self.assertFalse(launcher.find("generation 2"), launcher.text())

    def test_bad_validation_data_is_named(self):
        empty = self.stage.path("empty")
        with open(empty, "wb"):
            pass
        train = [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
                 "--steps", "1", "--val-data"]
        for file, said in ((empty, "--val-data holds 0 bytes: expected at "
                            "least 65"),
                           ("/none", "--val-data /none: No such file")):
            ended = self.stage.run([*train, file])
            self.assertEqual(ended.code, 1)
            self.assertIn(said, ended.text())
        ended = self.stage.run([*train, TEXT[0]])
        self.assertEqual(ended.code, 0)
        self.assertIn(f"warning: {TEXT[0]} is in --val-data and in --data",
                      ended.text())

    def test_status_tells_step_loss_and_speed(self):
        launcher = self.launch(
            ["--nodes", "1:2"],
            [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
             "--steps", "100000000", "--log-every", "1", "--val-data",
             TEXT[0], "--val-every", "2", "--val-batches", "1"])
        join = self.join_string(launcher)
        state = self.await_status(
            join, lambda s: s["validation_loss"] is not None and s["step"] > 1,
            "how it goes")
        said = launcher.await_line(rf"step {state['step']} loss (\d+\.\d+)")
        self.assertAlmostEqual(state["loss"], float(said.group(1)),
                               delta=6e-5)
        self.assertGreater(state["tokens_per_second"], 0)
        self.assertEqual(state["steps"], 100000000)
        table = self.stage.run([harness.ROLLCALL, "status", join]).text()
        # A use of the device (MFU) is not known on a CPU.
        self.assertRegex(table, r"\nstep \d+  loss \d+\.\d{4}  \d+ tokens/s"
                         r"  norm \d\S*  validation \d+\.\d{4}  "
                         r"memory \d\S* [KMG]iB\n")
        self.assertGreater(state["gradient_norm"], 0)
        self.assertIsNone(state["flops_utilization"])
        self.assertGreater(state["memory_bytes"], 1 << 20)
        launcher.await_line(
            rf"validation loss {state['validation_loss']:.4f}$")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)

    def test_a_gpu_that_is_not_there_is_named(self):
        if glob.glob("/dev/nvidia[0-9]*"):
            self.skipTest("there is a GPU here")
        command = [os.path.join(harness.BIN, "rollcall-train"), "--data",
                   *TEXT, "--steps", "1"]
        asked = self.stage.run([*command, "--device", "cuda"])
        self.assertEqual(asked.code, 1)
        self.assertRegex(asked.text(), "(?i)cuda|driver")
        self.assertEqual(self.stage.run(command).code, 0)

    def test_alone_is_the_same_program(self):
        steps = self.steps([], ["--steps", "2", "--log-every", "1"])
        self.assertEqual([s[2] for s in steps], ["1", "2"])
        self.assertEqual({s[6] for s in steps}, {"1"})
