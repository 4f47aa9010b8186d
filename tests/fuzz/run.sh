#!/bin/bash
# run.sh BINARY CORPUS FINDS SECONDS: one fuzz target for so long, from its
# corpus. What it learns goes with a temporary folder, or stays in the folder
# that FUZZ_LEARNT names; an input that breaks something goes to FINDS, and the
# command that replays it is printed.
set -u
binary=$1 corpus=$2 finds=$3 seconds=$4

# What a target makes for itself goes with it, however it ends.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
learnt=${FUZZ_LEARNT:-$scratch/learnt}
mkdir -p "$learnt" "$finds"
# A test run looks where the last one looked; who has more time goes elsewhere.
seed=()
[ -n "${FUZZ_LEARNT:-}" ] || seed=(-seed=1)
# Entropic schedules cost most of the time where one input reaches thousands of
# places, as a world that forms does.
"$binary" "$learnt" "$corpus" -max_total_time="$seconds" -timeout=10 \
  -rss_limit_mb=2048 -max_len=8192 -entropic=0 -artifact_prefix="$finds/" \
  -print_final_stats=1 ${seed[@]+"${seed[@]}"} &
fuzzer=$!
trap 'kill $fuzzer 2>/dev/null' TERM INT
wait $fuzzer
status=$?
if [ $status != 0 ]; then
  # Nothing newer: it was killed, or its memory ran out.
  newest=$(ls -t "$finds" | head -1)
  echo "run.sh: $(basename "$binary") found something; replay it with"
  echo "  $binary $finds/${newest:-INPUT}"
fi
exit $status
