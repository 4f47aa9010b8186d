"""Tests the key-value store of a generation as Python ranks use it."""
import os
import signal
import sys
import unittest

import harness
from harness import E2E, Gate
from rank_python_test import ENVIRONMENT, PACKAGE, PYTHON

sys.path.insert(0, PACKAGE)
import rollcall  # noqa: E402 pylint: disable=wrong-import-position

# Uses every operation. All ranks run this script; there may be several or one.
OPERATES = """
import threading, rollcall
rank = rollcall.attach()
store, me, size = rank.store, str(rank.world.rank), rank.world.size
everyone = [f"of/{r}" for r in range(size)]
store.set(f"of/{me}", f"value {me}")
store.wait(everyone, timeout=60)
assert store.check(everyone) and not store.check([*everyone, "absent"])
assert store.multi_get(everyone) == [
    f"value {r}".encode() for r in range(size)]
assert store.get(f"of/{me}") == f"value {me}".encode()
# Another thread waits for what this one sets.
got = []
waits = threading.Thread(target=lambda: got.append(store.get("late/" + me, 60)))
waits.start()
store.set("late/" + me, b"\\x00\\xff")
waits.join()
assert got == [b"\\x00\\xff"]
# Each sum is one rank's alone, and below 0 too.
sums = [store.add("sum", -1) for _ in range(50)]
assert sums == sorted(sums, reverse=True) and sums[0] < 0
rank.exchange("added", b"")
assert store.add("sum", 0) == -50 * size and store.get("sum") == (
    str(-50 * size)).encode()
# One rank wins, and the others see whose value it is.
won = store.compare_set("winner", "", me)
assert store.get("winner") == won
assert store.compare_set("winner", "no one", "x") == won
assert store.compare_set("none", "expected", "x") == b"expected"
rank.exchange("won", b"")
if me == "0":
    store.multi_set({f"many/{i}": b"x" * i for i in range(300)})
    large = bytes(1 << 20)
    store.set("large", large)
    assert store.delete("many/0") and not store.delete("many/0")
    store.set("done", "")
store.wait(["done"], timeout=60)
assert store.multi_get([f"many/{i}" for i in range(1, 300)], 60) == [
    b"x" * i for i in range(1, 300)]
assert len(store.get("large", 60)) == 1 << 20
assert store.num_keys() == 2 * size + 2 + 299 + 2
for wrong in (lambda: store.set("", "x"), lambda: store.set("k" * 1025, "x"),
              lambda: store.set("k", bytes((1 << 20) + 1)),
              lambda: store.compare_set("k", bytes(1 << 19), bytes(1 + (1 << 19))),
              lambda: store.wait("k"), lambda: store.add("k", 1 << 63),
              lambda: store.add("k", 1.5), lambda: store.set("k", 7),
              lambda: store.set(7, "x")):
    try:
        wrong()
        raise SystemExit("taken")
    except ValueError:
        pass
try:
    store.add("of/" + me, 1)
    raise SystemExit("added to a text")
except rollcall.Refused as error:
    assert error.code == "INVALID_ARGUMENT" and "of/" in str(error), error
try:
    store.get("never/" + me, timeout=0.05)
    raise SystemExit("got what was never set")
except rollcall.TimedOut as error:
    assert "never/" in str(error)
assert not store.check(["never/" + me])
rank.finish()
rank.close()
print("good", me, size, flush=True)
"""

# Adds to a counter until the file exists, then checks that the counter is the
# sum over all ranks.
COUNTS = """
import os, sys, rollcall
with rollcall.attach() as rank:
    store, before, count = rank.store, 0, 0
    store.set(f"life/{rank.world.rank}", "kept")
    while not os.path.exists(sys.argv[1]):
        total = store.add("counter", 1)
        assert total > before
        before, count = total, count + 1
        assert int(store.get("counter")) >= total
        if count % 50 == 0:
            rank.progress(count)
        if count % 100 == 0:
            print("counts", flush=True)
    counts = rank.exchange("counts", str(count))
    assert store.add("counter", 0) == sum(map(int, counts)), (
        store.get("counter"), counts)
    store.wait([f"life/{r}" for r in range(rank.world.size)], 60)
    print("counted", flush=True)
"""

# The second rank sets a key and ends; the first one goes on using it.
OUTLIVES = """
import sys, rollcall
with rollcall.attach() as rank:
    store = rank.store
    if rank.world.rank == 1:
        store.set("left", "5")
        store.wait(["seen"])
        print("ends early", flush=True)
        raise SystemExit(0)
    assert store.get("left") == b"5"
    store.set("seen", "")
    with open(sys.argv[1]) as gate:
        gate.read()
    for sum in range(6, 20):
        assert store.add("left", 1) == sum
    assert store.num_keys() == 2 and store.delete("left")
    print("outlived", flush=True)
"""

