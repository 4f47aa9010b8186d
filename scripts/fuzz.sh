#!/bin/bash
# fuzz.sh [SECONDS] [TARGET...]: each fuzz target for so long (600 s), two at a
# time, from the corpus in tests/fuzz. Ends with a table, and not 0 if anything
# was found; what breaks something stays below build/fuzz/fuzz.
#
#   fuzz.sh --merge [SECONDS] [TARGET...]  and takes into the corpus, as little
#                                          as covers as much, what was learnt
#   fuzz.sh --seeds                        writes the seeds of the corpus anew
#
# Without targets: all of them.
set -eu -o pipefail
cd "$(dirname "$0")/.."
all=(agent checkpoint flags hosts job join restore secrets texts)
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
scripts/packages.sh test
scripts/build.sh fuzz

work=$(mktemp -d)
# Without jobs `kill` fails, and under set -e the trap would end with that.
trap 'trap - TERM; kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# one TARGET: its run, with its log and its exit status kept.
one() {
  local status=0
  FUZZ_LEARNT=$work/$1 tests/fuzz/run.sh "$bin/fuzz_$1" "$corpus/$1" \
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
    # What covers as many edges, seeds and finds alike; how often an edge is
    # passed would keep thousands of files.
    mkdir "$work/$target.least"
    "$bin/fuzz_$target" -merge=1 -use_counters=0 "$work/$target.least" \
      "$corpus/$target" "$work/$target" >"$work/$target.merge" 2>&1
    # A seed keeps its own name; what was learnt is named by its digest.
    find "$corpus/$target" -type f -regextype posix-extended \
      -regex '.*/[0-9a-f]{40}' -delete
    seeds=$(sha1sum "$corpus/$target"/*)
    for input in "$work/$target.least"/*; do
      name=$(sha1sum "$input")
      name=${name%% *}
      grep -q "^$name " <<<"$seeds" || cp "$input" "$corpus/$target/$name"
    done
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
    "$(find "$corpus/$target" -type f | wc -l)" "$result"
done
for target in "${targets[@]}"; do
  [ "$(cat "$work/$target.status")" = 0 ] || {
    echo
    echo "--- $target"
    grep -av '^#' "$work/$target.log" | tail -60
  }
done
exit $failed
