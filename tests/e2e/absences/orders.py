"""No message of a daemon names a command."""
import re

from absences.source import without_comments

# What an agent does for its daemon is fixed by the message's kind: no field
# may tell it what to execute. The command's digest alone is known, and it
# travels the other way.
ORDERS = re.compile(
    r"(command|argv|args|exec|executable|shell|script|program)(_\w+)?",
    re.IGNORECASE)


def messages(files):
    """Name -> [(file:line, type, field)] of all messages in .proto files; a
    nested one by its own name."""
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
                    # A oneof's fields are those of its message.
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
    """No message that a daemon sends says what to execute, however deep."""
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
    # A World travels as bytes in a Proposal, a WorldCommit in a Commit.
    if root == "DaemonMessage":
        for inner in ("World", "WorldCommit"):
            found += orders(files, inner) if inner in known else []
    return sorted(set(found))
