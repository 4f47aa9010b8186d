#!/bin/bash
# bench.sh [NAME...]: figures, each beside the peer it is compared with.
#
#   start     a whole command: rollcall, torchrun, mpirun
#   nccl_id   from a world proposed to the NCCL id in hand on every node
#   attended  the daemon's memory and time for 1,000 attended nodes
#
# Without names: all of them. Nothing here fails for being slow.
set -eu
cd "$(dirname "$0")/.."
scripts/packages.sh test
scripts/build.sh release
export ROLLCALL_BIN=$PWD/build/release/bin
for name in ${*:-start nccl_id attended}; do
  case $name in
    start) python3 -B tests/bench/start.py ;;
    nccl_id) "$ROLLCALL_BIN/nccl_id" ;;
    attended) "$ROLLCALL_BIN/attended_memory" ;;
    *) echo "bench.sh: start, nccl_id or attended, not '$name'" >&2; exit 2 ;;
  esac
done
