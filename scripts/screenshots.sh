#!/bin/bash
# screenshots.sh [FOLDER]: pictures of the status page, as PNG files in FOLDER
# (default build/screenshots). Headless Chromium takes them of real runs on this
# machine: while a run waits for nodes, while it trains, while it forms its next
# world, after it has lost a node, when it has failed, and with the times to
# connect between the nodes. Each picture is taken wide and as narrow as a
# phone, in light and in dark: STATE-wide-light.png and so on.
#
# Needs a release build and Chromium (packages.sh pictures). The times to connect
# need network namespaces; without them that picture is left out. Takes a
# minute. Ends everything that it started, also if it fails or is stopped.
set -eu
folder=$(realpath -m "${1:-$(dirname "$0")/../build/screenshots}")
cd "$(dirname "$0")/.."
export ROLLCALL_BIN=${ROLLCALL_BIN:-$PWD/build/release/bin}
command -v chromium >/dev/null || {
  echo "screenshots.sh: no chromium; run scripts/packages.sh pictures" >&2
  exit 1
}
[ -x "$ROLLCALL_BIN/rollcall" ] || {
  echo "screenshots.sh: no $ROLLCALL_BIN/rollcall; run scripts/build.sh" \
    "release, or set ROLLCALL_BIN" >&2
  exit 1
}
mkdir -p "$folder"
PYTHONPATH=tests/e2e/support exec /usr/bin/python3 -B - "$folder" <<'PYTHON'
import glob
import json
import os
import shutil
import signal
import sys
import time

import proc
from lab import Lab
from paths import BIN, ROLLCALL
from stage import DEADLINE_S, Gate, Stage

FOLDER = sys.argv[1]
JOIN = r"rc1\.[A-Za-z0-9_-]+"
PAGE = r"status page: (http\S+)"
WIDTHS = {"wide": 1200, "phone": 390}
# The numbers that Blink has for the preferred colour scheme.
SCHEMES = {"light": 1, "dark": 0}
# The steps of the training, more than it can do before the last picture.
STEPS = 100000


class Pictures:
    def __init__(self, stage):
        self.stage = stage

    def take(self, name, url, heights, start=None):
        """All pictures of the page at once, so that they show one state."""
        begun = {}
        for size, width in WIDTHS.items():
            for scheme, number in SCHEMES.items():
                file = f"{name}-{size}-{scheme}.png"
                begun[file] = (start or self.stage.start)([
                    "chromium", "--headless", "--hide-scrollbars",
                    # Chromium has no sandbox if it runs as root.
                    *(["--no-sandbox"] if os.geteuid() == 0 else []),
                    f"--user-data-dir={self.stage.path('browser', file)}",
                    f"--blink-settings=preferredColorScheme={number}",
                    f"--window-size={width},{heights[size]}",
                    # Waits until the page has asked for the status twice.
                    "--virtual-time-budget=1000",
                    f"--screenshot={self.stage.path(file)}", url])
        for file, browser in begun.items():
            code = browser.wait()
            if code != 0 or not os.path.exists(self.stage.path(file)):
                self.stage.fail(f"{browser} ended with {code}")
            shutil.copy(self.stage.path(file), FOLDER)
        print(f"screenshots: {name}", flush=True)


def watch(stage, where, start=None):
    return (start or stage.start)([ROLLCALL, "status", *where, "--watch",
                                   "--json"])


def await_state(stage, watching, condition, what):
    """Reads on from where the last call has stopped."""
    def look():
        lines = watching.out()
        while watching.looked < len(lines):
            watching.looked += 1
            state = json.loads(lines[watching.looked - 1])
            if condition(state):
                return state
        return watching.done() and "ended"
    watching.looked = getattr(watching, "looked", 0)
    state = stage.pump(look, f"a status: {what}")
    if state == "ended":
        stage.fail(f"{watching} ended before: {what}")
    return state


def agent_of(launcher, node):
    agent, = [pid for pid in proc.descendants(launcher.pid)
              if {"agent", node} <= set(proc.command_line(pid))]
    return agent


def train(steps=STEPS):
    data = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
                  if os.path.isfile(p))
    return [os.path.join(BIN, "rollcall-train"), "--steps", str(steps),
            "--layers", "1", "--width", "64", "--data", *data]


def launch(stage, flags, command, start=None):
    launcher = (start or stage.start)(
        [ROLLCALL, "launch", "--http", "127.0.0.1:0", *flags, "--", *command])
    return launcher, launcher.await_line(PAGE)[1]


