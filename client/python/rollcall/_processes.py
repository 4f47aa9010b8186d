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

_FOLDER_BYTES_MAX = 70
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
    for people go to the stderr of this process.

    `ready`: the key of the object that says that it is there.
    """

    def __init__(self, command: List[str], environment: Mapping[str, str],
                 ready: str, with_parent: bool) -> None:
        parent = os.getpid()
        # pylint: disable=subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            [program(), *command, "--json"], env=dict(environment),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=(lambda: _die_with(parent)) if with_parent else None)
        self._ready = ready
        self._changed = threading.Condition()
        # Guarded by `_changed`.
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
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return
        if not isinstance(told, dict):
            return
        with self._changed:
            self._is_ready = self._is_ready or self._ready in told
            if "exit_code" in told:
                self._end = told
            self._changed.notify_all()

    def await_ready(self) -> bool:
        """False: it has ended instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._is_ready)
            return self._is_ready

    def await_end(self, timeout: Optional[float] = None) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over, timeout)

    @property
    def reason(self) -> str:
        """Why it has ended, as it said, or with which code."""
        with self._changed:
            reason = self._end.get("reason")
        return str(reason or "`rollcall` ended with code "
                   f"{self.process.returncode}; its message stands above")


def _die_with(parent: int) -> None:
    """In the new process: it is killed when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Agent:
    """An agent of a node whose only rank is this process: `rollcall join
    --attach`. It is killed when this process dies; to the other nodes that is a
    lost node.
    """

    def __init__(self, flags: List[str], environment: Mapping[str, str]) -> None:
        """Returns once ranks can attach. errors.Error: it has ended; it said
        why on stderr."""
        # A Unix socket's path has 107 bytes.
        short = len(tempfile.gettempdir()) <= _FOLDER_BYTES_MAX
        self._folder = tempfile.mkdtemp(prefix="rollcall-",
                                        dir=None if short else "/tmp")
        self.socket = os.path.join(self._folder, "agent", "socket")
        try:
            self._process = _Process(
                ["join", "--attach", "--socket", self.socket, *flags],
                environment, ready="socket", with_parent=True)
            if not self._process.await_ready():
                raise self.error()
        except BaseException:
            self._remove_folder()
            raise

    @property
    def code(self) -> Optional[int]:
        """Its exit code, or minus the signal that ended it; None: it runs."""
        ended = self._process.await_end(0)
        return self._process.process.returncode if ended else None

    def await_end(self, timeout: Optional[float] = None) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        if not self._process.await_end(timeout):
            return False
        self._remove_folder()
        return True

    def error(self) -> errors.Error:
        """Why it has ended. Waits for the end of a process that is ending."""
        self._process.await_end()
        return errors.Error(self._process.reason, {
            69: "DEADLINE_EXCEEDED", 77: "PERMISSION_DENIED"}.get(
                self._process.process.returncode, "ABORTED"))

    def end(self, timeout: float) -> None:
        """Its node leaves the job. It is killed if that takes longer."""
        if self.code is None:
            self._process.process.terminate()
        if not self._process.await_end(timeout):
            self._process.process.kill()
        self.await_end()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def launch(flags: List[str], environment: Mapping[str, str]) -> Optional[str]:
    """Starts a launcher without ranks of its own, which outlives this process
    and ends with its job. Returns once its daemon listens; if it has ended
    instead, why."""
    launcher = _Process(["launch", "--attach", "--no-worker", *flags],
                        environment, ready="join", with_parent=False)
    return None if launcher.await_ready() else launcher.reason
