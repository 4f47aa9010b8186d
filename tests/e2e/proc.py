"""What /proc says of processes."""
import os


def parents():
    """Every process: its parent and its state."""
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
    """All living processes below `pid`, in no order; zombies left out."""
    parent_of = parents()
    found, ring = [], {pid}
    while ring:
        ring = {p for p, (parent, _) in parent_of.items() if parent in ring}
        found += ring
    return [p for p in found if parent_of[p][1] != b"Z"]


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


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f
                    if line.startswith("VmRSS:"))
