#!/bin/bash
# bench.sh [NAME...]: figures, each beside the peer it is compared with.
#
#   start     a whole command: rollcall, torchrun, mpirun
#   nccl_id   from a world proposed to the NCCL id in hand on every node
#   formation 1,024 and 4,096 nodes, plain and with TLS, beside bare gRPC: the
#             time until their world is committed, the daemon's memory, its
#             share of a processor while they send heartbeats
#   facts     what one node with 8 HCAs and 8 GPUs takes to say what it is, and
#             what the network plan of 1,024 such nodes takes
#   probing   64 hosts in network namespaces: the round of probes before their
#             world, beside the formation that it comes on top of
#   takeover  the leader of three daemons on etcd is killed: until the next one
#             has all agents, beside the lease of etcd's that it waits for
#   loss      256 nodes, one is killed or falls silent: until the last survivor
#             is told, beside bare gRPC
#   elastic   a training loses a node, or wins one: until all have done a step,
#             beside torchrun
#   checkpoint  what a training's steps wait for checkpoints, beside one without
#   train     the CPU's model: tokens a second, beside PyTorch
#
# Without names: all of them. Nothing here fails for being slow.
set -eu
cd "$(dirname "$0")/.."
scripts/packages.sh test
scripts/build.sh release
export ROLLCALL_BIN=$PWD/build/release/bin
for name in ${*:-start nccl_id formation facts probing loss takeover elastic checkpoint train}; do
  case $name in
    start) python3 -B tests/bench/start.py ;;
    nccl_id) "$ROLLCALL_BIN/nccl_id" ;;
    formation) "$ROLLCALL_BIN/formation" ;;
    facts)
      python3 -B tests/bench/facts.py
      "$ROLLCALL_BIN/plan" ;;
    probing) python3 -B tests/bench/probing.py ;;
    loss) "$ROLLCALL_BIN/loss" ;;
    takeover) python3 -B tests/bench/takeover.py ;;
    elastic) python3 -B tests/bench/elastic.py ;;
    checkpoint) python3 -B tests/bench/checkpoint.py ;;
    train) python3 -B tests/bench/train.py ;;
    *) echo "bench.sh: start, nccl_id, formation, facts, probing, loss, takeover, elastic, checkpoint or train, not '$name'" >&2
       exit 2 ;;
  esac
done
