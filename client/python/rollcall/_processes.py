"""Processes of `rollcall` beside this one: an agent for it, and a launcher that
outlives it."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from typing import Any, Dict, List, Mapping, Optional

from . import errors
from ._monitor import Monitor

_FOLDER_BYTES_MAX = 70
# The exit code of a rendezvous that failed.
_NOT_FORMED = 69
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def program() -> str:
    """The `rollcall` that was installed with this package, or that of PATH.
    errors.Error: there is none."""
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable),
               os.environ.get("PATH", os.defpath)]
    found = shutil.which("rollcall", path=os.pathsep.join(
        folder for folder in folders if folder))
    if found is None:
        raise errors.Error(
            "there is no program `rollcall` beside this Python or in PATH; "
            "install rollcall, or add its folder to PATH", "NOT_FOUND")
    return found


class _Process:
    """`rollcall` with --json, which prints an object in each line. Its messages
    for people go to `stderr`; None: that of this process.

    `ready`: an object with this key says that the process is ready.
    """

    def __init__(self, command: List[str], environment: Mapping[str, str],
                 ready: str, with_parent: bool,
                 stderr: Optional[int] = None) -> None:
        parent = os.getpid()
        # pylint: disable=subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            [program(), *command, "--json"], env=dict(environment),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
            start_new_session=True,
            preexec_fn=(lambda: _die_with(parent)) if with_parent else None)
        self._ready = ready
        self._changed = Monitor()
        # Guarded by its lock.
        self._is_ready = False
        self._end: Dict[str, Any] = {}
        self._over = False
        threading.Thread(target=self._read, daemon=True,
                         name="rollcall-json").start()

    def _read(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._take(line)
        self.process.wait()
        with self._changed.lock:
            self._over = True
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return
        if not isinstance(told, dict):
            return
        with self._changed.lock:
            self._is_ready = self._is_ready or self._ready in told
            if "exit_code" in told:
                self._end = told
            self._changed.notify_all()

    def await_ready(self) -> bool:
        """False: it has ended instead."""
        self._changed.await_true(lambda: self._over or self._is_ready)
        return self._is_ready

    def signal(self, number: int) -> None:
        """Does nothing if it has ended."""
        self.process.send_signal(number)

    @property
    def code(self) -> int:
        """Its exit code, or minus the signal that ended it. Requires that it has
        ended."""
        assert self.process.returncode is not None
        return self.process.returncode

    def await_end(self, timeout: Optional[float] = None) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        return self._changed.await_true(lambda: self._over, timeout)

    @property
    def reason(self) -> str:
        """Why it has ended, as it said, or with which code or signal. Requires
        that it has ended."""
        with self._changed.lock:
            reason = self._end.get("reason")
        if not reason and self.code < 0:
            return f"`rollcall` was ended by signal {-self.code}"
        return str(reason or f"`rollcall` ended with code {self.code}; see its "
                   "message above")


def _die_with(parent: int) -> None:
    """In the new process: it is killed when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Agent:
    """An agent of a node whose only rank is this process: `rollcall join
    --attach`. It is killed when the thread that makes it ends; to the other
    nodes that is a lost node.
    """

    def __init__(self, flags: List[str], environment: Mapping[str, str]) -> None:
        """Returns once ranks can attach, or it has failed."""
        # A Unix socket's path has at most 107 bytes.
        short = len(tempfile.gettempdir()) <= _FOLDER_BYTES_MAX
        self._folder = tempfile.mkdtemp(prefix="rollcall-",
                                        dir=None if short else "/tmp")
        self.socket = os.path.join(self._folder, "agent", "socket")
        process = None
        try:
            process = _Process(
                ["join", "--attach", "--socket", self.socket, *flags],
                environment, ready="socket", with_parent=True)
            # It has ended, and said why on stderr.
            self.failed = not process.await_ready()
        except BaseException:
            if process is not None:
                process.signal(signal.SIGKILL)
            self._remove_folder()
            raise
        self._process = process

    @property
    def was_killed(self) -> bool:
        """A signal has ended it."""
        return self._process.await_end(0) and self._process.code < 0

    def await_end(self, timeout: Optional[float] = None) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        if not self._process.await_end(timeout):
            return False
        self._remove_folder()
        return True

    def error(self) -> errors.Error:
        """Why it has ended, with code ABORTED if the job has. Waits for the end
        of a process that is ending."""
        self._process.await_end()
        return errors.Error(self._process.reason, {
            2: "INVALID_ARGUMENT", _NOT_FORMED: "DEADLINE_EXCEEDED",
            77: "PERMISSION_DENIED"}.get(self._process.code, "ABORTED"))

    def end(self, timeout: float) -> None:
        """Its node leaves the job. It is killed if that takes longer."""
        self._process.signal(signal.SIGTERM)
        if not self._process.await_end(timeout):
            self._process.signal(signal.SIGKILL)
        self.await_end()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Launcher:
    """A launcher without ranks of its own, which outlives this process and ends
    with its job. What it says is copied to stderr while this process lives: it
    holds neither stdout nor stderr of it."""

    def __init__(self, flags: List[str], environment: Mapping[str, str]) -> None:
        """Returns once its daemon listens, or it has failed. If it has failed,
        `show` prints what it said."""
        self._process = _Process(
            ["launch", "--attach", "--no-worker", *flags], environment,
            ready="join", with_parent=False, stderr=subprocess.PIPE)
        self._said: List[bytes] = []
        self._copies = threading.Event()
        reader = threading.Thread(target=self._copy, daemon=True,
                                  name="rollcall-stderr")
        try:
            reader.start()
            self.failed = not self._process.await_ready()
        except BaseException:
            # It would keep port and state until its join timeout.
            self.end()
            raise
        if self.failed:
            reader.join()
        else:
            self.show()

    def _copy(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        assert self._process.process.stderr is not None
        with self._process.process.stderr as lines:
            for line in lines:
                self._said.append(line)
                if self._copies.is_set():
                    self.show()

    def show(self) -> None:
        """Prints what it has written so far, and each later line as it comes."""
        self._copies.set()
        while self._said:
            try:
                sys.stderr.buffer.write(self._said.pop(0))
                sys.stderr.flush()
            except (AttributeError, IndexError, OSError, ValueError):
                return

    @property
    def has_rival(self) -> bool:
        """Another launcher has the port or the job's state. Requires that this
        one has failed."""
        return self._process.code == _NOT_FORMED

    @property
    def reason(self) -> str:
        """Why it has ended."""
        return self._process.reason

    def end(self) -> None:
        """Ends its job."""
        self._process.signal(signal.SIGTERM)

    def await_end(self, timeout: float) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        return self._process.await_end(timeout)
