#!/bin/bash
# build.sh PRESET [TARGET...]: configures and builds one preset, with progress.
#
# Uses ccache where it is installed. Binaries land in build/PRESET/bin.
set -eu
cd "$(dirname "$0")/.."
preset=${1:?build.sh PRESET [TARGET...]}
shift
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
echo "--- build: $preset"
cmake --preset "$preset" "${launcher[@]}" >"/dev/null"
cmake --build --preset "$preset" ${1:+--target "$@"}
