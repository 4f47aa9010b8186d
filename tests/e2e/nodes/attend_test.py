"""Which agents are admitted and counted, and which missing ones are named."""
import signal
import socket
import sys

import harness
import wire
from harness import E2E, Gate, nodes_by_name, whole

UNAVAILABLE, REFUSED = 69, 77


class Attend(E2E):
    def test_a_wrong_token_is_refused(self):
        gate = Gate(self.stage)
        launcher = self.launch(["--nodes", "2"], ["cat", gate.path])
        text = self.join_string(launcher)
        forged = wire.Join(text)
        forged.secret = bytes(b ^ 1 for b in forged.secret)
        stranger = self.join(forged.text(), ["--name", "stranger"], ["true"])
        self.assert_code(stranger, REFUSED)
        unknown = wire.Join(text)
        unknown.token_id = "zzzzzz"
        self.assert_code(self.join(unknown.text(), [], ["true"]), REFUSED)
        # A worker's token permits `status`, but not `stop`.
        for argv in (["status", forged.text()], ["stop", forged.text()],
                     ["stop", text]):
            asked = self.stage.run([harness.ROLLCALL, *argv])
            self.assertEqual(asked.code, REFUSED, asked.text())
        state = self.status(text)
        self.assertNotIn("stranger", nodes_by_name(state))
        self.assertEqual(state["state"], "gathering")
        launcher.signal(signal.SIGINT)
        launcher.wait()

    def test_nodes_with_long_hellos(self):
        # Each Hello is longer than what a stranger may send.
        env = {f"NCCL_{'X' * 40}_{i}": "v" * 120 for i in range(64)}
        launcher = self.launch(["--nodes", "2"], ["true"], env)
        text = self.join_string(launcher)
        forged = wire.Join(text)
        forged.secret = bytes(b ^ 1 for b in forged.secret)
        stranger = self.join(forged.text(), ["--name", "x"], ["true"], env)
        self.assert_code(stranger, REFUSED)
        self.assert_code(self.join(text, ["--name", "y"], ["true"], env), 0)
        self.assert_code(launcher, 0)

    def test_a_wrong_job_is_refused(self):
        launcher = self.launch(["--nodes", "2"], ["true"])
        text = self.join_string(launcher)
        other = wire.Join(text)
        other.job = "another-job"
        # A launcher's daemon has exactly one job.
        worker = self.join(other.text(), [], ["true"])
        self.assert_code(worker, REFUSED)
        self.assertIn("another-job", worker.text())
        # The launcher's own agent attends at about the same time.
        state = self.await_status(text, lambda s: s["nodes"], "a node")
        self.assertEqual(len(state["nodes"]), 1)
        launcher.signal(signal.SIGINT)
        launcher.wait()

    def test_a_name_that_is_taken(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", f"echo up; cat {gate.path}"]
        launcher = self.launch(["--nodes", "2"], command)
        text = self.join_string(launcher)
        first = self.join(text, ["--name", "twin"], command)
        first.await_line(r"\] up")
        second = self.join(text, ["--name", "twin"], command)
        self.assert_code(second, REFUSED)
        self.assertIn("twin", second.text())
        self.assertIn("--name", second.text())
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(first, 0)
        self.assertIsNone(second.find(r"\] up"))

    def test_a_worker_that_retries_counts_once(self):
        launcher = self.launch(["--nodes", "3"], ["echo", "ran"])
        text = self.join_string(launcher)
        present = lambda s: [n["node"] for n in s["nodes"]
                             if n["state"] == "attending"]
        tries = []
        for _ in range(2):
            worker = self.join(text, ["--name", "w1"], ["echo", "ran"])
            tries.append(worker)
            self.await_status(text, lambda s: "w1" in present(s), "w1")
            worker.kill()
        # A second agent with the name of a live one is refused and not counted.
        stranger = wire.Join(text)
        again = wire.hello(stranger, "w1")
        third = self.join(text, ["--name", "w1"], ["echo", "ran"])
        state = self.await_status(text, lambda s: "w1" in present(s), "w1")
        self.assertEqual(present(state).count("w1"), 1)
        self.assertEqual(len(present(state)), 2)
        self.assertEqual(state["state"], "gathering")
        fake = wire.Stranger(stranger.port())
        self.addCleanup(fake.close)
        self.assertEqual(fake.open().say(again).end(), wire.ALREADY_EXISTS)
        last = self.join(text, ["--name", "w2"], ["echo", "ran"])
        for process in (launcher, third, last):
            self.assert_code(process, 0)

    def test_the_launchers_timeout_fires_and_names(self):
        # On a busy machine, w-gone may attend too late for a short timeout;
        # then a longer one is tried.
        for timeout_s in (2, 8, 32):
            launcher = self.launch(
                ["--nodes", "3", "--join-timeout", f"{timeout_s}s"], ["true"])
            text = self.join_string(launcher)
            # A client that keeps the port busy must not delay the timeout.
            busy = wire.Stranger(wire.Join(text).port())
            self.addCleanup(busy.close)
            watch = self.stage.start([harness.ROLLCALL, "status", text,
                                      "--json", "--watch"])
            gone = self.join(text, ["--name", "w-gone"], ["true"])
            self.stage.pump(lambda: watch.find("w-gone") or launcher.done(),
                            "w-gone, or the timeout")
            gone.signal(signal.SIGKILL)
            self.assert_code(launcher, UNAVAILABLE)
            watch.wait()
            if watch.find("w-gone"):
                break
        self.assertIn("w-gone", "\n".join(launcher.err()))

    def test_a_workers_timeout_names_the_launcher(self):
        nobody = socket.socket()
        self.addCleanup(nobody.close)
        nobody.bind(("127.0.0.1", 0))  # Bound, but not listening.
        port = nobody.getsockname()[1]
        launcher = self.launch(["--nodes", "2"], ["true"])
        join = wire.Join(self.join_string(launcher))
        join.endpoints = [f"127.0.0.1:{port}"]
        worker = self.join(join.text(), ["--join-timeout", "1s"], ["true"])
        self.assert_code(worker, UNAVAILABLE)
        self.assertIn(str(port), "\n".join(worker.err()))
        launcher.signal(signal.SIGINT)
        launcher.wait()

    def test_natural_order_the_same_on_all_nodes(self):
        names = ["node10", "node2", "node1", "node20"]
        command = [sys.executable, "-c",
                   "import json, os; w = json.load(open(os.environ["
                   "'ROLLCALL_WORLD_FILE'])); print('world', os.environ["
                   "'NODE_RANK'], [n['node'] for n in w['nodes']])"]
        launcher = self.launch(["--nodes", "4", "--no-worker"], ["true"])
        text = self.join_string(launcher)
        workers = {n: self.join(text, ["--name", n], command) for n in names}
        order = ["node1", "node2", "node10", "node20"]
        for name, worker in workers.items():
            found = worker.await_line(r"world (\d) (\[.*\])")
            self.assertEqual(int(found[1]), order.index(name))
            self.assertEqual(found[2], str(order))
            self.assert_code(worker, 0)
        self.assert_code(launcher, 0)

    def test_no_rank_starts_before_all_are_prepared(self):
        launcher = self.launch(["--nodes", "3"], ["echo", "ran"])
        text = self.join_string(launcher)
        first = self.join(text, ["--name", "w1"], ["echo", "ran"])
        self.await_status(text, lambda s: len(s["nodes"]) == 2, "two nodes")
        self.assertIsNone(first.find(r"\] ran"))
        self.assertIsNone(launcher.find(r"\] ran"))
        last = self.join(text, ["--name", "w2"], ["echo", "ran"])
        for process in (launcher, first, last):
            self.assert_code(process, 0)
            self.assertIsNotNone(process.find(r"\] ran"))

    def test_last_call_forms_with_fewer(self):
        launcher = self.launch(["--nodes", "2:4"],
                               ["sh", "-c", "echo world-$WORLD_SIZE"])
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           ["true"])
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        self.assertIsNotNone(launcher.find("world-2"))

    def test_a_longer_last_call_waits_for_all(self):
        launcher = self.launch(whole("1:2"),
                               ["sh", "-c", "echo world-$WORLD_SIZE"])
        join = self.join_string(launcher)
        # It comes after a second, when the default last call is over.
        launcher.await_line("waiting: 1 node is here; enough to begin")
        worker = self.join(join, ["--name", "w1"], ["true"])
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        self.assertIsNotNone(launcher.find("world-2"))
        self.assertIsNone(launcher.find("world-1"))

    def test_a_node_that_flaps_lets_the_others_train(self):
        # The work ends once the flapping node has to wait for a seat.
        gate = Gate(self.stage)
        work = ["sh", "-c", f"echo up; exec cat {gate.path}"]
        launcher = self.launch(["--nodes", "2:3"], work)
        text = self.join_string(launcher)
        worker = self.join(text, ["--name", "w1"], work)
        launcher.await_line(r"\] up")
        waits = r"spare: it was lost \d times"
        for flaps in range(8):
            flapper = self.join(text, ["--name", "flapper"], work)
            self.stage.pump(
                lambda: flapper.find(waits) or flapper.find(r"\] up"),
                "the flapper in a world, or waiting for a seat")
            if flapper.find(waits):
                break
            flapper.signal(signal.SIGKILL)
            flapper.wait()
        self.assertGreater(flaps, 1)
        self.assertIsNotNone(flapper.find(waits))
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        flapper.wait()
        self.assert_no_orphans()

    def test_a_world_ends_its_work_while_a_node_flaps(self):
        # The work takes four seconds from the fifth world on, and starts again
        # in each world. The gate is never opened.
        gate = Gate(self.stage)
        work = ["sh", "-c",
                "echo up; [ $ROLLCALL_GENERATION -lt 5 ] || limit=4; "
                f"timeout ${{limit:-0}} cat {gate.path}; echo trained"]
        launcher = self.launch(["--nodes", "2:3"], work)
        text = self.join_string(launcher)
        worker = self.join(text, ["--name", "w1"], work)
        launcher.await_line(r"\] up")
        worlds = 0
        flapper = None
        while not launcher.find(r"\] trained"):
            # After at most this many losses, the flapping node waits longer
            # than the work takes.
            self.assertLess(worlds, 10)
            flapper = self.join(text, ["--name", "flapper"], work)
            self.stage.pump(
                lambda: (flapper.find(r"\] up") or flapper.done() or
                         launcher.find(r"\] trained")),
                "the flapper in a world, or the end of the work")
            if flapper.find(r"\] up"):
                worlds += 1
                flapper.signal(signal.SIGKILL)
                flapper.wait()
        self.assertGreater(worlds, 1)
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        # One that has not attended yet would look for the daemon for minutes.
        if not flapper.done():
            flapper.signal(signal.SIGTERM)
        flapper.wait()
        self.assert_no_orphans()

    def test_heartbeats_keep_an_idle_node(self):
        # Both nodes send only heartbeats. A stopped spare does not send even
        # those: when its lease has ended, a lease of the others would have
        # ended, too.
        gate = Gate(self.stage)
        launcher = self.launch(["--nodes", "2"], ["cat", gate.path])
        text = self.join_string(launcher)
        worker = self.join(text, ["--name", "w1"], ["cat", gate.path])
        self.await_status(text, lambda s: s["state"] == "running", "a world")
        spare = self.join(text, ["--name", "w2"], ["true"])
        self.await_status(text, lambda s: nodes_by_name(s).get(
            "w2", {}).get("state") == "spare", "w2 as a spare")
        spare.signal(signal.SIGSTOP)
        state = self.await_status(text, lambda s: nodes_by_name(s).get(
            "w2", {}).get("state") in (None, "lost"), "the end of its lease")
        nodes = nodes_by_name(state)
        nodes.pop("w2", None)
        self.assertEqual({n["state"] for n in nodes.values()}, {"running"})
        self.assertEqual(len(nodes), 2)
        for node in nodes.values():
            self.assertGreater(node["lease_ms"], 0)
        self.assertEqual((state["state"], state["generation"]), ("running", 1))
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(worker, 0)
        spare.signal(signal.SIGKILL)
