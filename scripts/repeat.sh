#!/bin/bash
# repeat.sh [UNIT [E2E [MODULE...]]]: looks for tests that fail now and then.
#
# Runs each unit test binary of `asan` UNIT times (200) and each end-to-end
# module on the release binaries E2E times (10), or the modules that are named,
# with one more process a core that only computes. Each run has another seed
# where a test takes one. Prints a line for each binary or module that failed and
# keeps the log of its first failure below build/repeat; exit status 1 if any
# failed.
set -u
cd "$(dirname "$0")/.."
unit=${1:-200} e2e=${2:-10}
shift $(($# < 2 ? $# : 2))
case $unit$e2e in
  *[!0-9]*) echo "repeat.sh: expected numbers, got '$unit' '$e2e'" >&2; exit 2 ;;
esac
modules=("$@")
[ $# != 0 ] || mapfile -t modules < <(cd tests/e2e && ls ./*_test.py |
  sed 's,^./,,; s,\.py$,,')
finds=$PWD/build/repeat
rm -rf "$finds"
mkdir -p "$finds"

scripts/build.sh asan unit_tests || exit
scripts/build.sh release || exit

load=()
trap 'kill "${load[@]}" 2>/dev/null' EXIT
for ((i = 0; i < $(nproc); i++)); do
  nice -n 1 bash -c 'while :; do :; done' &
  load+=($!)
done

# times NAME COUNT CMD...: how often it failed, if it did.
times() {
  local name=$1 count=$2 failed=0 i
  shift 2
  for ((i = 0; i < count; i++)); do
    ROLLCALL_TEST_SEED=$RANDOM timeout -k 10 1800 "$@" >"$finds/log" 2>&1 &&
      continue
    failed=$((failed + 1))
    [ $failed != 1 ] || mv "$finds/log" "$finds/$name.log"
  done
  rm -f "$finds/log"
  [ $failed = 0 ] && return
  echo "repeat.sh: $name failed $failed times of $count; $finds/$name.log"
  return 1
}

bad=0
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
if [ "$unit" != 0 ]; then
  for binary in build/asan/bin/*_test; do
    times "$(basename "$binary")" "$unit" "$binary" --gtest_brief=1 \
      --gtest_shuffle || bad=1
  done
fi
cd tests/e2e || exit
export ROLLCALL_BIN=../../build/release/bin ROLLCALL_TEST_S=600
if [ "$e2e" != 0 ]; then
  for module in "${modules[@]}"; do
    times "$module" "$e2e" python3 -B -m unittest -v "$module" || bad=1
  done
fi
[ $bad = 0 ] && echo "repeat.sh: no failure: each unit binary $unit times, each" \
  "end-to-end module $e2e times"
exit $bad