FILLS = """
import rollcall
rank = rollcall.attach()
store = rank.store
try:
    for i in range(100):
        store.set(f"k{i}", bytes(1 << 20))
except rollcall.Refused as error:
    assert error.code == "RESOURCE_EXHAUSTED" and "delete" in str(error), error
    store.delete("k0")
    store.set("k0", "again")
    rank.finish()
    rank.close()
    print("full after", i, flush=True)
"""

WAITS = """
import signal, rollcall
# The agent stops a rank that is not elastic, which is not what is tried here.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank = rollcall.attach()
if rank.world.generation > 1:
    assert not rank.store.check(["of the first"])
    print("again", flush=True)
elif rank.world.rank == 0:
    rank.store.set("of the first", "")
    print("waits", flush=True)
    try:
        rank.store.get("never")
    except rollcall.Aborted as error:
        print("aborted:", error, flush=True)
        raise SystemExit(1)
else:
    rank.store.wait(["of the first"])
    print("fails", flush=True)
    raise SystemExit(3)
"""


class Store(E2E):
    def start_two(self, script, *arguments, flags=()):
        command = [PYTHON, "-c", script, *arguments]
        launcher = self.launch(["--job", "kv", "--nodes", "2", *flags], command,
                               ENVIRONMENT)
        join = self.join_string(launcher)
        worker = self.join(join, ["--name", "w"], command, ENVIRONMENT)
        return launcher, worker

    def test_every_operation_of_four_ranks(self):
        command = [PYTHON, "-c", OPERATES]
        launcher = self.launch(
            ["--local-workers", "1", "--nproc-per-node", "2",
             "--max-restarts", "0"], command, ENVIRONMENT)
        self.assert_code(launcher, 0)
        found = launcher.await_lines(r"good (\d) 4", 4)
        self.assertEqual(sorted(m[1] for m in found), ["0", "1", "2", "3"])

    def test_every_operation_without_an_agent(self):
        tried = self.stage.run([PYTHON, "-c", OPERATES], ENVIRONMENT)
        self.assertEqual(tried.out(), ["good 0 1"])

    def test_kill_9_of_the_daemon_loses_and_doubles_nothing(self):
        ends = self.stage.path("ends")
        launcher, worker = self.start_two(COUNTS, ends,
                                          flags=["--max-restarts", "0"])
        self.goes_on(launcher, worker)
        for _ in range(3):
            daemon = harness.subcommands(harness.descendants(launcher.pid),
                                         "daemon")
            self.assertEqual(len(daemon), 1)
            os.kill(daemon[0], signal.SIGKILL)
            self.stage.await_gone(daemon, "the daemon")
            self.goes_on(launcher, worker)
        with open(ends, "w", encoding="ascii"):
            pass
        for node in (launcher, worker):
            self.assert_code(node, 0)
            self.assertIsNotNone(node.find("counted"))

    def goes_on(self, *nodes):
        """Waits until these nodes have counted more than was in progress."""
        for node in nodes:
            node.await_lines("counts", len(node.out()) + 2)

    def test_the_keys_of_a_node_that_has_finished_live_on(self):
        gate = Gate(self.stage)
        launcher, worker = self.start_two(OUTLIVES, gate.path,
                                          flags=["--max-restarts", "0"])
        worker.await_line("ends early")
        self.await_status(
            self.join_string(launcher),
            lambda s: [n["state"] for n in s["nodes"]].count("finished") == 1,
            "a node that has finished")
        worker.signal(signal.SIGKILL)
        self.stage.await_gone([worker.pid], "the worker's agent")
        gate.open()
        self.assert_code(launcher, 0)
        self.assertIsNotNone(launcher.find("outlived"))

    def test_a_full_store_says_so(self):
        launcher = self.launch(["--job", "full", "--max-restarts", "0"],
                               [PYTHON, "-c", FILLS], ENVIRONMENT)
        self.assert_code(launcher, 0)
        self.assertEqual(launcher.await_line(r"full after (\d+)")[1], "15")

    def test_it_ends_with_its_generation(self):
        launcher, worker = self.start_two(WAITS, flags=["--max-restarts", "1"])
        for node in (launcher, worker):
            self.assert_code(node, 0)
            self.assertIsNotNone(node.find("again"))
        self.assertIsNotNone(launcher.find("aborted: generation 1 has ended"))

    def test_wrong_arguments_name_what_was_expected(self):
        store = rollcall.attach().store
        with self.assertRaisesRegex(ValueError, "1 to 1024 bytes, got one of 0"):
            store.get("")
        with self.assertRaisesRegex(ValueError, r"write \['k'\]"):
            store.check("k")
        with self.assertRaisesRegex(ValueError, "at most 1048576 bytes"):
            store.set("k", bytes((1 << 20) + 1))


if __name__ == "__main__":
    unittest.main()
