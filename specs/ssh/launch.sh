#!/bin/bash
# One job over machines that ssh reaches, this one included.
#
#   HOSTS="node2 node3" ./launch.sh python3 train.py --flag
#
# Copy it and make it yours. `rollcall` must stand on every machine, and ssh
# must log in without asking. Each worker gets the job's secret on its standard
# input: it is in no argument list and in no file over there.
#
#   HOSTS     the other machines, as ssh knows them (must be set)
#   ADDRESS   of this machine, as they reach it      (its first address)
#   PORT      for the daemon                         (29400)
#   NPROC     ranks on each machine                  (auto: one a GPU, else 1)
#   JOB       the job's name                         (ssh)
#   ROLLCALL  the program, on every machine          (rollcall)
#   SSH       how a machine is reached               (ssh)
set -eu
: "${HOSTS:?HOSTS=\"node2 node3\" launch.sh CMD...}" "${1:?launch.sh CMD...}"
address=${ADDRESS:-$(hostname -I | cut -d' ' -f1)}
port=${PORT:-29400}
nproc=${NPROC:-auto}
job=${JOB:-ssh}
rollcall=${ROLLCALL:-rollcall}
ssh=${SSH:-ssh}

umask 077
secret=$(mktemp)
workers=()
cleanup() {
  rm -f "$secret"
  # Of a run that ended as it should none is left.
  kill ${workers[@]+"${workers[@]}"} 2>/dev/null || true
}
trap cleanup EXIT
"$rollcall" token secret >"$secret"

nodes=1
for host in $HOSTS; do
  nodes=$((nodes + 1))
  # Quoted once more for the shell on the other side.
  remote=$(printf '%q ' "$rollcall" join --name "$host" \
    --endpoint "$address:$port" --job "$job" --nproc-per-node "$nproc" \
    --secret-file - --join-timeout 2m -- "$@")
  $ssh "$host" "exec $remote" <"$secret" &
  workers+=($!)
done

code=0
"$rollcall" launch --job "$job" --nodes "$nodes" --nproc-per-node "$nproc" \
  --listen "0.0.0.0:$port" --secret-file "$secret" --join-timeout 2m -- "$@" ||
  code=$?
# Each agent ends as the job did; their output comes to its end here.
[ "$code" = 0 ] && wait
exit "$code"
