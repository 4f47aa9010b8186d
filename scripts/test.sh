#!/bin/bash
# test.sh: everything, from packages to the last test. Ends 0 if all is well.
#
# Builds `dev` and runs all its tests, end-to-end ones in lab hosts included;
# builds `asan` and runs the unit tests and stories under the sanitizers; builds
# `fuzz` and runs each fuzz target for 20 s from its corpus.
# ctest's closing lines of all three come last.
#
#   ROLLCALL_TEST_WITHOUT_NAMESPACES=1  leaves out what needs lab hosts
#   ROLLCALL_TEST_WITHOUT_TORCH=1       leaves out what needs python3-torch
set -eu -o pipefail
cd "$(dirname "$0")/.."
scripts/packages.sh test

jobs=$(nproc)
summaries=$(mktemp)
trap 'rm -f "$summaries"' EXIT
failed=0

# run PRESET CTEST-FLAGS...: its tests, with their closing lines kept.
run() {
  local preset=$1 log
  shift
  echo "--- tests: $preset"
  log=$(mktemp)
  ctest --preset "$preset" -j "$jobs" --output-on-failure "$@" |
    tee "$log" || failed=1
  echo "$preset:" >>"$summaries"
  sed -n '/tests passed/,$p' "$log" >>"$summaries"
  rm -f "$log"
}

scripts/build.sh dev
run dev
scripts/build.sh asan
run asan -LE e2e
scripts/build.sh fuzz
run fuzz

echo "--- all tests"
cat "$summaries"
exit $failed
