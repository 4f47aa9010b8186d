"""The stage of a test: processes, their pipes, gates.

A test waits for events of its processes: a line, an exit, a file. Nothing here
sleeps. All waiting is one select over the pipes and pidfds of everything that
the test started, with a deadline. So no pipe fills up while the test waits for
another process, and a test that fails at a deadline prints the output of every
process.

No process outlives a test. Each process leads its own session, and the test
process is the subreaper of all of them, so orphans become its children. An
orphan that is left at the end fails the test. If the test itself is killed, the
warden, a process that reads from a pipe of the test, ends what is left.

Not thread-safe; one test at a time in one process.
"""
import contextlib
import ctypes
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import proc
from paths import BIN, ROLLCALL

# The time limit for one awaited event. It is long because it only matters when
# something is broken.
DEADLINE_S = float(os.environ.get("ROLLCALL_TEST_DEADLINE_S", "60"))

_WARDEN = """
import os, signal, subprocess, sys, shutil
left = set()
for line in sys.stdin:
    sign, kind, what = line.rstrip("\\n").split(" ", 2)
    (left.add if sign == "+" else left.discard)((kind, what))
for kind, what in left:
    if kind == "group":
        try: os.killpg(int(what), signal.SIGKILL)
        except OSError: pass
for kind, what in left:
    if kind == "lab":
        name, lab = what.split(" ", 1)
        subprocess.run([lab, "down"], env=dict(os.environ, LAB_NAME=name))
for kind, what in left:
    if kind == "folder": shutil.rmtree(what, ignore_errors=True)
"""


