"""Tests signals, `stop` and `drain`: which signal each rank gets, and how long
a rank may take.

There is no event that shows how long a rank may take. So a second job is
stopped a moment earlier, in the way that gives its ranks the whole grace
period. A job that ends while the second one still runs has not waited for that
period.
"""
import json
import re
import signal
import sys
import time

import harness
from harness import E2E, Gate

# Runs the handlers. A signal right before signal.pause() would be heard only with
# the next one; here it writes to the pipe.
AWAIT_SIGNALS = """
came, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)
os.write(1, f"up g{os.environ['ROLLCALL_GENERATION']}\\n".encode())
while True:
    os.read(came, 1)
"""

# Prints each signal that it gets. After a signal that is named in its arguments
# it prints its notice file and exits 0.
HEARS = """
import json, os, signal, sys
def say(*words):  # print() in a handler may interrupt another print().
    os.write(1, (" ".join(words) + "\\n").encode())
def hears(number, _):
    name = signal.Signals(number).name
    say("heard", name)
    if name in sys.argv[1:]:
        path = os.environ["ROLLCALL_NOTICE"]
        say("notice", open(path).read().strip() if os.path.exists(path)
            else "none")
        os._exit(0)
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, hears)
""" + AWAIT_SIGNALS

# In generation 1, only SIGKILL ends this rank; it prints a line at SIGTERM.
STUBBORN = """
import os, signal
def stays(number, _):
    os.write(1, b"asked\\n")
if os.environ["ROLLCALL_GENERATION"] == "1":
    signal.signal(signal.SIGTERM, stays)
""" + AWAIT_SIGNALS


def hears(*ends_by):
    return [sys.executable, "-c", HEARS, *ends_by]


