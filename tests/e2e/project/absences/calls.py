"""Checks for calls that our code must not make."""
import re

from absences.layers import FLOORS
from absences.source import as_code, excused, places, without_comments

SLEEPS = re.compile(
    r"\bsleep_for\(|\bsleep_until\(|\busleep\(|\bnanosleep\(|"
    r"\babsl::SleepFor\(|(?<![\w.:])sleep\(|\btime\.sleep\(")

# Files that may sleep, since there is no event to wait for: path -> reason.
SLEEPS_JUSTIFIED = {
    "trainer/checkpointing.cc":
        "another process saves in a folder, maybe on another machine",
    "client/agent/node_files/leftovers.cc":
        "another agent's lock has no end that could be awaited with a bound",
}

# C functions that pass a string to a shell.
SHELLS = re.compile(r"(?<![\w.:>])(system|popen)\(|std::system\(|"
                    r"\bos\.system\(|shell=True")

# Channels and servers that are made without the shared arguments.
BARE_CHANNEL = re.compile(
    r"grpc::ChannelArguments(\(\)| \w+;)|grpc::CreateChannel\(")
BARE_SERVER = re.compile(r"grpc::ServerBuilder \w+;(?!\s*(SetDefaults|"
                         r"Configure)\()")
DEFAULTS = "daemon/base/grpc/grpc_defaults.h"

# A literal port to listen on or to dial. 0 is allowed: the system chooses.
FIXED_PORT = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(?!0\b)\d{2,5}\b|"
    r"\bbind\(\(['\"][^'\"]*['\"], *(?!0\b)\d+|--listen[ =]\S*:(?!0\b)\d{2,5}")

# (file, text) -> reason why no test uses that port.
PORTS_JUSTIFIED = {
    ("tests/unit/cli/cli_test.cc", "[::1]:80"): "parsed, never dialled",
    ("tests/unit/journal/etcd_records_test.cc", "[::1]:2379"):
        "parsed, never dialled",
    ("tests/unit/agent/nccl_test.cc", "127.0.0.1:23456"):
        "a NCCL_COMM_ID that must be cleared",
    ("tests/unit/server/server_test.cc", "127.0.0.1:65536"): "no port at all",
    ("tests/unit/server/connections/listener_test.cc", "127.0.0.1:65536"):
        "no port at all",
    ("tests/e2e/daemon/web_test.py", "127.0.0.1:99999"): "no port at all",
    **{("tests/unit/server/web_test.cc", address): "parsed, never dialled"
       for address in ("localhost:80", "127.0.0.1:8080", "[::1]:8080")},
    **{("tests/unit/security/join_string_test.cc", address):
       "parsed, never dialled" for address in (
           "127.0.0.1:29400", "[::1]:29400", "0.0.0.0:29400",
           "localhost:29400", "[::]:29400", "127.0.0.1:80", "[::1]:80",
           "localhost:80")},
}


def sleeps(files):
    """Code must not sleep to wait if it can wait for an event."""
    return places({p: t for p, t in files.items()
                   if p not in SLEEPS_JUSTIFIED},
                  SLEEPS, "await the event", clean=as_code)


def shells(files):
    """Code must not pass a string to a shell."""
    return places(files, SHELLS, "start the program itself", clean=as_code)


def bare_channels(files):
    """Each channel and server must be made with the shared arguments, which
    turn message compression off."""
    ours = {p: t for p, t in files.items()
            if p != DEFAULTS and p.split("/")[0] in FLOORS}
    found = places(ours, BARE_CHANNEL, "begin with DefaultChannelArguments()")
    for path, text in sorted(ours.items()):
        for match in BARE_SERVER.finditer(without_comments(text)):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: call SetDefaults first")
    return found


def fixed_ports(files):
    """Tests only listen on or dial ports that they got from the system."""
    return places({p: excused(p, as_code(t), PORTS_JUSTIFIED)
                   for p, t in files.items() if p.startswith("tests/")},
                  FIXED_PORT, "ask for port 0", clean=str)
