"""What every end-to-end test stands on: processes, pipes, gates and labs.

A test starts real processes and waits for what they do: a line, an exit, a
file. Nothing here sleeps. All waiting is one select over the pipes and pidfds
of everything the test started, with a deadline, so that no pipe ever fills
while the test looks elsewhere, and a deadline that passes shows everything
that every process said.

Nothing outlives a test. Each process leads its own session; the test process
is the subreaper of all of them, so that whatever lost its parent comes to it
and is found: a process that is still there at the end fails the test. Should
the test itself be killed, the warden (a process of its own, at the other end
of a pipe) ends what is left.

Not thread-safe; one test at a time in one process.
"""
import contextlib
import ctypes
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get(
    "ROLLCALL_BIN", os.path.join(PROJECT, "build", "dev", "bin")))
ROLLCALL = os.path.join(BIN, "rollcall")
LAB = os.path.join(PROJECT, "scripts", "lab.sh")

# How long one awaited thing may take. Long, since it only matters when
# something is broken.
DEADLINE_S = float(os.environ.get("ROLLCALL_TEST_DEADLINE_S", "60"))
# A whole test; below ctest's own limit, so that the clean-up always runs.
TEST_S = int(os.environ.get("ROLLCALL_TEST_S", "280"))

JOIN_STRING = re.compile(r"rc1\.[A-Za-z0-9_-]+")

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


def _parents():
    """Every process and its parent, as /proc has it now."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rsplit(b")", 1)[1].split()
        except OSError:
            continue
        parents[int(name)] = (int(fields[1]), fields[0])
    return parents


def descendants(pid):
    """All living processes below `pid`, in no order; zombies left out."""
    parents = _parents()
    found, ring = [], {pid}
    while ring:
        ring = {p for p, (parent, _) in parents.items() if parent in ring}
        found += ring
    return [p for p in found if parents[p][1] != b"Z"]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return [a.decode("utf-8", "replace")
                    for a in f.read().split(b"\0")[:-1]]
    except OSError:
        return []


def start_ticks(pid):
    """When a process started, in ticks since boot."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rsplit(b")", 1)[1].split()[19])


def take_port(port):
    """A socket that listens on a port which the test knows from elsewhere."""
    return socket.create_server(("", port), family=socket.AF_INET6,
                                dualstack_ipv6=True)


def lock_name(hosts_file):
    """What the lock of a hosts file is called (edit_file.h)."""
    number = 0xcbf29ce484222325
    for byte in hosts_file.encode():
        number = (number ^ byte) * 0x100000001b3 % (1 << 64)
    return f"rollcall-{number:016x}.lock"


def forget_lock(hosts_file):
    """Removes the lock that agents of this user keep for a hosts file.

    Theirs stays, since removing a lock that somebody may wait for is a race;
    nobody waits for that of a file that a test made and has removed.
    """
    user = os.geteuid()
    for folder in ("/run/rollcall", f"/run/lock/rollcall-{user}",
                   f"/tmp/rollcall-{user}", "/run/lock", "/tmp"):
        try:
            os.unlink(f"{folder}/{lock_name(hosts_file)}")
        except OSError:
            pass


class Process:
    """One started process, its lines and its end. Made by Stage.start."""

    def __init__(self, stage, argv, popen):
        self.stage = stage
        self.argv = argv
        self.popen = popen
        self.pid = popen.pid
        self.lines = []        # (monotonic time, "out" or "err", text)
        self.code = None       # Exit code, or -signal, once it has ended.
        self._rest = {"out": b"", "err": b""}
        self._open = set()

    def out(self):
        return [text for _, stream, text in self.lines if stream == "out"]

    def err(self):
        return [text for _, stream, text in self.lines if stream == "err"]

    def text(self):
        return "\n".join(text for _, _, text in self.lines)

    def find(self, pattern, stream=None):
        """The first line so far that matches, or None."""
        for _, which, text in self.lines:
            match = (stream in (None, which)) and re.search(pattern, text)
            if match:
                return match
        return None

    def await_line(self, pattern, stream=None, deadline_s=DEADLINE_S):
        """The match of the first line, past or to come; fails at its end."""
        found = self.stage.pump(
            lambda: self.find(pattern, stream) or (self.done() and "ended"),
            f"a line /{pattern}/ of {self}", deadline_s)
        match = self.find(pattern, stream)
        if match is None:
            self.stage.fail(f"{self} ended with {self.code} ({found}) and "
                            f"never printed /{pattern}/")
        return match

    def await_lines(self, pattern, count, deadline_s=DEADLINE_S):
        """The first `count` matches."""
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
        """It has ended and all its output has been read."""
        return self.code is not None and not self._open

    def wait(self, deadline_s=DEADLINE_S):
        """Its exit code (or -signal), once it and its pipes have ended."""
        self.stage.pump(self.done, f"the end of {self}", deadline_s)
        return self.code

    def signal(self, number):
        os.kill(self.pid, number)

    def inner_pid(self):
        """On a lab host: the command itself, below lab.sh's nsenter."""
        pid = self.pid
        while os.path.basename((command_line(pid) or [""])[0]) == "nsenter":
            below = [p for p, (parent, _) in _parents().items()
                     if parent == pid]
            if len(below) != 1:
                break
            pid = below[0]
        return pid

    def __str__(self):
        return f"`{' '.join(self.argv)[:150]}` (pid {self.pid})"


