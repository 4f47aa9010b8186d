#!/bin/bash
# Starts one job on this machine and on machines that ssh reaches.
#
#   HOSTS="node2 node3" ./launch.sh python3 train.py --flag
#
# Copy this file and change it. `rollcall` must be installed on every machine,
# and ssh must log in without a password prompt. Each worker gets the job's
# secret on its standard input, so the secret is in no argument list and in no
# file on the other machines.
#
#   HOSTS     the ssh names of the other machines    (must be set)
#   ADDRESS   of this machine, for the others        (its first address)
#   PORT      for the daemon                         (29400)
#   NPROC     ranks on each machine                  (auto: one per GPU, else 1)
#   JOB       the job's name                         (ssh)
#   ROLLCALL  the program, on every machine          (rollcall)
#   SSH       the command to reach a machine         (ssh)
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
  # After a successful run all workers have ended already.
  kill ${workers[@]+"${workers[@]}"} 2>/dev/null || true
}
trap cleanup EXIT
"$rollcall" token secret >"$secret"

nodes=1
for host in $HOSTS; do
  nodes=$((nodes + 1))
  # Quoted once more, for the shell on the other machine.
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
# All agents end with the job; wait for the rest of their output.
[ "$code" = 0 ] && wait
exit "$code"