def stop(stage, launcher):
    launcher.signal(signal.SIGINT)
    launcher.wait()


def waiting(stage, pictures):
    launcher, url = launch(
        stage, ["--job", "waiting", "--name", "main", "--nodes", "3:4",
                "--local-workers", "1", "--no-hosts"], ["true"])
    watching = watch(stage, ["--job", "waiting"])
    await_state(stage, watching, lambda s: len(s["nodes"]) == 2, "two nodes")
    pictures.take("waiting", url, {"wide": 760, "phone": 1000})
    stop(stage, launcher)


def running(stage, pictures):
    """The training runs, loses a node, and runs on."""
    launcher, url = launch(
        stage, ["--job", "demo", "--name", "main", "--nodes", "2:4",
                "--local-workers", "3", "--no-hosts"], train())
    watching = watch(stage, ["--job", "demo"])
    await_state(stage, watching, lambda s: s["step"] > 100 and s["loss"],
                "a few steps")
    pictures.take("running", url, {"wide": 1120, "phone": 1500})
    # A stopped rank does not report that it has left the world. The next world
    # waits for it, for 15 s at most.
    rank, = [pid for pid in proc.descendants(agent_of(launcher, "local-3"))
             if proc.command_line(pid)[:1] == train()[:1]]
    os.kill(rank, signal.SIGSTOP)
    os.kill(agent_of(launcher, "local-2"), signal.SIGKILL)
    await_state(stage, watching, lambda s: s["state"] == "forming",
                "the next world is formed")
    pictures.take("reforming", url, {"wide": 1240, "phone": 1600})
    os.kill(rank, signal.SIGCONT)
    formed = await_state(stage, watching, lambda s: s["state"] == "running",
                         "the next world runs")
    await_state(stage, watching, lambda s: s["step"] > formed["step"] + 30,
                "steps of the next world")
    pictures.take("recovered", url, {"wide": 1560, "phone": 2300})
    stop(stage, launcher)


def failed(stage, pictures):
    """A standing daemon still shows a job that has ended."""
    state = stage.path("standing")
    daemon = stage.start([os.path.join(BIN, "rollcalld"), "--state", state,
                          "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
    url = daemon.await_line(PAGE)[1]
    with open(os.path.join(state, "worker.join"), encoding="ascii") as f:
        join = f.read().strip()
    agents = [stage.start(
        [ROLLCALL, "join", join, "--job", "failed", "--nodes", "2", "--name",
         name, "--no-hosts", "--max-restarts", "1", "--", *command])
              for name, command in (
                  ("node1", train()),
                  ("node2", [*train(), stage.path("shard-0002.bin")]))]
    for agent in agents:
        agent.wait()
    pictures.take("failed", url, {"wide": 1000, "phone": 1500})
    daemon.signal(signal.SIGTERM)
    daemon.wait()


def pings(stage, pictures):
    """Hosts that have addresses of their own, two of them cut from each
    other."""
    try:
        lab = Lab(stage, 5)
    except AssertionError as error:
        print("screenshots: without the times to connect:\n"
              + str(error).split("\n")[1], file=sys.stderr)
        return

    def start(argv):
        return lab.start(1, argv)
    gate = Gate(stage)
    command = ["sh", "-c", f"echo 1 >$ROLLCALL_PROGRESS; cat {gate.path}"]
    launcher, url = launch(
        stage, ["--job", "pings", "--nodes", "5", "--ping-interval", "2s"],
        command, start)
    join = launcher.await_line(JOIN)[0]
    workers = [lab.start(host, [ROLLCALL, "join", join, "--", *command])
               for host in range(2, 6)]
    await_state(stage, watch(stage, [join], start),
                lambda s: s["state"] == "running", "a world")
    lab.cut_between([2], [4])
    until = time.monotonic() + DEADLINE_S
    # There is no event for a new result, so this asks again.
    while True:
        asked = lab.run(1, [ROLLCALL, "status", join, "--pings", "--json"])
        if json.loads("\n".join(asked.out()))["pings"]["unreached"] == 2:
            break
        if time.monotonic() > until:
            stage.fail("the cut pair never showed")
    pictures.take("pings", url, {"wide": 1240, "phone": 1700}, start)
    gate.open()
    for process in (launcher, *workers):
        process.wait()


def stopped(*_):
    sys.exit("screenshots: stopped")


signal.signal(signal.SIGTERM, stopped)
stage = Stage()
try:
    for state in waiting, running, failed, pings:
        state(stage, Pictures(stage))
finally:
    stage.end()
print(f"screenshots: in {FOLDER}")
PYTHON
