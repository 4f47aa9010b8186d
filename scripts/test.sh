#!/bin/bash
# test.sh: everything, from packages to the last test. Ends 0 if all is well.
#
# Builds `asan` and runs what needs one process (unit tests, stories, the corpora
# of the fuzz targets, 2,000 simulated runs) under the address and undefined
# behaviour sanitizers; builds `release`, warnings as errors, and runs the
# end-to-end tests, lab hosts included, and 20,000 simulated runs on what is
# shipped. ctest's closing lines of both come last; they name what was skipped.
#
#   ROLLCALL_TEST_WITHOUT_NAMESPACES=1  leaves out what needs lab hosts
#   ROLLCALL_TEST_WITHOUT_TORCH=1       leaves out what needs python3-torch
set -eu -o pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
scripts/packages.sh test

jobs=$(nproc)
summaries=$(mktemp)
trap 'rm -f "$summaries"' EXIT
failed=0

# run PRESET JOBS CTEST-FLAGS...: its tests, with their closing lines kept.
run() {
  local preset=$1 jobs=$2 log
  shift 2
  echo "--- tests: $preset, after $((SECONDS - began)) s"
  log=$(mktemp)
  ctest --preset "$preset" -j "$jobs" --output-on-failure "$@" |
    tee "$log" || failed=1
  echo "$preset:" >>"$summaries"
  sed -n '/tests passed/,$p' "$log" >>"$summaries"
  rm -f "$log"
}

scripts/build.sh asan unit_tests
run asan "$jobs" -LE e2e
scripts/build.sh release
# End-to-end tests wait for most of their time.
run release $((jobs + (jobs + 1) / 2))

echo "--- all tests, after $((SECONDS - began)) s"
cat "$summaries"
exit $failed
