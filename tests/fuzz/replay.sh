#!/bin/bash
# replay.sh BINARY CORPUS: plays a target's corpus once: the seeds in the folder
# CORPUS, and the learned inputs in CORPUS.tar.gz, if that exists. BINARY is a
# target that was built without libFuzzer. Exits with BINARY's status.
set -eu
binary=$1 corpus=$2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/learned" "$scratch/tmp"
[ ! -e "$corpus.tar.gz" ] || tar -xzf "$corpus.tar.gz" -C "$scratch/learned"
TMPDIR=$scratch/tmp "$binary" "$corpus" "$scratch/learned" || {
  status=$?
  # Keep the learned inputs, because one of them may have broken something.
  mkdir -p "${binary%/*}/../fuzz-finds"
  cp -r "$scratch/learned" "${binary%/*}/../fuzz-finds/$(basename "$corpus")"
  echo "replay.sh: what it played is in the seeds of $corpus and in" \
    "${binary%/*}/../fuzz-finds/$(basename "$corpus"); replay one input with"
  echo "  $binary FILE"
  exit $status
}
