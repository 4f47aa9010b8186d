#!/bin/bash
# run.sh BINARY CORPUS FINDS SECONDS: one fuzz target for SECONDS, from the seeds
# in the folder CORPUS and from what was learned (CORPUS.tar.gz). New inputs stay
# in the folder that FUZZ_LEARNED names, else they are removed at the end. An
# input that breaks something goes to FINDS; the command that replays it and the
# run's seed are printed. FUZZ_SEED sets the seed; default: another one each run.
set -u
binary=$1 corpus=$2 finds=$3 seconds=$4

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# What a target makes for itself is removed with it.
export TMPDIR=$scratch
learned=${FUZZ_LEARNED:-$scratch/learned}
mkdir -p "$learned" "$scratch/before" "$finds"
[ ! -e "$corpus.tar.gz" ] || tar -xzf "$corpus.tar.gz" -C "$scratch/before"
seed=${FUZZ_SEED:-$((RANDOM << 15 | RANDOM))}
# Entropic schedules cost most of the time where one input reaches thousands of
# places, as a world that forms does.
"$binary" "$learned" "$corpus" "$scratch/before" -max_total_time="$seconds" \
  -timeout=10 -rss_limit_mb=2048 -max_len=8192 -entropic=0 \
  -artifact_prefix="$finds/" -print_final_stats=1 -seed="$seed" &
fuzzer=$!
trap 'kill $fuzzer 2>/dev/null' TERM INT
wait $fuzzer
status=$?
if [ $status != 0 ]; then
  # Nothing newer: it was killed, or its memory ran out.
  newest=$(ls -t "$finds" | head -1)
  echo "run.sh: $(basename "$binary") found something with FUZZ_SEED=$seed;" \
    "replay it with"
  echo "  $binary $finds/${newest:-INPUT}"
fi
exit $status