class Stage:
    """Everything one test has started. Made and ended by E2E."""

    def __init__(self):
        _become_subreaper()
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
        """Ours without anything of rollcall's, with folders of the test."""
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

    def run(self, argv, env=None, cwd=None, deadline_s=DEADLINE_S):
        """Starts and waits: the ended process."""
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
        """Reads from everybody until `condition()` holds; its value."""
        until = time.monotonic() + deadline_s
        while True:
            # Read before the condition, so that one that waits for a moment no
            # later than the deadline holds by then.
            left = until - time.monotonic()
            value = condition()
            if value:
                return value
            if left <= 0:
                self.fail(f"waited {deadline_s:g} s in vain for {what}")
            for key, _ in self.selector.select(left):
                act, *arguments = key.data
                act(*arguments)

    def await_gone(self, pids, what, deadline_s=DEADLINE_S):
        """Waits until all have exited."""
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
        """Meanwhile children that we inherit are reaped.

        A lab host's first process cannot end before those of its namespace are
        reaped, also one whose parent outside of it was killed first: that one
        comes to us.
        """
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

        def reap():
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 1 << 12)
            known = {p.pid for p in self.processes} | {self._warden.pid}
            for pid, (parent, state) in _parents().items():
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

    def transcript(self):
        parts = []
        for p in self.processes:
            parts.append(f"\n--- {p}: "
                         f"{'running' if p.code is None else p.code}")
            parts += [f"  {'|' if stream == 'out' else '!'} {text[:400]}"
                      for _, stream, text in p.lines[-60:]]
        return "\n".join(parts)

    def orphans(self):
        """Living processes below us that the test did not start itself."""
        ours = {p.pid for p in self.processes if p.code is None}
        found = []
        for pid in descendants(os.getpid()):
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
        """Ends everything; the command lines of what should not have been."""
        try:
            return self._end_all()
        finally:
            # From here on there is nothing left that the warden should end.
            self._warden.stdin.close()
            self._warden.wait()
            self.reap()

    def _end_all(self):
        stray = []
        # Those that a test left running on purpose are its own business.
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
            # A guard needs a moment to see that its agent has gone.
            try:
                self.await_gone(orphans, "what was left", DEADLINE_S / 2)
            except AssertionError:
                pass
            stray += [" ".join(command_line(p))[:200] for p in self.orphans()]
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
    """A FIFO that ranks wait at: `cat $GATE` returns once it is opened.

    `cat` on it blocks for as long as the test holds it shut, whoever and
    however many wait, on lab hosts too; no rank needs to sleep.
    """

    def __init__(self, stage):
        self.path = stage.path(f"gate{len(stage.gates)}")
        os.mkfifo(self.path)
        os.chmod(self.path, 0o666)
        # Read and write, so that neither side blocks in open().
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        stage.gates.append(self)

    def open(self):
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        # Who comes later must find a file, and not wait for a writer; nobody
        # may find nothing.
        opened = self.path + ".open"
        with open(opened, "w", encoding="ascii"):
            pass
        os.replace(opened, self.path)
        os.close(fd)


