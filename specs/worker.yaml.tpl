# A worker of a rollcall job on VESSL; see launcher.yaml, which fills this in.
# <<JOIN>> lets its node join this job, a few times.
name: train-worker-<<NODE_RANK>>
import:
  /code:
    git:
      url: github.com/example/train.git
      ref: main
resources:
  cluster: my-cluster
  preset: gpu-h100-80g-xlarge
image: registry.example/train:1
run: >-
  rollcall run --join-timeout 1h
  -- python3 /code/train.py
env:
  MASTER_ADDR: "<<MASTER_ADDR>>"
  NODE_RANK: "<<NODE_RANK>>"
  NUM_NODES: "<<NUM_NODES>>"
  GPUS_PER_NODE: "<<GPUS_PER_NODE>>"
  RDZV_ID: "<<RDZV_ID>>"
  ROLE: worker
  ROLLCALL_JOIN: <<JOIN>>