def _become_subreaper():
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _accept_ctrl_c():
    """A test run that a script has started in the background ignores SIGINT,
    and so would all that a test starts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Process:
    """One started process, its output and its exit. Made by Stage.start."""

    def __init__(self, stage, argv, popen):
        self.stage = stage
        self.argv = argv
        self.popen = popen
        self.pid = popen.pid
        self.lines = []        # (monotonic time, "out" or "err", text)
        self.code = None  # The exit code or -signal, once it has ended.
        self._rest = {"out": b"", "err": b""}
        self._open = set()

    def out(self):
        return [text for _, stream, text in self.lines if stream == "out"]

    def err(self):
        return [text for _, stream, text in self.lines if stream == "err"]

    def text(self):
        return "\n".join(text for _, _, text in self.lines)

    def mark(self):
        """Returns what `after` is for lines that come after those read so far."""
        return len(self.lines)

    def find(self, pattern, stream=None, after=0):
        """Returns the match of the first line so far that matches, or None."""
        for _, which, text in self.lines[after:]:
            match = (stream in (None, which)) and re.search(pattern, text)
            if match:
                return match
        return None

    def await_line(self, pattern, stream=None, deadline_s=DEADLINE_S, after=0):
        """Returns the match of the first matching line, printed or to come;
        fails if the process ends without one. `after`: a `mark`, taken before
        what the line is to follow from."""
        found = self.stage.pump(
            lambda: self.find(pattern, stream, after) or (
                self.done() and "ended"),
            f"a line /{pattern}/ of {self}", deadline_s)
        match = self.find(pattern, stream, after)
        if match is None:
            self.stage.fail(f"{self} ended with {self.code} ({found}) and "
                            f"never printed /{pattern}/")
        return match

    def await_lines(self, pattern, count, deadline_s=DEADLINE_S):
        """Returns the first `count` matches."""
        def matches():
            found = [m for _, _, text in self.lines
                     for m in [re.search(pattern, text)] if m]
            return found if len(found) >= count else None
        self.stage.pump(lambda: matches() or self.done(),
                        f"{count} lines /{pattern}/ of {self}", deadline_s)
        found = matches()
        if found is None:
            self.stage.fail(f"{self} ended with {self.code} before "
                            f"{count} lines /{pattern}/")
        return found

    def done(self):
        """Whether the process has ended and all its output has been read."""
        return self.code is not None and not self._open

    def wait(self, deadline_s=DEADLINE_S):
        """Waits for the end of process and pipes; returns its code or
        -signal."""
        self.stage.pump(self.done, f"the end of {self}", deadline_s)
        return self.code

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """Kills the process and waits for its end; its pipes may stay open."""
        self.signal(signal.SIGKILL)
        self.stage.pump(lambda: self.code is not None, f"the end of {self}")

    def inner_pid(self):
        """Returns the pid of a lab host's command, below lab.sh's nsenter."""
        pid = self.pid
        while os.path.basename(
                (proc.command_line(pid) or [""])[0]) == "nsenter":
            below = [p for p, (parent, _) in proc.parents().items()
                     if parent == pid]
            if len(below) != 1:
                break
            pid = below[0]
        return pid

    def __str__(self):
        return f"`{' '.join(self.argv)[:150]}` (pid {self.pid})"


class Stage:
    """All that one test has started. Made and ended by E2E."""

    def __init__(self):
        _become_subreaper()
        _accept_ctrl_c()
        self.selector = selectors.DefaultSelector()
        self.processes = []
        self.labs = []
        self.gates = []
        self.folder = tempfile.mkdtemp(prefix="rc-e2e.")
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("run"), 0o700)
        self._warden = subprocess.Popen(
            [sys.executable, "-c", _WARDEN], stdin=subprocess.PIPE,
            start_new_session=True, text=True)
        self._tell("+", "folder", self.folder)

    def _tell(self, sign, kind, what):
        self._warden.stdin.write(f"{sign} {kind} {what}\n")
        self._warden.stdin.flush()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def environment(self, extra=None):
        """Ours, without rollcall's variables and with folders of the test."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("ROLLCALL_", "XDG_", "LAB_"))}
        env.update(HOME=self.folder, XDG_STATE_HOME=self.path("state"),
                   XDG_RUNTIME_DIR=self.path("run"),
                   PATH=BIN + ":" + env.get("PATH", "/usr/bin:/bin"))
        env.update(extra or {})
        return {k: v for k, v in env.items() if v is not None}

    def start(self, argv, env=None, cwd=None, pass_fds=()):
        argv = [str(a) for a in argv]
        popen = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, pass_fds=pass_fds,
            env=self.environment(env), cwd=cwd or self.folder)
        self._tell("+", "group", popen.pid)
        process = Process(self, argv, popen)
        for name, pipe in (("out", popen.stdout), ("err", popen.stderr)):
            os.set_blocking(pipe.fileno(), False)
            process._open.add(name)
            self.selector.register(pipe, selectors.EVENT_READ,
                                   (self._read, process, name, pipe))
        fd = os.pidfd_open(popen.pid)
        self.selector.register(fd, selectors.EVENT_READ,
                               (self._ended, process, fd))
        self.processes.append(process)
        return process

    def secret_file(self, name, text=None):
        """Writes a file of mode 0600 with that line and returns its path.
        Without a text, the line is a new shared secret."""
        if text is None:
            text = subprocess.run([ROLLCALL, "token", "secret"], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        path = self.path(name)
        with open(path, "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(text.rstrip("\n") + "\n")
        return path

    def run(self, argv, env=None, cwd=None, deadline_s=DEADLINE_S):
        """Starts a process and waits for its end; returns the process."""
        process = self.start(argv, env, cwd)
        process.wait(deadline_s)
        return process

    def _read(self, process, name, pipe):
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return
        now = time.monotonic()
        *whole, rest = (process._rest[name] + data).split(b"\n")
        if not data:
            whole, rest = ([rest] if rest else []), b""
        process._rest[name] = rest
        process.lines += [(now, name, line.decode("utf-8", "replace"))
                          for line in whole]
        if not data:
            self.selector.unregister(pipe)
            pipe.close()
            process._open.discard(name)

    def _ended(self, process, fd):
        self.selector.unregister(fd)
        os.close(fd)
        process.code = process.popen.wait()
        self._tell("-", "group", process.pid)

    def pump(self, condition, what, deadline_s=DEADLINE_S):
        """Reads all pipes until `condition()` is true; returns its value."""
        until = time.monotonic() + deadline_s
        while True:
            # The time is read before the condition, so that a condition that
            # waits for a time up to the deadline is true by then.
            left = until - time.monotonic()
            value = condition()
            if value:
                return value
            if left <= 0:
                self.fail(f"waited {deadline_s:g} s for {what}")
            for key, _ in self.selector.select(left):
                act, *arguments = key.data
                act(*arguments)

    def await_gone(self, pids, what, deadline_s=DEADLINE_S):
        """Waits until all these processes have exited."""
        left = set()

        def gone(pid, fd):
            self.selector.unregister(fd)
            os.close(fd)
            left.discard(pid)

        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            left.add(pid)
            self.selector.register(fd, selectors.EVENT_READ, (gone, pid, fd))
        with self._reaping_strays():
            self.pump(lambda: not left, f"the end of {what} (living: {left})",
                      deadline_s)

    @contextlib.contextmanager
    def _reaping_strays(self):
        """Reaps the children that we inherit, within this context.

        A lab host's first process ends only after all processes of its
        namespace were reaped. If the parent of such a process was outside of
        the namespace and was killed, that process is now our child.
        """
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

        def reap():
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 1 << 12)
            known = {p.pid for p in self.processes} | {self._warden.pid}
            for pid, (parent, state) in proc.parents().items():
                if (parent, state) == (os.getpid(), b"Z") and pid not in known:
                    os.waitpid(pid, 0)

        self.selector.register(reading, selectors.EVENT_READ, (reap,))
        try:
            reap()
            yield
        finally:
            self.selector.unregister(reading)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, handler)
            os.close(reading)
            os.close(writing)

    def fail(self, message):
        raise AssertionError(message + self.transcript())

    def transcript(self, lines=60):
        """Returns the processes' output: `lines` of each, None for all."""
        parts = []
        for p in self.processes:
            parts.append(f"\n--- {p}: "
                         f"{'running' if p.code is None else p.code}")
            parts += [f"  {'|' if stream == 'out' else '!'} {text[:400]}"
                      for _, stream, text in p.lines[-lines if lines else 0:]]
        return "\n".join(parts)

    def orphans(self):
        """Returns live processes below us that the test did not start."""
        ours = {p.pid for p in self.processes if p.code is None}
        found = []
        for pid in proc.descendants(os.getpid()):
            if pid in ours or pid == self._warden.pid:
                continue
            found.append(pid)
        return found

    def reap(self):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def end(self):
        """Ends everything; returns command lines of what was left behind."""
        try:
            return self._end_all()
        finally:
            # Nothing is left that the warden would have to end.
            self._warden.stdin.close()
            self._warden.wait()
            self.reap()

    def _end_all(self):
        stray = []
        # A test may leave processes running if it started them itself.
        for process in self.processes:
            if process.code is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for gate in self.gates:
            gate.open()
        for lab in self.labs:
            lab.down()
        running = [p for p in self.processes if p.code is None]
        for process in running:
            try:
                self.pump(lambda p=process: p.code is not None,
                          f"the end of {process}", DEADLINE_S / 2)
            except AssertionError as error:
                stray.append(str(error).split("\n", 1)[0])
        orphans = self.orphans()
        if orphans and not running:
            # A guard needs a moment to notice the end of its agent.
            try:
                self.await_gone(orphans, "what was left", DEADLINE_S / 2)
            except AssertionError:
                pass
            stray += [" ".join(proc.command_line(p))[:200]
                      for p in self.orphans()]
        for pid in self.orphans():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)
        self._tell("-", "folder", self.folder)
        for process in self.processes:
            for pipe in (process.popen.stdout, process.popen.stderr):
                pipe.close()
        self.selector.close()
        return stray


class Gate:
    """A FIFO that ranks wait at: `cat $GATE` returns once the gate is open.

    Any number of processes may wait, on lab hosts too. So no rank needs to
    sleep.
    """

    def __init__(self, stage):
        self.path = stage.path(f"gate{len(stage.gates)}")
        os.mkfifo(self.path)
        os.chmod(self.path, 0o666)
        # Opened for reading and writing, so that neither side blocks here.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        stage.gates.append(self)

    def open(self):
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        # A later reader must not wait for a writer, so a regular file replaces
        # the FIFO. The path exists at all times.
        opened = self.path + ".open"
        with open(opened, "w", encoding="ascii"):
            pass
        os.replace(opened, self.path)
        os.close(fd)
