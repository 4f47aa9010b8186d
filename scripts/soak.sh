#!/bin/bash
# soak.sh [SEEDS] [FIRST] [OPTION...]: a long simulation: SEEDS runs (1,000,000)
# from seed FIRST (1) on, one process per core, with these options of
# rollcall_sim (--group: several daemons and a simulated etcd). Prints at the
# end how often all runs together tested each promise. Exit status 1 if a promise
# was broken (each process stops at its first one and prints how to replay it),
# or if a promise was tested too seldom.
set -eu -o pipefail
cd "$(dirname "$0")/.."
seeds=${1:-1000000}
first=${2:-1}
options=("${@:3}")
case $seeds$first in
  *[!0-9]*) echo "soak.sh: expected numbers, got '$*'" >&2; exit 2 ;;
esac
scripts/packages.sh build
scripts/build.sh release
cores=$(nproc)
share=$(((seeds + cores - 1) / cores))
running=()
shown=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || :; rm -rf "$shown"' EXIT
for ((from = first; from < first + seeds; from += share)); do
  to=$((from + share < first + seeds ? from + share : first + seeds))
  build/release/bin/rollcall_sim --seeds "$from:$to" --floors "${options[@]}" \
    >"$shown/$from" &
  running+=($!)
done
failed=0
for pid in "${running[@]}"; do wait "$pid" || failed=1; done
running=()
# Prints the output of all processes, and adds up their tables of promises.
awk '
  $1 == "promise" { header = $0; in_table = 1; next }
  in_table && $1 ~ /^[0-9]+$/ && NF > 3 {
    number = $1 + 0
    runs[number] += $2
    times[number] += $3
    name = $0
    sub(/^ *[0-9]+ +[0-9]+ +[0-9]+  /, "", name)
    names[number] = name
    if (number > last) last = number
    next
  }
  { in_table = 0; print }
  END {
    if (last > 0) print header
    for (i = 1; i <= last; ++i) {
      printf "%9d %9d %12d  %s\n", i, runs[i], times[i], names[i]
    }
  }' "$shown"/*
exit $failed
