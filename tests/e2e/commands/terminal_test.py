"""Tests a launcher's live line and `status --watch` in a terminal."""
import glob
import os
import re
import signal

import harness
from harness import E2E, Gate
from terminal import Terminal

# A shell with job control that prints nothing. When its job stops, it continues
# it as soon as the gate $0 opens.
SHELL = ["bash", "-mc",
         'exec 3>&2 2>/dev/null; "$@" 2>&3; cat "$0"; fg >/dev/null']
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
LINES = 150
# Prints plain lines, wide characters, colours and a line in two writes as fast
# as possible, then a last line without a line end.
PRINTS = r"""
i=0
while [ $i -lt %d ]; do
  i=$((i + 1))
  echo "$i plain"
  echo "$i 日本語 größe" >&2
  printf '\033[31m%%d red\033[0m\n' $i
  printf '%%d in ' $i; echo pieces
  echo $i >$ROLLCALL_PROGRESS
done
printf 'no end'
cat %s
"""
LINE = re.compile(r"(step \d+|running)  \d+ ranks? on .*")


class LiveLine(E2E):
    def begin(self, terminal, flags, command, env=None):
        return terminal.start(
            [harness.ROLLCALL, "launch", "--job", "seen", "--name", "main",
             "--hosts-file", self._hosts, *flags, "--", *command], env)

    def output_is_whole(self, columns):
        gate = Gate(self.stage)
        terminal = Terminal(self, columns)
        launcher = self.begin(terminal, ["--local-workers", "1"],
                              ["sh", "-c", PRINTS % (LINES, gate.path)])
        terminal.await_that(
            lambda: sum(f"{LINES} in pieces" in line
                        for line in terminal.all_lines()) == 2,
            "both ranks' last lines")
        # The live line is drawn again below the output, on the last row.
        terminal.await_text(rf"(?m)^step {LINES}\b.*\Z")
        self.assertLessEqual(terminal.column(), columns - 1)
        gate.open()
        self.assert_code(launcher, 0)
        terminal.await_that(
            lambda: not LINE.match(terminal.lines()[-1]), "no line at the end")
        self.assertEqual(terminal.column(), 0)
        self.assertEqual(terminal.modes(), (True, True, True))
        shown = terminal.all_lines()
        for name in "main/0", "local-1/1":
            wanted = []
            for i in range(1, LINES + 1):
                wanted += [f"{i} plain", f"{i} red", f"{i} in pieces"]
            wanted.append("no end")
            # The order of stdout and stderr lines may change.
            got = [line[len(name) + 3:] for line in shown
                   if line.startswith(f"[{name}] ")]
            self.assertEqual([line for line in got if "größe" not in line],
                             wanted)
            self.assertEqual([line for line in got if "größe" in line],
                             [f"{i} 日本語 größe" for i in range(1, LINES + 1)])
        rest = [line for line in shown
                if not re.match(r"\[(main/0|local-1/1)\] ", line)]
        self.assertEqual(rest, [], "nothing of the line is left")

    def test_output_above_the_line_is_whole(self):
        self.output_is_whole(120)

    def test_output_above_the_line_is_whole_in_a_narrow_terminal(self):
        self.output_is_whole(40)

    def test_a_training_is_seen_to_go(self):
        terminal = Terminal(self, 120)
        launcher = self.begin(
            terminal, [*harness.whole("2:3"), "--local-workers", "2"],
            [os.path.join(harness.BIN, "rollcall-train"), "--data", *TEXT,
             "--steps", "100000000", "--layers", "1", "--heads", "2",
             "--width", "32", "--context", "32", "--batch", "12"])
        terminal.await_text(
            r"\n\[-+\]  \d+/100000000  0%  loss \d\.\d{4}  \S+ tokens/s  .*"
            r" left  3 ranks on 3 nodes  generation 1\Z")
        # Only some of the steps are printed as lines.
        step = int(terminal.await_text(r" (\d+)/100000000 .*\Z")[1])
        said = [line for line in terminal.all_lines() if " step " in line]
        self.assertLess(len(said), max(10, step / 2))
        agent, = harness.subcommands(harness.descendants(launcher.pid),
                                     "agent", "local-2")
        os.kill(agent, signal.SIGKILL)
        terminal.await_text(r"local-2 is missing")
        # A narrower terminal still shows what is wrong.
        terminal.resize(40, 10)
        found = terminal.await_text(r"\n(\d+/100000000 .*local-2 is missing.*)"
                                    r"\Z")
        self.assertLess(len(found[1]), 40)
        terminal.type(b"\x03")
        self.assert_code(launcher, 130)
        # The summary may follow.
        terminal.await_text(r"rollcall: stopped by Ctrl-C(\n|\Z)")
        self.stage.pump(lambda: terminal.column() == 0, "the end of the line")

    def test_a_killed_launcher_leaves_a_usable_terminal(self):
        gate = Gate(self.stage)
        terminal = Terminal(self, 80)
        launcher = self.begin(terminal, [], [
            "sh", "-c", f"cat {gate.path}; echo later; exec sleep infinity"])
        terminal.await_text(r"^running  1 rank on 1 node  generation 1\Z")
        launcher.kill()
        gate.open()
        terminal.await_text(r"^\[main/0\] later\Z")
        self.assertEqual(terminal.modes(), (True, True, True))
        stopped = self.stage.run([harness.ROLLCALL, "stop", "--job", "seen",
                                  "--now"])
        self.assert_code(stopped, 0)
        self.stage.await_gone(self.stage.orphans(), "the rest of the run")

    def test_a_killed_agent_is_told_above_the_line(self):
        terminal = Terminal(self, 80)
        launcher = self.begin(
            terminal, [*harness.whole("1:2"), "--local-workers", "1"],
            ["sleep", "infinity"])
        terminal.await_text(r"2 ranks on 2 nodes")
        agent, = harness.subcommands(harness.descendants(launcher.pid),
                                     "agent", "local-1")
        os.kill(agent, signal.SIGKILL)
        terminal.await_text(
            r"(?s)rollcall: the agent of local-1 was killed by signal 9\n"
            r"rollcall: generation 2: .*\n"
            r"running  1 rank on 1 of 2 nodes .*local-1 is missing\Z")
        terminal.type(b"\x03")
        self.assert_code(launcher, 130)

    def test_a_dumb_terminal_gets_plain_lines(self):
        terminal = Terminal(self, 80)
        launcher = self.begin(terminal, ["--nodes", "2:4"], ["true"],
                              {"TERM": "dumb"})
        terminal.await_text(r"rollcall: job seen: 1 more to begin, room for 3 "
                            r"more; on each")
        terminal.await_text(r"rollcall: waiting: 1 node is here; 1 more to "
                            r"begin, room for 3 more")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)
        self.assertNotIn(b"\x1b", terminal.raw)

    def test_without_a_terminal_nothing_changes(self):
        launcher = self.launch([], ["sh", "-c", "echo 1 >$ROLLCALL_PROGRESS; "
                                    "echo up"], {"TERM": "xterm"})
        self.assert_code(launcher, 0)
        self.assertRegex(launcher.text(),
                         r"^(rollcall: waiting: .*\n)*\[\S+/0\] up$")


