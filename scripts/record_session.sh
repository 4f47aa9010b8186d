#!/bin/bash
# record_session.sh: prints what a person sees of a run in which one node is
# killed: the launcher's terminal and `status --watch`, as plain text, at four
# moments. The text in client/README.md is made this way.
#
# Needs a release build and python3-pyte (packages.sh test). Takes half a minute.
set -eu
cd "$(dirname "$0")/.."
export ROLLCALL_BIN=${ROLLCALL_BIN:-$PWD/build/release/bin}
PYTHONPATH=tests/e2e/support exec /usr/bin/python3 -B - <<'EOF'
import contextlib
import glob
import os
import signal

import proc
from paths import BIN, ROLLCALL
from stage import Stage
from terminal import Terminal

COLUMNS, ROWS, STEPS = 96, 14, 1500


class Session:
    """What Terminal wants of a test."""

    def __init__(self, stage, cleanups):
        self.stage = stage
        self.addCleanup = cleanups.callback


def show(caption, terminal):
    print(f"--- {caption}\n{terminal.text()}\n", flush=True)


def record(session):
    data = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
                  if os.path.isfile(p))
    launching = Terminal(session, COLUMNS, ROWS)
    launcher = launching.start(
        [ROLLCALL, "launch", "--job", "demo", "--name", "main", "--nodes",
         "2:4", "--local-workers", "3", "--no-hosts", "--",
         os.path.join(BIN, "rollcall-train"), "--steps", str(STEPS),
         "--layers", "1", "--width", "64", "--data", *data])
    launching.await_text(r"\n\[#{2,}.* left  4 ranks")
    show("rollcall launch --nodes 2:4 --local-workers 3 -- rollcall-train ...",
         launching)
    watching = Terminal(session, COLUMNS, ROWS)
    watching.start([ROLLCALL, "status", "--job", "demo", "--watch"])
    watching.await_text(r"(?s)loss [\d.]+ \S{4,} .*ADDRESS")
    agent, = [pid for pid in proc.descendants(launcher.pid)
              if {"agent", "local-2"} <= set(proc.command_line(pid))]
    os.kill(agent, signal.SIGKILL)
    launching.await_text(r"world 3 generation 2\n\[.* left  .*local-2 is "
                         r"missing\Z")
    show("kill -9 of the agent of local-2", launching)
    watching.await_text(r"(?s) left .*local-2 is missing.*\n +2  \d+ s ")
    show("rollcall status --job demo --watch", watching)
    launcher.wait(120)
    launching.await_text(rf"(?s)step {STEPS} .*until the\s+next world\Z")
    show("the end", launching)


with contextlib.ExitStack() as cleanups:
    stage = Stage()
    cleanups.callback(stage.end)
    record(Session(stage, cleanups))
EOF
