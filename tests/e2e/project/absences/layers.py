"""Checks which folder may include what, and what the pure cores may call."""
import os
import re

from absences.source import includes, places

# The layers, lowest first. Each may use itself and those before it.
FLOORS = ["proto", "daemon", "client", "trainer"]

# (folder, folders that it may use), each with its subfolders. A folder may
# always use itself. Each row may only name rows above it. A subfolder with a
# row of its own follows only that row.
USES = [
    ("daemon/base", []),
    ("daemon/core", ["daemon/base"]),
    ("daemon/codec", ["daemon/base", "daemon/core"]),
    ("daemon/security", ["daemon/base", "daemon/core"]),
    ("daemon/journal", ["daemon/base", "daemon/core", "daemon/security"]),
    ("daemon/server", ["daemon/base", "daemon/codec", "daemon/core",
                       "daemon/journal", "daemon/security"]),
    ("daemon", ["daemon/base", "daemon/core", "daemon/journal",
                "daemon/security", "daemon/server"]),
    ("client/facts", ["daemon/base", "daemon/core"]),
    ("client/doctor", ["client/facts", "daemon/base", "daemon/core"]),
    ("client/rank", ["daemon/base", "daemon/core"]),
    ("client/agent/core", ["daemon/base", "daemon/core"]),
    ("client/agent", ["client/agent/core", "client/doctor", "client/facts",
                      "client/rank", "daemon/base", "daemon/codec",
                      "daemon/core", "daemon/security"]),
    ("client/admin", ["client/agent", "daemon/base", "daemon/codec",
                      "daemon/core", "daemon/security"]),
    ("client/launch", ["client/admin", "client/agent", "client/facts",
                       "daemon/base", "daemon/core", "daemon/journal",
                       "daemon/security"]),
    ("client/cli", ["client/admin", "client/agent", "client/doctor",
                    "client/facts", "client/launch", "daemon/base",
                    "daemon/core", "daemon/journal", "daemon/security",
                    "daemon/server"]),  # Only in daemon.cc: server_in_client.
    ("trainer", ["client/rank", "client/agent/nccl", "daemon/base",
                 "daemon/core"]),
]

# Headers that the pure cores may not include, neither directly nor through our
# headers. <csignal>, which has the signals' names, and <arpa/inet.h>, which
# parses addresses, are allowed; CALLS forbids the other functions that they
# declare.
IMPURE = re.compile(
    r"^(grpc|grpcpp|grpc\+\+|absl/synchronization|absl/time/clock|sys/|netinet/"
    r"|net/|linux/)|^(thread|mutex|shared_mutex|condition_variable|future"
    r"|semaphore|stop_token|latch|barrier|chrono|ctime|time\.h|fstream|iostream"
    r"|filesystem|random|unistd\.h|fcntl\.h|poll\.h|dlfcn\.h|netdb\.h"
    r"|ifaddrs\.h|pthread\.h)$|\.grpc\.pb\.h$")

# Calls that read a clock, draw random numbers or use the system, whichever
# header declares them.
CALLS = re.compile(
    r"(?<![\w.>])(socket|kill|raise|sigaction|getenv)\("
    r"|(?<!\w)::(open|connect)\("
    r"|\babsl::Now\(|\bMonotonicNow\(|_clock::now\(|\bclock_gettime\(|"
    r"\bgettimeofday\(|\btime\((NULL|nullptr|0)\)|\brandom_device\b|\brand\(")


def is_pure(path):
    return re.match(r"(daemon|client/agent)/core/.*\.(h|cc)$",
                    path) is not None


def impure_includes(files):
    """The cores include no gRPC, thread, clock, file or socket, directly or
    indirectly."""
    found = []

    def walk(path, chain, seen):
        for line, name in includes(files.get(path, "")):
            where = f"{path}:{line}"
            way = "".join(f" <- {c}" for c in reversed(chain))
            if IMPURE.search(name):
                found.append(f"{where}: <{name}> in a pure core{way}")
            # Also checks what our headers and their sources include.
            for one in (name, re.sub(r"\.h$", ".cc", name)):
                if one in files and one not in seen:
                    seen.add(one)
                    walk(one, chain + [where], seen)
    for path in sorted(files):
        if is_pure(path):
            walk(path, [], {path})
    return found


def calls_in_cores(files):
    """The cores get `now` as an argument and random numbers with the event, and
    use nothing else from outside."""
    return places({p: t for p, t in files.items() if is_pure(p)}, CALLS,
                  "time, chance and the world come in with the event")


def upward_includes(files):
    """Includes go only trainer -> client -> daemon -> proto."""
    found = []
    for path, text in sorted(files.items()):
        floor = path.split("/")[0]
        if floor not in FLOORS:
            continue
        for line, name in includes(text):
            other = name.split("/")[0]
            if other in ("tests",) or (
                    other in FLOORS
                    and FLOORS.index(other) > FLOORS.index(floor)):
                found.append(f"{path}:{line}: {name}: {floor} may use only "
                             "what lies below it")
    return found


