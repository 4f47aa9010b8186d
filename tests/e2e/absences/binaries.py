"""What our binaries link and need."""
import glob
import os
import re
import subprocess

from paths import BIN, PROJECT

# Opened at run time, never linked.
NEVER_LINKED = re.compile(
    r"lib(nccl|nvidia-ml|cuda|cudart|cublas|ibverbs|rdmacm|mlx5)\b")

GLIBC = re.compile(r"\bGLIBC_(\d+)\.(\d+)")


def executables():
    """Path -> the libraries it needs: rollcall's all, others' own."""
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
    """Binaries as executables() has them. rollcall and rollcalld start where
    none of these is installed, so nothing below them may link one either;
    what a packaged libgloo links is its own business."""
    return [f"{path}:1: links {match[0]}; open it with dlopen"
            for path, said in sorted(binaries.items())
            for match in NEVER_LINKED.finditer(said)]


def needed(path):
    """The shared libraries that a binary names itself."""
    said = subprocess.run(["readelf", "-d", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said)


def newest_glibc(symbols):
    """Of what `objdump -T` or `readelf` prints, as (2, 35)."""
    return max(tuple(map(int, m)) for m in GLIBC.findall(symbols))
