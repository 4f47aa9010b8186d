#!/bin/bash
# test.sh: everything, from packages to the last test. Exit status 0 if all
# tests passed.
#
# Builds `release`, with warnings as errors, and runs the end-to-end tests,
# including those with lab hosts, and 20,000 simulated runs on the shipped
# binaries. Builds `asan` and runs the tests in one process (unit tests, stories,
# the corpora of the fuzz targets, 2,000 simulated runs) under the address and
# undefined behaviour sanitizers. At the end it prints ctest's closing lines of
# both, which name the skipped tests.
#
#   ROLLCALL_TEST_WITHOUT_NAMESPACES=1  leaves out tests that need lab hosts
#   ROLLCALL_TEST_WITHOUT_TORCH=1       leaves out tests that need python3-torch
set -eu -o pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
scripts/packages.sh test

jobs=$(nproc)
summaries=$(mktemp)
asan_log=$(mktemp)
asan_build=
trap 'rm -f "$summaries" "$asan_log"
      [ -z "$asan_build" ] || kill -- "-$asan_build" 2>/dev/null' EXIT
trap 'exit 1' INT TERM
failed=0

# run PRESET JOBS CTEST-FLAGS...: runs the preset's tests and keeps the closing
# lines.
run() {
  local preset=$1 jobs=$2 log
  shift 2
  echo "--- tests: $preset, after $((SECONDS - began)) s"
  log=$(mktemp)
  rm -f "build/$preset/Testing/Temporary/LastTest.log"
  ctest --preset "$preset" -j "$jobs" --output-on-failure "$@" |
    tee "$log" || failed=1
  echo "$preset:" >>"$summaries"
  sed -n '/tests passed/,$p' "$log" >>"$summaries"
  rm -f "$log"
  inside "build/$preset/Testing/Temporary/LastTest.log" >>"$summaries" || failed=1
}

# inside LOG: counts the tests inside the GoogleTest binaries that a log of ctest
# has, and names the skipped ones with their reasons. Prints nothing if there are
# none.
inside() {
  awk '/^\[  (PASSED|FAILED)  \] [0-9]+ tests?[.,]/ { count[$2] += $4 }
       /^[^ ]+:[0-9]+: Skipped$/ { getline why }
       /^\[  SKIPPED \] [^ ]+ \([0-9]+ ms\)$/ { skipped[$4] = why }
       END {
         if (!("PASSED" in count)) exit
         printf "inside the GoogleTest binaries: %d tests passed, %d failed\n",
           count["PASSED"], count["FAILED"]
         for (name in skipped) {
           printf "\t%s (Skipped): %s\n", name, skipped[name]
         }
       }' "$1"
}

# More tests at once than processors, because many wait. With two processors,
# those of asan take 281 s two at a time and 190 s four at a time, and those of
# release 728 s four at a time and 602 s six at a time.
#
# `asan` is built in the time that the end-to-end tests leave, a tenth or so, and
# then alone. It has the lowest priority. Where the scheduler groups processes by
# session (sched(7), autogroup), that counts only within a session, so the
# session gets the lowest one too.
scripts/build.sh release
setsid nice -n 19 bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null
  exec scripts/build.sh asan unit_tests' >"$asan_log" 2>&1 &
asan_build=$!
run release $((3 * jobs))
echo "--- build: asan goes on alone, after $((SECONDS - began)) s"
built=0
wait "$asan_build" || built=$?
asan_build=
if [ "$built" = 0 ]; then
  run asan $((2 * jobs)) -LE e2e
else
  cat "$asan_log"
  failed=1
fi

echo "--- all tests, after $((SECONDS - began)) s"
cat "$summaries"
exit $failed
