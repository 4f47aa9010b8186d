// The run specs for platforms other than Kubernetes, as texts for fill.h.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_TEXTS_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_TEXTS_H_

namespace rollcall {

inline constexpr char kSlurmText[] = R"spec(#!/bin/bash
# One rollcall job on the nodes of a Slurm job:
#
#   sbatch train.sbatch@EXAMPLE@
#
# Slurm sends SIGUSR1 90 s before the time limit, or before it takes the nodes
# for another job. Every rank then has 80 s to save and end. The job ends with
# 75 and is requeued; its next life resumes from what was saved. `rollcall` must
# be in PATH on every node.
#
#SBATCH --job-name=@JOB@
#SBATCH --nodes=@NODES@
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:SIGUSR1@90
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --open-mode=append
set -eu
@CHECK@

# New for each life of the job. srun passes it on in the environment; a rank does
# not get it.
ROLLCALL_SECRET=$(rollcall token secret)
export ROLLCALL_SECRET

# The signal goes to the job alone: one to srun would reach every process of the
# step, also ranks that would die by it. The trap comes before the step: without
# it the signal would end this script.
signalled=
trap 'signalled=1
  rollcall stop --job "slurm-$SLURM_JOB_ID" --exit-code 75 || true' USR1

# Ranks per node: SLURM_GPUS_ON_NODE, else 1, unless --nproc-per-node is given.
srun --no-kill --kill-on-bad-exit=0 \
  @RUN@ &
step=$!

# A signal ends a wait with a code above 128. The step's own code comes from the
# next one, also if the step has ended by then.
code=0
wait "$step" || code=$?
while [ -n "$signalled" ] && [ "$code" -gt 128 ]; do
  signalled= code=0
  wait "$step" || code=$?
done
[ "$code" != 75 ] || exec scontrol requeue "$SLURM_JOB_ID"
exit "$code"
)spec";

inline constexpr char kComposeText[] =
    R"spec(# One rollcall job of a launcher and @WORKERS@ workers on one machine, for trying out.
#
#   ROLLCALL_SECRET="$(rollcall token secret)" docker compose up
#
# Change: the image, which needs `rollcall` in PATH, and the command.
x-node: &node
  image: @IMAGE_TEXT@
  # Reaps what a rank leaves behind.
  init: true
  shm_size: 8gb
  ulimits:
    memlock: -1

x-command: &command
  @COMMAND@

services:
  launcher:
    <<: *node
    hostname: launcher
    environment:
      ROLLCALL_SECRET: ${ROLLCALL_SECRET:?make one with `rollcall token secret`}
      ROLLCALL_NODE_RANK: "0"
      ROLLCALL_NODES: "@NODES@"
    command: *command

  worker:
    <<: *node
    environment:
      ROLLCALL_SECRET: ${ROLLCALL_SECRET:?make one with `rollcall token secret`}
      # Any rank above 0 joins.
      ROLLCALL_NODE_RANK: "1"
      ROLLCALL_NODES: "@NODES@"
      ROLLCALL_LAUNCHER: launcher
    command: *command
    deploy:
      replicas: @WORKERS@
)spec";

inline constexpr char kSystemdText[] =
    R"spec(# A standing daemon for many jobs. Agents join with `rollcall join --endpoint
# HOST:29400 --job ID --secret-file FILE`; the daemon's README says more.
#
#   install -D -m 600 /dev/stdin /etc/rollcall/secret <<<"$(rollcall token secret)"
#   systemctl enable --now rollcalld
[Unit]
Description=rollcall rendezvous daemon
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart=/usr/bin/rollcalld --state ${STATE_DIRECTORY} --secret-file ${CREDENTIALS_DIRECTORY}/secret
LoadCredential=secret:/etc/rollcall/secret
DynamicUser=yes
StateDirectory=rollcall
Restart=always
RestartSec=1
# Restarts a daemon that hangs; not with --state etcd://.
WatchdogSec=15
# Ranks run on without it, and its agents dial again.
TimeoutStopSec=10
LimitNOFILE=65536
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes

[Install]
WantedBy=multi-user.target
)spec";

inline constexpr char kVesslText[] =
    R"spec(# The launcher of a rollcall job on VESSL. It trains as node 0, and submits a run
# from worker.yaml.tpl for each of the other nodes; nothing else is needed:
#
#   vessl run create -f launcher.yaml
#
# Change: the resources, the image (with `rollcall` and the vessl command in PATH),
# what is imported, and the command behind `--`.
name: @JOB@-launcher
import:
  /code:
    git:
      url: github.com/example/train.git
      ref: main
resources:
  cluster: my-cluster
  preset: gpu-h100-80g-xlarge
image: @IMAGE_TEXT@
@RUN@
env:
  NUM_NODES: "@NODES@"
  GPUS_PER_NODE: "@RANKS@"
  RDZV_ID: @JOB_TEXT@
  ROLE: launcher
)spec";

inline constexpr char kVesslWorkerText[] =
    R"spec(# A worker of a rollcall job on VESSL; see launcher.yaml, which fills this in.
# <<JOIN>> lets its node join this job, a few times.
name: @JOB@-worker-<<NODE_RANK>>
import:
  /code:
    git:
      url: github.com/example/train.git
      ref: main
resources:
  cluster: my-cluster
  preset: gpu-h100-80g-xlarge
image: @IMAGE_TEXT@
@RUN@
env:
  MASTER_ADDR: "<<MASTER_ADDR>>"
  NODE_RANK: "<<NODE_RANK>>"
  NUM_NODES: "<<NUM_NODES>>"
  GPUS_PER_NODE: "<<GPUS_PER_NODE>>"
  RDZV_ID: "<<RDZV_ID>>"
  ROLE: worker
  ROLLCALL_JOIN: <<JOIN>>
)spec";

inline constexpr char kHostfileText[] =
    R"spec(# The hosts of one job, for `rollcall launch --hostfile hostfile -- CMD...`.
# [USER@]HOST [slots=RANKS] [name=NODE]; this machine is localhost.
@HOSTS@
)spec";

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_TEXTS_H_
