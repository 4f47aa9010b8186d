#!/bin/bash
# bench.sh [NAME...]: benchmarks, each compared with another program.
#
#   start     time of a whole command: rollcall, torchrun, mpirun
#   hostfile  `launch --hostfile` on four hosts with a real sshd: time until its
#             ranks run, compared with ssh alone and with mpirun
#   nccl_id   time from the proposal of a world until all nodes are prepared, NCCL
#             ids included, compared with the process that makes an id
#   formation 1,024 and 4,096 nodes, plain and with TLS, compared with bare
#             gRPC: time until their world is committed, the daemon's memory, its
#             CPU share while they send heartbeats. Nodes redial as agents do;
#             the number of redials is in the table. Other numbers of nodes:
#             build/release/bin/formation 1024 12288
#   facts     time to gather the facts of one node with 8 HCAs and 8 GPUs, and
#             time of the network plan for 1,024 such nodes
#   probing   64 hosts in network namespaces: time of the probe round before
#             their world, compared with the rest of the formation
#   node_check  64 nodes on this machine check each other in pairs: time of the
#             check and of the whole command, with and without it
#   takeover  the leader of three daemons on etcd is killed: time until the next
#             leader has all agents, compared with the etcd lease that it waits
#             for
#   loss      256 nodes, one is killed or falls silent: time until the last
#             survivor knows, compared with bare gRPC
#   events    a million events: time of each, of reading them at a start, and of
#             an answer to `status --events`
#   web       a daemon with 1,024 nodes: time of /metrics and /status.json,
#             compared with /healthz, and whether a node is lost meanwhile
#   store     the ranks' key-value store: operations of one rank, the addresses of
#             Gloo's full mesh of 256 ranks, a barrier; compared with TCPStore
#   elastic   a training loses or gains a node: time until all ranks have done a
#             step, compared with torchrun
#   torch_elastic  the same with PyTorch processes that outlive a world, over
#             Gloo, compared with torchrun; needs scripts/packages.sh pytorch
#             (over 5 GB)
#   torch_init  init_process_group of 32 ranks over our store and over TCPStore;
#             needs scripts/packages.sh pytorch
#   torchrun  time for 16 agents of torchrun to meet, run `true` and end, with
#             rollcall and with c10d; needs scripts/packages.sh pytorch
#   checkpoint  how long a training's steps wait for checkpoints, compared with
#             a training without checkpoints
#   train     the model on the CPU: tokens per second, compared with PyTorch
#   gpu       GPT-2 on one GPU: tokens per second, compared with PyTorch of
#             ROLLCALL_TORCH_PYTHON (default python3); needs a GPU
#
# Without names: all but torch_elastic, torch_init, torchrun and gpu. A slow result is not a failure.
set -eu
cd "$(dirname "$0")/.."
scripts/packages.sh test
scripts/build.sh release
export ROLLCALL_BIN=$PWD/build/release/bin
for name in ${*:-start hostfile nccl_id formation facts probing node_check loss web events store takeover elastic checkpoint train}; do
  case $name in
    start) python3 -B tests/bench/launch/start.py ;;
    hostfile) python3 -B tests/bench/launch/hostfile.py ;;
    nccl_id) python3 -B tests/bench/launch/nccl_id.py ;;
    formation) "$ROLLCALL_BIN/formation" ;;
    facts)
      python3 -B tests/bench/launch/facts.py
      "$ROLLCALL_BIN/plan" ;;
    probing) python3 -B tests/bench/launch/probing.py ;;
    node_check) python3 -B tests/bench/launch/node_check.py ;;
    loss) "$ROLLCALL_BIN/loss" ;;
    web) "$ROLLCALL_BIN/web" ;;
    events) "$ROLLCALL_BIN/events" ;;
    store) python3 -B tests/bench/training/store.py ;;
    takeover) python3 -B tests/bench/daemon/takeover.py ;;
    elastic) python3 -B tests/bench/training/elastic.py ;;
    torch_elastic) python3 -B tests/bench/training/torch_elastic.py ;;
    torch_init) python3 -B tests/bench/training/torch_init.py ;;
    torchrun) python3 -B tests/bench/launch/torchrun.py ;;
    checkpoint) python3 -B tests/bench/training/checkpoint.py ;;
    train) python3 -B tests/bench/training/train.py ;;
    gpu) python3 -B tests/bench/training/gpu.py ;;
    *) echo "bench.sh: start, hostfile, nccl_id, formation, facts, probing, node_check, loss, web, events, store, takeover, elastic, torch_elastic, torch_init, torchrun, checkpoint, train or gpu, not '$name'" >&2
       exit 2 ;;
  esac
done
