#!/bin/bash
# test.sh: everything, from packages to the last test. Exit status 0 if all
# tests passed.
#
# Builds `asan` for the tests in one process (unit tests, stories, the corpora of
# the fuzz targets, 2,000 simulated runs) under the address and undefined
# behaviour sanitizers; and `release`, with warnings as errors, for the
# end-to-end tests, including those with lab hosts, and 20,000 simulated runs on
# the shipped binaries. Runs both side by side. At the end it prints ctest's
# closing lines of both, which name the skipped tests.
#
#   ROLLCALL_TEST_WITHOUT_NAMESPACES=1  leaves out tests that need lab hosts
#   ROLLCALL_TEST_WITHOUT_TORCH=1       leaves out tests that need python3-torch
set -eu -o pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
scripts/packages.sh test

jobs=$(nproc)
logs=$(mktemp -d)
asan=
# The group of the tests that run in the background.
trap '[ -z "$asan" ] || kill -- "-$asan" 2>/dev/null || true; rm -rf "$logs"' EXIT
failed=0

# tested PRESET: prints the time, and keeps the closing lines of the preset's
# tests.
tested() {
  echo "--- tested: $1, after $((SECONDS - began)) s"
  { echo "$1:"; sed -n '/tests passed/,$p' "$logs/$1"; } >>"$logs/summaries"
}

scripts/build.sh asan unit_tests
scripts/build.sh release

# End-to-end tests spend half of their time waiting. The tests of asan only
# compute, and get the time that is left. With `set -m` they do not ignore
# SIGINT, which their own children would inherit.
echo "--- tests, after $((SECONDS - began)) s"
set -m
nice -n 19 ctest --preset asan -j "$jobs" --output-on-failure -LE e2e \
  >"$logs/asan" 2>&1 &
asan=$!
set +m
ctest --preset release -j $((jobs + (jobs + 1) / 2)) --output-on-failure |
  tee "$logs/release" || failed=1
tested release
wait "$asan" || failed=1
asan=
cat "$logs/asan"
tested asan

echo "--- all tests, after $((SECONDS - began)) s"
cat "$logs/summaries"
exit $failed
