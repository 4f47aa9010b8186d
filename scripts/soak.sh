#!/bin/bash
# soak.sh [SEEDS] [FIRST]: plays the simulator for long: 1,000,000 runs, or SEEDS
# of them, from seed FIRST on (1), a process a core. Ends 1 at the first broken
# promise of a process and prints how to replay it.
set -eu -o pipefail
cd "$(dirname "$0")/.."
seeds=${1:-1000000}
first=${2:-1}
case $seeds$first in
  *[!0-9]*) echo "soak.sh: expected numbers, got '$*'" >&2; exit 2 ;;
esac
scripts/packages.sh build
scripts/build.sh release
cores=$(nproc)
share=$(((seeds + cores - 1) / cores))
running=()
trap 'kill "${running[@]}" 2>/dev/null || :' EXIT
for ((from = first; from < first + seeds; from += share)); do
  to=$((from + share < first + seeds ? from + share : first + seeds))
  build/release/bin/rollcall_sim --seeds "$from:$to" &
  running+=($!)
done
failed=0
for pid in "${running[@]}"; do wait "$pid" || failed=1; done
trap - EXIT
exit $failed
