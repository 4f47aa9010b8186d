"""Parts of the Python package that need no agent."""
import json
import os
import signal
import sys
import threading
import unittest

import harness
from rank_python_test import PACKAGE

sys.path.insert(0, PACKAGE)

# pylint: disable=wrong-import-position
from rollcall._boundary import Boundary, Due  # noqa: E402
from rollcall._collectives import _last_recorded  # noqa: E402
from rollcall._leave_signals import LeaveSignals  # noqa: E402
from rollcall._monitor import Monitor  # noqa: E402

DEADLINE_S = 60


class Interrupted(Exception):
    """A handler raises it, as Python's own does KeyboardInterrupt."""


class Monitors(unittest.TestCase):
    def setUp(self):
        self.monitor = Monitor()
        self.may_raise = False
        self.interrupts = 0

        def interrupt(*_):
            self.interrupts += 1
            if self.may_raise:
                self.may_raise = False
                raise Interrupted
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def test_wakes_a_thread_that_waits(self):
        values, seen = [], []
        waits = threading.Thread(target=lambda: seen.append(
            self.monitor.await_true(lambda: len(values) == 2, DEADLINE_S)))
        waits.start()
        for value in (1, 2):
            with self.monitor.lock:
                values.append(value)
                self.monitor.notify_all()
        waits.join()
        self.assertEqual(seen, [True])
        self.assertFalse(self.monitor.await_true(lambda: False, 0.001))
        self.assertTrue(self.monitor.await_true(lambda: True, 0))
        self.assertEqual(self.monitor._waiting, set())

    def test_a_handler_that_raises_leaves_the_lock_free(self):
        free = []

        def take():
            free.append(self.monitor.lock.acquire(timeout=DEADLINE_S))
            if free[-1]:
                self.monitor.lock.release()
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        raised = 0
        # It interrupts a wait that ends at once, and one that does not.
        for holds in (lambda: True, lambda: False):
            while self.interrupts < 400:
                try:
                    self.may_raise = True
                    while self.may_raise:
                        self.monitor.await_true(holds, 0.01)
                except Interrupted:
                    raised += 1
                self.may_raise = False
                if raised % 20 == 0:
                    other = threading.Thread(target=take)
                    other.start()
                    other.join()
                    self.assertTrue(free[-1])
            self.interrupts = 0
        self.assertGreater(raised, 400)
        with self.monitor.lock:
            self.monitor.notify_all()
        self.assertEqual(self.monitor._waiting, set())

    def test_a_signal_that_does_not_end_the_system_call_is_handled(self):
        """As one that comes just before it: Python knows of the signal, and the
        call that waits goes on."""
        gives_up, over = threading.Event(), threading.Event()

        def interrupt():
            # The system interrupts this thread, Python's handler the main one.
            signal.pthread_kill(threading.get_ident(), signal.SIGALRM)
            if not over.wait(DEADLINE_S):
                gives_up.set()
                with self.monitor.lock:
                    self.monitor.notify_all()
        waiting = threading.Event()

        def holds():
            waiting.set()
            return gives_up.is_set()

        def after_it_waits():
            waiting.wait()
            # Once this has the lock, the main thread is about to wait.
            with self.monitor.lock:
                pass
            interrupt()
        self.may_raise = True
        other = threading.Thread(target=after_it_waits)
        other.start()
        with self.assertRaises(Interrupted):
            self.monitor.await_true(holds)
        over.set()
        other.join()
        self.assertFalse(gives_up.is_set())


class Boundaries(unittest.TestCase):
    """One rank in generation 7, after step 20."""

    def setUp(self):
        self.boundary = Boundary()
        self.boundary.enter(7)

    def test_who_is_to_do_what(self):
        for what, steps in (
                ("in no world", [("leave",), Due.NOTHING]),
                ("it takes the state over", [Due.NOTHING]),
                ("it trains", [("begin", 20), Due.NAME]),
                ("it commits", [("begin", 20), ("busy",), Due.NOTHING]),
                ("the boundary is ahead",
                 [("begin", 20), ("step", 21), Due.NOTHING]),
                ("it has gone on after the boundary",
                 [("begin", 20), ("step", 20), Due.FREE]),
                ("it has returned",
                 [("begin", 20), ("returned",), Due.NAME]),
                ("it has returned before the boundary",
                 [("begin", 20), ("returned",), ("step", 21), Due.ANSWER]),
                ("it has answered this notice",
                 [("begin", 20), ("step", 20), ("answer", 5), Due.NOTHING]),
                ("another notice while it stands there",
                 [("begin", 20), ("step", 20), ("answer", 4), Due.ANSWER]),
                ("one of the world before was answered",
                 [("begin", 20), ("step", 20), ("answer", 4), ("enter", 8),
                  ("begin", 20), Due.NAME])):
            with self.subTest(what):
                self.setUp()
                for step in steps[:-1]:
                    self.do(*step)
                self.assertEqual(self.boundary.due(5), steps[-1])

    def do(self, what, *values):
        boundary = self.boundary
        if what in ("busy", "returned"):
            setattr(boundary, {"busy": "is_busy"}.get(what, what), True)
        elif what == "step":
            [boundary.step] = values
        else:
            getattr(boundary, what)(*values)

    def test_a_notice_is_answered_once(self):
        self.boundary.begin(20)
        self.assertTrue(self.boundary.answer(4))
        self.assertFalse(self.boundary.answer(4))
        self.assertTrue(self.boundary.answer(5))

    def test_no_rank_is_past_the_boundary_that_one_names(self):
        """Ranks are at most one step apart; one that has returned is ahead of
        all."""
        for done, returned, others in (
                (20, False, (19, 20, 21)), (20, True, (19, 20))):
            self.boundary.begin(done)
            self.boundary.returned = returned
            named = self.boundary.proposal()
            self.assertEqual(named, done if returned else done + 1)
            for other in others:
                self.assertLessEqual(other, named)
            self.boundary.step = named
            self.assertEqual(self.boundary.is_reached(), returned)


class Leaving(unittest.TestCase):
    def test_a_signal_ends_a_forked_child(self):
        """Also while the rank saves, when signals to the rank do nothing."""
        signals = LeaveSignals(None, lambda: True)
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGTERM)
        signals.close()
        status = os.waitpid(child, 0)[1]
        self.assertEqual(os.waitstatus_to_exitcode(status), -signal.SIGTERM)


class Collectives(unittest.TestCase):
    def test_the_last_one_of_a_flight_recorder(self):
        for rank, last in ((0, 5), (1, 4)):
            with open(os.path.join(
                    harness.PROJECT, "tests", "recorded",
                    f"flight_recorder_rank{rank}.json"), encoding="utf-8") as f:
                self.assertEqual(_last_recorded(json.load(f)), last)
        self.assertEqual(_last_recorded({}), 0)


if __name__ == "__main__":
    unittest.main()
