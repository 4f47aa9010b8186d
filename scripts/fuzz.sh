#!/bin/bash
# fuzz.sh [SECONDS] [TARGET...]: runs each fuzz target for SECONDS (600), two at
# a time, from the corpus in tests/fuzz. Prints a table at the end; the exit
# status is not 0 if anything was found. Inputs that break something are kept
# below build/fuzz/fuzz.
#
#   fuzz.sh --merge [SECONDS] [TARGET...]  also stores what was learned, one
#                                          file per target: corpus/TARGET.tar.gz
#   fuzz.sh --seeds                        writes the seeds of the corpus
#
# Without targets: all of them.
set -eu -o pipefail
cd "$(dirname "$0")/.."
all=(agent checkpoint config flags frames hosts job join probe restore secrets
     store texts)
corpus=tests/fuzz/corpus
bin=build/fuzz/bin

merge=
if [ "${1:-}" = --merge ]; then
  merge=1
  shift
elif [ "${1:-}" = --seeds ]; then
  scripts/build.sh fuzz fuzz_seeds
  exec "$bin/fuzz_seeds" "$corpus"
fi
seconds=600
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
targets=("$@")
[ $# != 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " = *" $target "* ]] || {
    echo "fuzz.sh: expected a target (${all[*]}), got '$target'" >&2
    exit 2
  }
done
scripts/packages.sh check
scripts/build.sh fuzz

work=$(mktemp -d)
# `kill` fails if there are no jobs, and with set -e that would end the trap.
trap 'trap - TERM; kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# one TARGET: runs the target, and keeps its log and its exit status.
one() {
  local status=0
  mkdir "$work/$1"
  FUZZ_LEARNED=$work/$1 tests/fuzz/run.sh "$bin/fuzz_$1" "$corpus/$1" \
    "build/fuzz/fuzz/$1" "$seconds" >"$work/$1.log" 2>&1 || status=$?
  echo "$status" >"$work/$1.status"
  echo "fuzz: $1 ended after $seconds s with status $status"
}

for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
  echo "fuzz: $target"
  one "$target" &
done
wait

if [ -n "$merge" ]; then
  for target in "${targets[@]}"; do
    # Keep the fewest inputs that reach the same edges. How often an input
    # reaches an edge does not count, because that would keep thousands of
    # inputs.
    mkdir "$work/$target.merged" "$work/$target.before"
    [ ! -e "$corpus/$target.tar.gz" ] ||
      tar -xzf "$corpus/$target.tar.gz" -C "$work/$target.before"
    "$bin/fuzz_$target" -merge=1 -use_counters=0 "$work/$target.merged" \
      "$corpus/$target" "$work/$target.before" "$work/$target" \
      >"$work/$target.merge" 2>&1
    # The seeds are kept as separate files, so remove them here.
    seeds=$(sha1sum "$corpus/$target"/* | cut -d' ' -f1)
    for input in "$work/$target.merged"/*; do
      ! grep -q "^$(sha1sum <"$input" | cut -d' ' -f1)$" <<<"$seeds" ||
        rm "$input"
    done
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
      -C "$work/$target.merged" -cf - . | gzip -9n >"$corpus/$target.tar.gz"
  done
fi

failed=0
stat_of() { sed -n "s/^stat::$1: *//p" "$work/$target.log" | tail -1; }
printf '%-10s %8s %12s %8s %9s %7s %s\n' \
  target seconds executions exec/s coverage corpus result
for target in "${targets[@]}"; do
  result=clean
  [ "$(cat "$work/$target.status")" = 0 ] || result=FOUND failed=1
  printf '%-10s %8s %12s %8s %9s %7s %s\n' "$target" "$seconds" \
    "$(stat_of number_of_executed_units)" "$(stat_of average_exec_per_sec)" \
    "$(grep -aoE 'cov: [0-9]+' "$work/$target.log" | tail -1 | cut -c6-)" \
    "$(find "$corpus/$target" "$work/$target" -type f | wc -l)" "$result"
done
for target in "${targets[@]}"; do
  [ "$(cat "$work/$target.status")" = 0 ] || {
    echo
    echo "--- $target"
    grep -av '^#' "$work/$target.log" | tail -60
  }
done
exit $failed