def folder_uses(files):
    """Returns {folder: {folder that it includes from: first file:line that
    does}} for our folders with code."""
    code = {p: t for p, t in files.items()
            if p.split("/")[0] in FLOORS
            and p.endswith((".h", ".cc"))}
    folders = {os.path.dirname(p) for p in code}
    uses = {folder: {} for folder in folders}
    for path, text in sorted(code.items()):
        for line, name in includes(text):
            own, other = os.path.dirname(path), os.path.dirname(name)
            if other in folders and other != own:
                uses[own].setdefault(other, f"{path}:{line}")
    return uses


def way(uses, start, end):
    """Returns the folders of a shortest way from start to end, or []."""
    ways, seen = [[start]], {start}
    for at in ways:
        for other in sorted(uses.get(at[-1], {})):
            if other == end:
                return at + [other]
            if other not in seen:
                seen.add(other)
                ways.append(at + [other])
    return []


def unit_uses(files):
    """The same for the pure cores' units: a header with its source."""
    units = {}
    for path, text in sorted(files.items()):
        if is_pure(path):
            units.setdefault(os.path.splitext(path)[0], []).append((path, text))
    uses = {unit: {} for unit in units}
    for unit, sources in units.items():
        for path, text in sources:
            for line, name in includes(text):
                other = os.path.splitext(name)[0]
                if other in units and other != unit:
                    uses[unit].setdefault(other, f"{path}:{line}")
    return uses


def cycles(uses, subject):
    found, told = [], set()
    for start in sorted(uses):
        cycle = way(uses, start, start)
        if cycle and frozenset(cycle) not in told:
            told.add(frozenset(cycle))
            found.append(f"{uses[cycle[0]][cycle[1]]}: {subject} include each "
                         f"other: {' -> '.join(cycle)}")
    return found


def folder_cycles(files):
    """There is no include cycle between folders."""
    return cycles(folder_uses(files), "folders")


def unit_cycles(files):
    """In the pure cores, a function calls only functions of its own unit or of
    units below it: units include each other in one direction only."""
    return cycles(unit_uses(files), "units")


def lies_in(folder, other):
    return folder == other or folder.startswith(other + "/")


def forbidden_uses(files, table=None):
    """Each folder uses only what USES allows. A folder without a row is an
    error."""
    table, found = USES if table is None else table, []
    for folder, uses in sorted(folder_uses(files).items()):
        rows = [row for row in table if lies_in(folder, row[0])]
        if not rows:
            found.append(f"{folder}:1: no row of USES says what it may use")
            continue
        own, allowed = max(rows, key=lambda row: len(row[0]))
        for other, where in sorted(uses.items()):
            if not any(lies_in(other, one) for one in [own] + allowed):
                found.append(f"{where}: {own} may not use {other}")
    return found


def server_in_client(files):
    """Of the client, only the program `rollcall` uses the server, to run a
    daemon in it. Its libraries, with all commands but that one, do not."""
    runs = "client/cli/commands/daemon.cc"
    found = [f"{path}:{line}: {name}: only {runs} runs a daemon"
             for path, text in sorted(files.items())
             if lies_in(path, "client") and path != runs
             for line, name in includes(text)
             if lies_in(name, "daemon/server")]
    for path, text in sorted(files.items()):
        if path.endswith("CMakeLists.txt") and lies_in(path, "client"):
            found += [f"{path}:{text.count(chr(10), 0, call.start()) + 1}: "
                      f"{call[1]}: only rollcall links the server"
                      for call in re.finditer(
                          r"target_link_libraries\((\S+)([^)]*)\)", text)
                      if "rollcall_server" in call[2].split()
                      and call[1] != "rollcall"]
    return found


def more_than_absl(files):
    """daemon/base includes neither gRPC nor our messages. Of its subfolders
    only grpc, a library of its own, may."""
    return [f"{path}:{line}: <{name}>: daemon/base links absl only"
            for path, text in sorted(files.items())
            if lies_in(path, "daemon/base")
            and not lies_in(path, "daemon/base/grpc")
            for line, name in includes(text)
            if re.match(r"grpc|rollcall/|etcd/|daemon/base/grpc/", name)]


def grpc_in_rank(files):
    """client/rank links no gRPC, so that a training process with its own gRPC
    does not get a second one."""
    return [f"{path}:{line}: <{name}>: client/rank links no gRPC"
            for path, text in sorted(files.items())
            if os.path.dirname(path) == "client/rank"
            for line, name in includes(text)
            if re.match(r"grpc|daemon/base/grpc/|.*\.grpc\.pb\.h$", name)]
