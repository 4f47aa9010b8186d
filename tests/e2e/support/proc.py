"""Reads information about processes from /proc."""
import contextlib
import ctypes
import os


def parents():
    """Maps each process to its parent and its state."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rsplit(b")", 1)[1].split()
        except OSError:
            continue
        found[int(name)] = (int(fields[1]), fields[0])
    return found


def descendants(pid):
    """Returns all processes below `pid`, in no order, without zombies."""
    parent_of = parents()
    found, ring = [], {pid}
    while ring:
        ring = {p for p, (parent, _) in parent_of.items() if parent in ring}
        found += ring
    return [p for p in found if parent_of[p][1] != b"Z"]


def lives(pid):
    return parents().get(pid, (0, b"Z"))[1] != b"Z"


def command_line(pid):
    """Returns the command line of `pid`, or [] if it has none: it has ended, or
    it is just executing another program."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return [a.decode("utf-8", "replace")
                    for a in f.read().split(b"\0")[:-1]]
    except OSError:
        return []


def subcommands(pids, *words):
    """Returns those of `pids` that run `rollcall WORD...`.

    A child that was forked but has not executed its program yet still shows
    its parent's command line, and is left out.
    """
    parent_of = parents()
    found = {pid for pid in pids
             for line in [command_line(pid)]
             if line[1:2] == [words[0]] and set(words) <= set(line)}
    return [pid for pid in found
            if parent_of.get(pid, (0, b""))[0] not in found]


def start_ticks(pid):
    """Returns when a process started, in ticks since boot."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rsplit(b")", 1)[1].split()[19])


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f
                    if line.startswith("VmRSS:"))


@contextlib.contextmanager
def threads_held(pid):
    """Stops all threads of a process except the first, within this context.

    This is like a machine on which these threads get no processor time. Threads
    that the process starts meanwhile are not stopped.
    """
    seize, interrupt, detach, wall = 0x4206, 0x4207, 17, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4

    def trace(request, thread):
        if libc.ptrace(request, thread, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    held = []
    try:
        for name in os.listdir(f"/proc/{pid}/task"):
            if int(name) == pid:
                continue
            trace(seize, int(name))
            held.append(int(name))
            trace(interrupt, int(name))
            os.waitpid(int(name), wall)
        yield
    finally:
        for thread in held:
            with contextlib.suppress(OSError):
                trace(detach, thread)
