"""Checks that no message of a daemon contains a command."""
import re

from absences.source import without_comments

# The kind of a message alone determines what an agent does for its daemon; no
# field may tell it what to execute. The daemon only gets the command's digest,
# from the agent.
ORDERS = re.compile(
    r"(command|argv|args|exec|executable|shell|script|program)(_\w+)?",
    re.IGNORECASE)


def messages(files):
    """Returns name -> [(file:line, type, field)] for all messages in .proto
    files. A nested message has its own name."""
    found = {}
    for path, text in sorted(files.items()):
        if not path.endswith(".proto"):
            continue
        blocks = []
        for number, line in enumerate(without_comments(text).split("\n"), 1):
            for piece in re.findall(r"[^{};]*[{};]", line):
                opened = re.match(r"\s*(message|\w+)\s+(\w+).*\{$", piece)
                declared = re.match(
                    r"\s*(?:repeated |optional )?(map<[^>]*>|[\w.]+)\s+(\w+)"
                    r"\s*=\s*\d+", piece)
                if piece.endswith("{"):
                    # The fields of a oneof belong to its message.
                    is_message = opened and opened[1] == "message"
                    is_oneof = opened and opened[1] == "oneof"
                    blocks.append(opened[2] if is_message else
                                  blocks[-1] if is_oneof and blocks else None)
                    if is_message:
                        found.setdefault(opened[2], [])
                elif piece.endswith("}"):
                    blocks.pop()
                elif declared and blocks and blocks[-1]:
                    found[blocks[-1]].append(
                        (f"{path}:{number}", declared[1], declared[2]))
    return found


def orders(files, root="DaemonMessage"):
    """No message of a daemon, or inside one, has a field for a command."""
    known, found = messages(files), []
    todo, seen = [root], {root}
    while todo:
        for where, kind, name in known.get(todo.pop(), []):
            if ORDERS.fullmatch(name):
                found.append(f"{where}: {name}: the daemon names no command")
            for part in re.findall(r"\w+", kind):
                if part in known and part not in seen:
                    seen.add(part)
                    todo.append(part)
    # A Proposal contains a World as bytes, and a Commit a WorldCommit.
    if root == "DaemonMessage":
        for inner in ("World", "WorldCommit"):
            found += orders(files, inner) if inner in known else []
    return sorted(set(found))
