#!/bin/bash
# replay.sh BINARY CORPUS: plays a target's corpus once: the seeds in the folder
# CORPUS, and what was learned, in CORPUS.tar.gz where that exists. BINARY is a
# target that was built without libFuzzer. Ends as BINARY does.
set -eu
binary=$1 corpus=$2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/learned" "$scratch/tmp"
[ ! -e "$corpus.tar.gz" ] || tar -xzf "$corpus.tar.gz" -C "$scratch/learned"
TMPDIR=$scratch/tmp "$binary" "$corpus" "$scratch/learned" || {
  status=$?
  # The learned input that broke something outlives this script.
  mkdir -p "${binary%/*}/../fuzz-finds"
  cp -r "$scratch/learned" "${binary%/*}/../fuzz-finds/$(basename "$corpus")"
  echo "replay.sh: what it played is in the seeds of $corpus and in" \
    "${binary%/*}/../fuzz-finds/$(basename "$corpus"); replay one input with"
  echo "  $binary FILE"
  exit $status
}
