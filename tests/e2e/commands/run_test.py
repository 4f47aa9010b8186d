"""`rollcall run` and `rollcall detect`, with the same line on each node."""
import json

import harness
from harness import E2E, Lab

COMMAND = ["--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"]


class Run(E2E):
    def run_on(self, lab, host, env, *flags):
        return lab.start(host, [harness.ROLLCALL, "run", *flags, *COMMAND],
                         env)

    def assert_ranks(self, processes, world_size):
        for process in processes:
            self.assert_code(process, 0)
        ranks = sorted(process.find(r"rank (\d+) of (\d+)").group(1, 2)
                       for process in processes)
        self.assertEqual(ranks, [(str(rank), str(world_size))
                                 for rank in range(world_size)])

    def test_the_launcher_is_the_node_that_the_platform_names(self):
        lab = Lab(self.stage, 3)
        secret = self.stage.secret_file("secret")
        # The launcher, on host 2, starts last.
        processes = [
            self.run_on(lab, host, {
                "LWS_WORKER_INDEX": index, "LWS_GROUP_SIZE": "3",
                "LWS_LEADER_ADDRESS": "10.77.0.2"}, "--secret-file", secret)
            for host, index in ((1, "2"), (3, "1"), (2, "0"))]
        self.assert_ranks(processes, 3)
        self.assertIsNotNone(processes[2].find(
            r"this node launches \(platform leaderworkerset\)"))
        self.assertIsNotNone(processes[0].find(
            r"this node joins 10\.77\.0\.2:29400 .*LWS_WORKER_INDEX=2"))

    def test_a_vessl_pair_with_the_secret_in_the_environment(self):
        lab = Lab(self.stage, 2)
        with open(self.stage.secret_file("secret"), encoding="ascii") as f:
            common = {"NUM_NODES": "2", "GPUS_PER_NODE": "1",
                      "RDZV_ID": "Some_uniq.ID",
                      "ROLLCALL_SECRET": f.read().strip()}
        launcher = self.run_on(lab, 1, dict(common, ROLE="launcher"))
        worker = self.run_on(lab, 2, dict(
            common, ROLE="worker", NODE_RANK="1", MASTER_ADDR="10.77.0.1"))
        self.assert_ranks([launcher, worker], 2)
        self.assertIsNotNone(launcher.find("job some-uniq-id"))
        # The other nodes know how to join, and a scheduler's log must not
        # contain the join string.
        self.assertIsNone(launcher.find(r"rc1\."))
        for process in (launcher, worker):
            self.assertNotIn(common["ROLLCALL_SECRET"], process.text())

    def test_torchruns_line(self):
        lab = Lab(self.stage, 2)
        secret = self.stage.secret_file("secret")
        processes = [
            self.run_on(lab, rank + 1, {}, "--nnodes", "2", "--node_rank",
                        str(rank), "--master_addr", "10.77.0.1",
                        "--master_port", "29511", "--rdzv_backend", "c10d",
                        "--secret-file", secret)
            for rank in (0, 1)]
        self.assert_ranks(processes, 2)
        for process in processes:
            self.assertIsNotNone(process.find(
                "WARNING: --rdzv-backend is not needed"))

    def test_a_node_alone(self):
        process = self.stage.run([harness.ROLLCALL, "run", "--no-hosts",
                                  *COMMAND])
        self.assert_code(process, 0)
        self.assertIsNotNone(process.find("rank 0 of 1"))

    def test_what_does_not_fit_is_refused_before_anything_starts(self):
        for env, flags, expect in (
                ({"JOB_COMPLETION_INDEX": "1", "LWS_WORKER_INDEX": "2",
                  "LWS_GROUP_SIZE": "3"}, [],
                 "LWS_WORKER_INDEX=2 and JOB_COMPLETION_INDEX=1"),
                ({"SLURM_JOB_ID": "7", "SLURM_NNODES": "4"}, [],
                 "srun --ntasks-per-node=1"),
                ({"LOCAL_RANK": "0", "GROUP_RANK": "0"}, [], "torchrun"),
                ({}, ["--nodes", "2"], "--node-rank"),
                ({"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "2"}, [],
                 "rollcall token secret")):
            with self.subTest(env=env):
                process = self.stage.run(
                    [harness.ROLLCALL, "run", *flags, *COMMAND], env)
                self.assert_code(process, 2)
                self.assertIsNotNone(process.find(expect, "err"))

    def test_a_flag_with_an_empty_value_is_named(self):
        process = self.stage.run([
            harness.ROLLCALL, "run", "--no-hosts", "--", "sh", "-c", "exit 0",
            "--node_rank", ""])
        self.assert_code(process, 0)
        self.assertIsNotNone(process.find(
            "WARNING: the command's flag --node_rank has an empty value"))


class Detect(E2E):
    def detect(self, env, *flags):
        process = self.stage.run([harness.ROLLCALL, "detect", *flags], env)
        self.assert_code(process, 0)
        return process

    def test_json_says_which_variable_decided(self):
        found = json.loads(self.detect(
            {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2",
             "SKYPILOT_NODE_IPS": "10.0.0.4\n10.0.0.5",
             "SKYPILOT_NUM_GPUS_PER_NODE": "8"}, "--explain",
            "--json").out()[0])
        self.assertEqual(found, {
            "platform": "skypilot", "platforms": ["skypilot"],
            "role": "worker", "node_rank": 1, "nodes": "2",
            "address": "10.0.0.4", "own_address": None, "gpus": "8",
            "job": None, "attempt": None, "obstacle": "", "because": [
                "node_rank 1: SKYPILOT_NODE_RANK=1",
                "nodes 2: SKYPILOT_NUM_NODES=2",
                "launcher 10.0.0.4: the first host of SKYPILOT_NODE_IPS",
                "ranks 8: SKYPILOT_NUM_GPUS_PER_NODE=8"]})

    def test_plain_lines(self):
        env = {"LWS_WORKER_INDEX": "1", "LWS_GROUP_SIZE": "2"}
        self.assertEqual([line.split() for line in self.detect(env).out()],
                         [["platform", "leaderworkerset"], ["role", "worker"],
                          ["node_rank", "1"], ["nodes", "2"]])
        self.assertIn("because      node_rank 1: LWS_WORKER_INDEX=1",
                      self.detect(env, "--explain").out())

    def test_nothing_is_found_on_a_plain_machine(self):
        self.assertIn("role         alone", self.detect({}).out())
