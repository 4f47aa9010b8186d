"""The paths of the tree and of its binaries."""
import os

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
BIN = os.path.abspath(os.environ.get(
    "ROLLCALL_BIN", os.path.join(PROJECT, "build", "dev", "bin")))
ROLLCALL = os.path.join(BIN, "rollcall")
# The virtual environment that `scripts/packages.sh torch` makes.
TORCH_VENV = os.environ.get("ROLLCALL_TORCH_VENV", os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
    "rollcall", "torch"))
# The virtual environment that `scripts/packages.sh pytorch` makes.
PYTORCH_VENV = os.environ.get("ROLLCALL_PYTORCH_VENV", os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
    "rollcall", "pytorch"))
LAB = os.path.join(PROJECT, "scripts", "lab.sh")