class Signals(E2E):
    def rollcall(self, *words):
        ended = self.stage.run([harness.ROLLCALL, *words])
        self.assertEqual(ended.code, 0, ended.text())
        return ended

    def heard(self, process):
        """Returns (rank, signal) for each signal that ranks printed."""
        return sorted((int(m[1]), m[2]) for line in process.out()
                      for m in [re.match(
                          r"\[\S+/(\d+)\] heard (\S+)$", line)] if m)

    # --- Which signal ----------------------------------------------------------

    def test_sigusr2_reaches_every_rank_and_ends_none(self):
        launcher = self.launch(
            ["--local-workers", "1", "--nproc-per-node", "2"],
            hears("SIGTERM"))
        launcher.await_lines(r"\] up g1$", 4)
        launcher.signal(signal.SIGUSR2)
        launcher.await_lines(r"\] heard SIGUSR2$", 4)
        self.assertEqual(self.heard(launcher),
                         [(rank, "SIGUSR2") for rank in range(4)])
        # It has no other effect: the job still runs, and ends at SIGTERM.
        launcher.signal(signal.SIGTERM)
        self.assert_code(launcher, 75)
        self.assertEqual(self.heard(launcher), [
            (rank, name) for rank in range(4)
            for name in ("SIGTERM", "SIGUSR2")])

    def test_sigusr2_to_an_agent_reaches_its_ranks_alone(self):
        launcher = self.launch(["--nodes", "2"], hears("SIGTERM"))
        worker = self.join(self.join_string(launcher),
                           ["--name", "w1", "--nproc-per-node", "2"],
                           hears("SIGTERM"))
        launcher.await_line(r"\] up g1$")
        worker.await_lines(r"\] up g1$", 2)
        worker.signal(signal.SIGUSR2)
        worker.await_lines(r"\] heard SIGUSR2$", 2)
        launcher.signal(signal.SIGTERM)
        for process in (launcher, worker):
            self.assert_code(process, 75)
        self.assertEqual(self.heard(launcher), [(0, "SIGTERM")])

    def test_preempt_signal_is_what_ranks_get(self):
        launcher = self.launch(
            ["--nodes", "3", "--local-workers", "1", "--preempt-signal",
             "SIGUSR1"], hears("SIGUSR1", "SIGTERM", "SIGUSR2"))
        # Each agent has its own flag; this one has another signal, by number.
        worker = self.join(
            self.join_string(launcher),
            ["--name", "w1", "--preempt-signal", str(int(signal.SIGUSR2))],
            hears("SIGUSR1", "SIGTERM", "SIGUSR2"))
        launcher.await_lines(r"\] up g1$", 2)
        worker.await_line(r"\] up g1$")
        launcher.signal(signal.SIGTERM)
        for process in (launcher, worker):
            self.assert_code(process, 75)
        self.assertEqual([name for _, name in self.heard(launcher)],
                         ["SIGUSR1"] * 2)
        self.assertEqual([name for _, name in self.heard(worker)],
                         ["SIGUSR2"])
        for process, count in ((launcher, 2), (worker, 1)):
            for told in process.await_lines(r"\] notice (\{.*\})$", count):
                self.assertEqual(json.loads(told[1])["kind"], "preempt")

    def test_the_deadline_is_the_notice_time(self):
        launcher = self.launch(
            ["--nodes", "2", "--notice-time", "600s"], hears("SIGTERM"))
        worker = self.join(self.join_string(launcher),
                           ["--name", "w1", "--notice-time", "10m"],
                           hears("SIGTERM"))
        for process in (launcher, worker):
            process.await_line(r"\] up g1$")
        asked = time.time()
        launcher.signal(signal.SIGUSR1)
        for process in (launcher, worker):
            told = json.loads(process.await_line(r"\] notice (\{.*\})$")[1])
            # Times are in whole seconds, rounded either way; the rest is the
            # test's own time.
            self.assertGreater(told["deadline"], asked + 598)
            self.assertLess(told["deadline"], time.time() + 602)
            self.assert_code(process, 75)
        self.assertIsNone(launcher.find("killed, since"))

    def test_signals_of_a_terminal_end_a_run_like_ctrl_c(self):
        for number, code in ((signal.SIGQUIT, 131), (signal.SIGHUP, 129)):
            with self.subTest(number=number):
                launcher = self.launch([], hears("SIGTERM"))
                launcher.await_line(r"\] up g1$")
                launcher.signal(number)
                launcher.await_line(r"\] notice (\{.*\})$")
                self.assert_code(launcher, code)

    def test_who_has_too_little_time_to_save_is_named(self):
        launcher = self.stubborn("slow", ["--notice-time", "1s"])
        launcher.signal(signal.SIGUSR1)
        self.assert_code(launcher, 75)
        self.assertTrue(launcher.find(
            r"killed, since the time to save was over: rank 0 on \S+ "
            r"\(--notice-time gives them more\)"))

    # --- How long a rank may take ----------------------------------------------

    def stubborn(self, job, flags=()):
        """Starts a job whose ranks only end by SIGKILL."""
        launcher = self.launch(["--job", job, *flags],
                               [sys.executable, "-c", STUBBORN])
        launcher.await_line(r"\] up g1$")
        return launcher

    def asked_earlier(self):
        """Starts a job and stops it; its rank gets the whole grace period."""
        patient = self.stubborn("patient")
        patient.signal(signal.SIGTERM)
        patient.await_line(r"\] asked$")
        return patient

    def assert_waits_still(self, patient):
        self.assertIsNone(patient.code, "it has not waited for its rank")
        patient.signal(signal.SIGTERM)
        self.assert_code(patient, 75)

    def test_a_second_signal_does_not_wait(self):
        for number, code in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
            with self.subTest(number):
                hasty = self.stubborn(f"hasty-{int(number)}")
                patient = self.asked_earlier()
                hasty.signal(number)
                hasty.await_line(r"\] asked$")
                hasty.signal(number)
                self.assert_code(hasty, code)
                self.assert_waits_still(patient)

    def test_stop_now_does_not_wait(self):
        hasty = self.stubborn("hasty")
        patient = self.asked_earlier()
        self.rollcall("stop", "--job", "hasty", "--now")
        # Only SIGKILL ends the rank. It comes right after SIGTERM, so the rank
        # may or may not print "asked". The other job was stopped earlier and
        # still waits.
        hasty.wait()
        self.assert_waits_still(patient)
        self.assert_no_orphans()

    def test_stop_without_now_leaves_ranks_their_grace(self):
        launcher = self.launch(["--job", "asked"], hears("SIGTERM"))
        launcher.await_line(r"\] up g1$")
        self.rollcall("stop", "--job", "asked")
        launcher.wait()
        self.assertEqual(self.heard(launcher), [(0, "SIGTERM")])

    def test_stop_says_what_the_job_exits_with(self):
        for flags in ([], ["--now"]):
            with self.subTest(flags=flags):
                launcher = self.launch(
                    ["--nodes", "2", "--job", "coded"], hears("SIGTERM"))
                worker = self.join(self.join_string(launcher),
                                   ["--name", "w1"], hears("SIGTERM"))
                for process in (launcher, worker):
                    process.await_line(r"\] up g1$")
                self.rollcall("stop", "--job", "coded", "--exit-code", "42",
                              *flags)
                for process in (launcher, worker):
                    self.assert_code(process, 42)

    def test_the_deadline_of_a_drain(self):
        jobs = {}
        for name, deadline in (("long", "1h"), ("short", "1s")):
            launcher = self.launch(
                ["--job", name, *harness.whole("1:2"), "--local-workers", "1"],
                [sys.executable, "-c", STUBBORN])
            launcher.await_lines(r"\] up g1$", 2)
            self.rollcall("drain", "local-1", "--job", name, "--deadline",
                          deadline)
            jobs[name] = launcher
        # Both jobs got the drain; the one with the longer deadline got it
        # first. The other job's ranks are killed after its deadline, and its
        # next world has one node.
        jobs["long"].await_lines(r"\] asked$", 2)
        jobs["short"].await_line(r"\] up g2$")
        state = json.loads("\n".join(self.rollcall(
            "status", "--job", "long", "--json").out()))
        self.assertEqual((state["state"], state["generation"]),
                         ("running", 1))
        self.assertIsNone(jobs["long"].find("up g2"))
        for launcher in jobs.values():
            launcher.signal(signal.SIGINT)
            launcher.signal(signal.SIGINT)
            launcher.wait()

    def test_ranks_are_told_the_deadline_of_a_drain(self):
        for flags, at_least, at_most in ((["--deadline", "1h"], 1800, 3600),
                                         ([], 0, 15)):
            with self.subTest(flags=flags):
                job = f"told-{at_most}"
                launcher = self.launch(
                    ["--job", job, *harness.whole("1:2"),
                     "--local-workers", "1"],
                    hears("SIGTERM"))
                launcher.await_lines(r"\] up g1$", 2)
                before = time.time()
                self.rollcall("drain", "local-1", "--job", job, *flags)
                told = launcher.await_lines(r"\] notice (\{.*\})$", 2)
                after = time.time()
                for notice in (json.loads(m[1]) for m in told):
                    self.assertEqual(notice["kind"], "drain")
                    # Times are in whole seconds, rounded either way.
                    self.assertGreaterEqual(notice["deadline"],
                                            before + at_least - 1)
                    self.assertLessEqual(notice["deadline"],
                                         after + at_most + 1)
                launcher.signal(signal.SIGTERM)
                self.assert_code(launcher, 75)
