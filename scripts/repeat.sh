#!/bin/bash
# repeat.sh [UNIT [E2E [MODULE...]]]: looks for flaky tests.
#
# Runs each unit test binary of `asan` UNIT times (200) and each end-to-end
# module on the release binaries E2E times (10), or only the named modules.
# Four unit test binaries or modules run at once on each core, so that the
# machine is loaded more than by test.sh; modules that need the machine for
# themselves run alone.
# Each run has another seed, for tests that take one. Prints a line for each
# binary or module that failed and keeps the log of its first failure below
# build/repeat; exit status 1 if any failed.
set -u
cd "$(dirname "$0")/.."
unit=${1:-200} e2e=${2:-10}
shift $(($# < 2 ? $# : 2))
case $unit$e2e in
  *[!0-9]*) echo "repeat.sh: expected numbers, got '$unit' '$e2e'" >&2; exit 2 ;;
esac
modules=("$@")
[ $# != 0 ] || mapfile -t modules < <(cd tests/e2e && ls ./*/*_test.py |
  sed 's,.*/,,; s,\.py$,,' | sort)
export finds=$PWD/build/repeat
rm -rf "$finds"
mkdir -p "$finds"

scripts/build.sh asan unit_tests || exit
scripts/build.sh release || exit

# once NAME CMD...: does one run. A failure adds a line to NAME.failed.
once() {
  local name=$1 log
  shift
  log=$(mktemp "$finds/XXXXXX.running")
  ROLLCALL_TEST_SEED=$RANDOM timeout -k 10 1800 "$@" >"$log" 2>&1 || {
    echo "exit status $?" >>"$finds/$name.failed"
    mv -n "$log" "$finds/$name.log"
  }
  rm -f "$log"
}
unit_once() { once "$(basename "$1")" "$1" --gtest_brief=1 --gtest_shuffle; }
# A module exits with 77 if all its tests were skipped.
e2e_once() {
  once "$1" bash -c '/usr/bin/python3 -B run_one.py "$1" || [ $? = 77 ]' - "$1"
}
export -f once unit_once e2e_once

# repeat COUNT PARALLEL WHAT NAME...: runs each name COUNT times. It goes
# through all names before it repeats one, so that a test runs beside different
# tests.
repeat() {
  local count=$1 parallel=$2 what=$3 i
  shift 3
  [ $# != 0 ] || return 0
  for ((i = 0; i < count; i++)); do printf '%s\0' "$@"; done |
    xargs -0 -r -P "$parallel" -I{} bash -c "$what"' "$1"' - {}
}

export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
repeat "$unit" $((4 * $(nproc))) unit_once build/asan/bin/*_test
cd tests/e2e || exit
export ROLLCALL_BIN=../../build/release/bin ROLLCALL_TEST_S=600
together=() alone=()
for module in "${modules[@]}"; do
  case $module in  # RUN_SERIAL, PROCESSORS in tests/e2e/CMakeLists.txt.
    *floods_test* | rdma_vm_test* | slow_test*) alone+=("$module") ;;
    *) together+=("$module") ;;
  esac
done
repeat "$e2e" $((4 * $(nproc))) e2e_once "${together[@]}"
repeat "$e2e" 1 e2e_once "${alone[@]}"

bad=0
for failed in "$finds"/*.failed; do
  [ -e "$failed" ] || continue
  name=$(basename "$failed" .failed)
  echo "repeat.sh: $name failed $(wc -l <"$failed") times; $finds/$name.log"
  bad=1
done
[ $bad = 0 ] && echo "repeat.sh: no failure: each unit binary $unit times, each" \
  "end-to-end module $e2e times"
exit $bad
