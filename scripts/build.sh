#!/bin/bash
# build.sh PRESET [TARGET...]: configures and builds one preset, with progress.
# Binaries are in build/PRESET/bin.
set -eu
cd "$(dirname "$0")/.."
preset=${1:?build.sh PRESET [TARGET...]}
shift
echo "--- build: $preset"
cmake --preset "$preset" >"/dev/null"
cmake --build --preset "$preset" ${1:+--target "$@"}
