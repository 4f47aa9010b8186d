#!/bin/bash
# quickstart.sh: from a fresh clone to four nodes that train a small model.
#
# Installs what is missing (apt, with sudo if needed), builds the release
# binaries, and trains a model on this machine's license texts with one launcher
# and three local workers, over real connections. Can be run again at any time.
set -eu
cd "$(dirname "$0")/.."

steps=${QUICKSTART_STEPS:-200}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "== 1 of 3: packages"
scripts/packages.sh build
echo "== 2 of 3: release build (some minutes the first time)"
scripts/build.sh release rollcall rollcall-train
bin=$PWD/build/release/bin

echo "== 3 of 3: four nodes train for $steps steps"
set -o pipefail
"$bin/rollcall" launch --job quickstart --local-workers 3 --no-hosts -- \
  "$bin/rollcall-train" --data /usr/share/common-licenses/* \
  --steps "$steps" --log-every 20 --log-all-ranks 2>&1 | tee "$log" |
  while IFS= read -r line; do
    echo "$line"
    # Show the nodes once, half-way.
    if [ -z "${shown:-}" ] && [[ $line =~ \ step\ ([0-9]+)\  ]] &&
      [ $((BASH_REMATCH[1] * 2)) -ge "$steps" ]; then
      shown=1
      echo
      "$bin/rollcall" status --job quickstart || true
      echo
    fi
  done

fail() { echo "quickstart.sh: $*" >&2; exit 1; }
loss() { "$1" -1 <<<"$told" | sed -E 's/.* loss ([0-9.]+) .*/\1/'; }
# Every rank prints its loss on its own lines.
told=$(grep -E ' step [0-9]+ loss [0-9.]+' "$log") ||
  fail "the run succeeded, but no rank printed a loss; see the output above"
lines=$(wc -l <<<"$told")
worlds=$(grep -oE 'world [0-9]+ generation [0-9]+' <<<"$told" |
  sort | uniq -c)
echo
[ "$(wc -l <<<"$worlds")" = 1 ] && [ "${worlds% world*}" -eq "$lines" ] ||
  fail "expected one world and one generation on each of $lines lines, got:" \
    $'\n'"$worlds"
worlds=world${worlds#*world}
echo "loss: $(loss head) at the start, $(loss tail) at the end;" \
  "every rank reported: $worlds"
# After only a few steps the loss is still high.
if [ "$steps" -ge 100 ]; then
  awk -v last="$(loss tail)" 'BEGIN { exit !(last < 3.0) }' ||
    fail "expected a last loss below 3.0, got $(loss tail): the model did not" \
      "learn"
fi
cat <<END

What to try next:
  build/release/bin/rollcall launch --local-workers 3 -- sh -c 'echo I am \$RANK'
      shows what each rank gets: RANK, WORLD_SIZE, MASTER_ADDR...
      (client/README.md)
  build/release/bin/rollcall launch --nodes 2 -- python3 train.py
      prints a join line to run on a second machine; any script that works
      with torchrun works with it
  scripts/lab.sh up 4
      starts four hosts on this machine, to try out failures
  scripts/test.sh
      runs all tests
END
