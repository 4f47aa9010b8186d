"""Checks the libraries that our binaries link and need."""
import glob
import os
import re
import subprocess

from paths import BIN, PROJECT

# Libraries that are opened at run time and never linked.
NEVER_LINKED = re.compile(
    r"lib(nccl|nvidia-ml|cuda|cudart|cublas|ibverbs|rdmacm|mlx5)\b")

GLIBC = re.compile(r"\bGLIBC_(\d+)\.(\d+)")


def executables():
    """Maps each path to its libraries: all, for rollcall and rollcalld; only
    those linked directly, for the others."""
    found = {}
    for path in glob.glob(os.path.join(BIN, "*")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            whole = os.path.basename(path) in ("rollcall", "rollcalld")
            said = subprocess.run(
                ["ldd", path] if whole else ["readelf", "-d", path],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            found[os.path.relpath(path, PROJECT)] = said.stdout
    return found


def linked(binaries):
    """`binaries` is the result of executables(). rollcall and rollcalld must
    start where none of these libraries is installed, so their libraries may not
    link one either. For other binaries it does not matter what a packaged
    libgloo links."""
    return [f"{path}:1: links {match[0]}; open it with dlopen"
            for path, said in sorted(binaries.items())
            for match in NEVER_LINKED.finditer(said)]


def needed(path):
    """Returns the shared libraries that a binary links directly."""
    said = subprocess.run(["readelf", "-d", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said)


def newest_glibc(symbols):
    """Returns the newest version in a list of symbols, as (2, 35)."""
    return max(tuple(map(int, m)) for m in GLIBC.findall(symbols))
