"""Reads our code, and finds places in it that match a pattern."""
import glob
import os
import re

from paths import PROJECT

CODE = (".h", ".cc", ".c", ".py", ".sh", ".proto")


def tree(ends=CODE):
    """Returns path -> text of all our code, except the rules themselves.
    `ends`: how the names of the files end."""
    files = {}
    for folder in ("proto", "daemon", "client", "trainer", "tests",
                   "scripts"):
        for path in glob.glob(os.path.join(PROJECT, folder, "**", "*"),
                              recursive=True):
            if path.endswith(ends) and os.path.isfile(path):
                with open(path, encoding="utf-8") as f:
                    files[os.path.relpath(path, PROJECT)] = f.read()
    # The rules would match their own patterns and samples.
    return {path: text for path, text in files.items()
            if not path.startswith("tests/e2e/project/absences")}


def without_comments(text):
    """Replaces comments in C++ by spaces; keeps line ends and strings."""
    return re.sub(
        r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/',
        lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]),
        text, flags=re.S)


def as_code(text):
    """Removes comment lines of Python and shell, or comments of C++."""
    if re.search(r'^\s*#\s*include\b|\bnamespace\b', text, re.M):
        return without_comments(text)
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


def places(files, pattern, why, clean=without_comments):
    found = []
    for path, text in sorted(files.items()):
        for number, line in enumerate(clean(text).split("\n"), 1):
            match = pattern.search(line)
            if match:
                found.append(f"{path}:{number}: {match[0].strip()}: {why}")
    return found


def excused(path, text, justified):
    """Returns `text` without the parts that are justified in that file."""
    for where, words in justified:
        if where == path:
            text = text.replace(words, "")
    return text


def includes(text):
    """Returns [(line number, name)] of all #include lines."""
    return [(number, match[1])
            for number, line in enumerate(
                without_comments(text).split("\n"), 1)
            for match in [re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]',
                                   line)] if match]