class Watch(E2E):
    def begin(self):
        self.gate = Gate(self.stage)
        self.launcher = self.launch(
            ["--job", "watched", "--name", "main", *harness.whole("1:2"),
             "--local-workers", "1"],
            ["sh", "-c", f"echo 7 >$ROLLCALL_PROGRESS; cat {self.gate.path}"])
        self.await_watched(
            [harness.ROLLCALL, "status", "--job", "watched"],
            lambda s: s["state"] == "running" and s["world_size"] == 2
            and s["step"] == 7, "two ranks and a step")

    def watch(self, terminal, env=None, shell=()):
        return terminal.start([*shell, harness.ROLLCALL, "status", "--job",
                               "watched", "--watch"], env)

    def end(self):
        self.gate.open()
        self.assert_code(self.launcher, 0)

    def test_the_screen_follows_the_job_and_is_given_back(self):
        self.begin()
        terminal = Terminal(self, 100)
        # Text that was on the screen before the view.
        self.assert_code(terminal.start(["echo", "before"]), 0)
        before = terminal.modes()
        shell = Gate(self.stage)
        watch = self.watch(terminal, shell=[*SHELL, shell.path])
        terminal.await_text(
            r"\Ajob watched  running  generation 1  2 ranks on 2 nodes\n"
            r"step 7  2 ranks on 2 nodes  generation 1\n"
            r"(.*\n)*RANK +NODE +STATE +STEP +LEASE +ADDRESS\n"
            r"0 +main +running +7 .*127\.0\.0\.1\n"
            r"1 +local-1 +running +7 ")
        self.assertTrue(terminal.alternate())
        # A narrow terminal shows only the most important columns.
        terminal.resize(40, 8)
        terminal.await_text(r"(?s)\Ajob watched  running  generation 1  2 ra"
                            r"\nstep 7 .*\nNODE +STATE +STEP\nmain +running +7\n"
                            r"local-1 +running +7\Z")
        terminal.resize(100, 24)
        terminal.await_text(r"ADDRESS")
        agent, = harness.subcommands(harness.descendants(self.launcher.pid),
                                     "agent", "local-1")
        os.kill(agent, signal.SIGKILL)
        terminal.await_text(r"(?s)generation 2  1 rank on 1 of 2 nodes.*"
                            r"local-1 is missing.*\n +2  \d+ s +\S.*local-1"
                            r".*\n +1  over \d+ s ")
        # After Ctrl-Z, the terminal is the shell's until the view continues.
        terminal.type(b"\x1a")
        terminal.await_that(lambda: not terminal.alternate(), "the shell's "
                            "screen")
        self.assertEqual(terminal.text(), "before")
        terminal.await_that(lambda: terminal.modes() == before,
                            "the shell's modes")
        shell.open()
        terminal.await_text(r"\Ajob watched  running  generation 2")
        self.assertTrue(terminal.alternate())
        terminal.type(b"\x03")
        self.assert_code(watch, 130)
        terminal.await_that(lambda: not terminal.alternate(), "the end")
        self.assertEqual(terminal.text(), "before")
        self.assertEqual(terminal.modes(), before)
        self.end()

    def test_ctrl_z_without_a_shell_does_not_stop_it(self):
        self.begin()
        terminal = Terminal(self, 100)
        watch = self.watch(terminal)
        terminal.await_text(r"\Ajob watched  running")
        terminal.type(b"\x1a")
        terminal.type(b"q")
        self.assert_code(watch, 0)
        self.end()

    def test_it_ends_by_a_key_a_signal_and_with_the_job(self):
        self.begin()
        terminal = Terminal(self, 100)
        before = terminal.modes()
        views = [self.watch(terminal)]
        terminal.await_text(r"job watched  running")
        terminal.type(b"xq")
        self.assert_code(views[0], 0)
        terminal.await_that(lambda: not terminal.alternate(), "the first end")
        views.append(self.watch(terminal))
        terminal.await_that(terminal.alternate, "the view")
        terminal.await_text(r"\Ajob watched  running")
        views[1].signal(signal.SIGTERM)
        self.assert_code(views[1], 143)
        terminal.await_that(lambda: not terminal.alternate(), "the end")
        self.assertEqual(terminal.modes(), before)
        views.append(self.watch(terminal, {"NO_COLOR": "1"}))
        terminal.await_that(terminal.alternate, "the view")
        seen = len(terminal.raw)
        terminal.await_text(r"\Ajob watched  running")
        self.end()
        self.assert_code(views[2], 0)
        terminal.await_that(lambda: not terminal.alternate(), "the last end")
        # The view's last state stays on the screen.
        terminal.await_text(r"(?s)job watched  finished .*ended: .*exit code 0")
        self.assertEqual(terminal.modes(), before)
        self.assertNotRegex(terminal.raw[seen:], rb"\x1b\[(1|2|31)m")

    def test_without_a_terminal_it_is_lines(self):
        self.begin()
        watch = self.stage.start([harness.ROLLCALL, "status", "--job",
                                  "watched", "--watch"], {"TERM": "xterm"})
        watch.await_line(r"^job watched  running  generation 1  world size 2")
        self.end()
        self.assert_code(watch, 0)
        self.assertNotIn("\x1b", watch.text())