class Lab:
    """N hosts; see scripts/lab.sh."""

    def __init__(self, stage, hosts, **settings):
        self.stage = stage
        self.hosts = hosts
        self.name = f"e2e{os.getpid()}-{len(stage.labs)}"
        self._env = {"LAB_NAME": self.name,
                     "LAB_SHARE": f"{stage.folder}:{BIN}"}
        self._env.update({f"LAB_{k.upper()}": str(v)
                          for k, v in settings.items()})
        stage._tell("+", "lab", f"{self.name} {LAB}")
        stage.labs.append(self)
        made = subprocess.run([LAB, "up", str(hosts)], text=True,
                              env=dict(os.environ, **self._env),
                              stderr=subprocess.PIPE)
        if made.returncode != 0:
            if os.environ.get("ROLLCALL_TEST_WITHOUT_NAMESPACES") == "1":
                raise unittest.SkipTest(
                    "no namespaces here, and told to do without: "
                    + made.stderr.strip())
            raise AssertionError(
                "this test needs network namespaces and they are not to be "
                f"had:\n{made.stderr}\nROLLCALL_TEST_WITHOUT_NAMESPACES=1 "
                "leaves such tests out.")

    def _ask(self, *words):
        return subprocess.run([LAB, *map(str, words)], check=True, text=True,
                              env=dict(os.environ, **self._env),
                              stdout=subprocess.PIPE).stdout.strip()

    def start(self, host, argv, env=None):
        env = dict(self._env, **(env or {}))
        # Own folders: hosts share nothing but what the test shares.
        env.setdefault("XDG_RUNTIME_DIR", None)
        env.setdefault("XDG_STATE_HOME", self.stage.path(f"state{host}"))
        env.setdefault("HOME", self.stage.path(f"home{host}"))
        return self.stage.start([LAB, "exec", host, *argv], env)

    def run(self, host, argv, env=None, deadline_s=DEADLINE_S):
        process = self.start(host, argv, env)
        process.wait(deadline_s)
        return process

    def hosts_file(self, host):
        return os.path.join(self._ask("dir", host), "hosts")

    def read_hosts(self, host):
        with open(self.hosts_file(host), "rb") as f:
            return f.read()

    def processes(self, host):
        """What runs there beside the host's own first process."""
        first = int(self._ask("pid", host))
        space = os.readlink(f"/proc/{first}/ns/pid")
        found = []
        for pid, (parent, state) in _parents().items():
            try:
                same = os.readlink(f"/proc/{pid}/ns/pid") == space
            except OSError:
                continue
            if same and pid != first and state != b"Z" and not (
                    parent == first and command_line(pid)[:1] == ["sleep"]):
                found.append(pid)
        return found

    def fault(self, *words):
        self._ask("fault", *words)

    def cut_between(self, some, others):
        """No frame passes between these and those, either way."""
        for one in some:
            for other in others:
                self.fault("cut", one, other)
                self.fault("cut", other, one)

    def do(self, what, host):
        """`kill`, `power`, `boot`, `freeze` or `thaw`."""
        self._ask(what, host)

    def down(self):
        subprocess.run([LAB, "down"], env=dict(os.environ, **self._env))
        self.stage._tell("-", "lab", f"{self.name} {LAB}")


class E2E(unittest.TestCase):
    """A test with a stage of its own, ended whatever happens."""

    # Tests whose subject is that something stays behind turn this off.
    checks_orphans = True

    def setUp(self):
        if not os.access(ROLLCALL, os.X_OK):
            self.fail(f"{ROLLCALL} is not there; build it, or say where it "
                      "is with ROLLCALL_BIN")
        self.stage = Stage()
        self.addCleanup(self._end)
        signal.signal(signal.SIGALRM, self._too_long)
        signal.alarm(TEST_S)
        self._hosts = self.stage.path("hosts")
        with open(self._hosts, "wb") as f:
            f.write(b"127.0.0.1 localhost\n# mine\n")

    def _too_long(self, *_):
        self.stage.fail(f"the whole test took over {TEST_S} s")

    def _end(self):
        signal.alarm(0)
        stray = self.stage.end()
        forget_lock(self._hosts)
        if self.checks_orphans and stray:
            self.fail("left behind: " + "; ".join(stray))

    # --- Launchers and workers on this machine, away from its /etc/hosts ------

    def launch(self, flags, command, env=None):
        return self.stage.start(
            [ROLLCALL, "launch", "--hosts-file", self._hosts, *flags, "--",
             *command], env)

    def join(self, join_string, flags, command, env=None):
        return self.stage.start(
            [ROLLCALL, "join", join_string, "--hosts-file", self._hosts,
             *flags, "--", *command], env)

    def join_string(self, launcher):
        return launcher.await_line(JOIN_STRING.pattern)[0]

    def status(self, join_string):
        """`status --json` now."""
        asked = self.stage.run([ROLLCALL, "status", join_string, "--json"])
        self.assertEqual(asked.code, 0, self.stage.transcript())
        return json.loads("\n".join(asked.out()))

    def await_status(self, join_string, condition, what,
                     deadline_s=DEADLINE_S):
        """The first state, now or later, for which condition(state) holds."""
        watch = self.stage.start(
            [ROLLCALL, "status", join_string, "--json", "--watch"])
        seen = []

        def look():
            for line in watch.out()[len(seen):]:
                state = json.loads(line)
                seen.append(state)
                if condition(state):
                    return state
            return {"ended": True} if watch.done() else None
        state = self.stage.pump(look, f"a status: {what}; last "
                                f"{seen[-1] if seen else None}", deadline_s)
        if "job" not in state:
            self.stage.fail(f"`status --watch` ended before: {what}")
        if watch.code is None:
            watch.signal(signal.SIGTERM)
            self.stage.pump(lambda: watch.code is not None, "its end")
        return state

    # --- Words of the tests ---------------------------------------------------

    def assert_code(self, process, code, deadline_s=DEADLINE_S):
        got = process.wait(deadline_s)
        if got != code:
            self.stage.fail(f"{process} ended with {got}, expected {code}")

    def assert_no_orphans(self):
        self.stage.await_gone(self.stage.orphans(), "orphans")
        self.assertEqual([command_line(p) for p in self.stage.orphans()], [])


def nodes_by_name(state):
    return {node["node"]: node for node in state["nodes"]}


def main():
    unittest.main(verbosity=2)
