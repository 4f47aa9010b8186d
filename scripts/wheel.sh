#!/bin/bash
# wheel.sh [FOLDER]: builds the wheel of the Python package, with the programs
# `rollcall` and `rollcalld` in it, into FOLDER (default build/packages), and
# prints its path.
#
# auditwheel (from PyPI) checks that the programs need no glibc newer than 2.34
# and no other library, and sets the wheel's tag. `rollcall-train` is not in it,
# since it needs Gloo.
set -eu -o pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/packages}")
tools=${ROLLCALL_WHEEL_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/wheel}/bin
scripts/packages.sh wheel >&2
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
# --no-build-isolation: the environment has the tools already.
"$tools/pip" -q wheel --no-deps --no-build-isolation -w "$made" client/python
mkdir -p "$folder"
PATH=$tools:$PATH "$tools/auditwheel" -v repair \
  --plat "manylinux_2_34_$(uname -m)" -w "$made/checked" "$made"/*.whl \
  >"$made/log" 2>&1 || {
  cat "$made/log" >&2
  exit 1
}
for wheel in "$made"/checked/*.whl; do
  mv "$wheel" "$folder"
  echo "$folder/${wheel##*/}"
done
