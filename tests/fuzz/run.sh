#!/bin/bash
# run.sh BINARY CORPUS FINDS SECONDS: runs one fuzz target for SECONDS, from the
# seeds in the folder CORPUS and from the learned inputs (CORPUS.tar.gz). New
# inputs stay in the folder that FUZZ_LEARNED names; without it they are removed
# at the end. An input that breaks something is stored in FINDS; the command
# that replays it and the run's seed are printed. FUZZ_SEED sets the seed; by
# default each run has another one.
set -u
binary=$1 corpus=$2 finds=$3 seconds=$4

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The files that a target makes are removed with this folder.
export TMPDIR=$scratch
learned=${FUZZ_LEARNED:-$scratch/learned}
mkdir -p "$learned" "$scratch/before" "$finds"
[ ! -e "$corpus.tar.gz" ] || tar -xzf "$corpus.tar.gz" -C "$scratch/before"
seed=${FUZZ_SEED:-$((RANDOM << 15 | RANDOM))}
# Entropic schedules would take most of the time if one input reaches thousands
# of edges, as a world that forms does.
"$binary" "$learned" "$corpus" "$scratch/before" -max_total_time="$seconds" \
  -timeout=10 -rss_limit_mb=2048 -max_len=8192 -entropic=0 \
  -artifact_prefix="$finds/" -print_final_stats=1 -seed="$seed" &
fuzzer=$!
trap 'kill $fuzzer 2>/dev/null' TERM INT
wait $fuzzer
status=$?
if [ $status != 0 ]; then
  # If there is no newer file, the target was killed or ran out of memory.
  newest=$(ls -t "$finds" | head -1)
  echo "run.sh: $(basename "$binary") found something with FUZZ_SEED=$seed;" \
    "replay it with"
  echo "  $binary $finds/${newest:-INPUT}"
fi
exit $status
