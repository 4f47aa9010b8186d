"""Hugging Face's Trainer with DeepSpeed's ZeRO-2 on CPUs: 200 steps, with a
checkpoint every 20. It starts at the last complete checkpoint in FOLDER, which
all nodes share.

    zero2_fit.py FOLDER [STEP...]

If it has started at an earlier step than STEP, the last rank ends by SIGKILL
as soon as the checkpoint of that step is complete.

The script does not use rollcall. The optimizer's state is sharded: each rank
has only its own part, so after the loss of a rank all ranks go back to the
checkpoint.
"""
import os
import signal
import sys

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

ZERO2 = {
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2},
    # torch's AdamW is used, since DeepSpeed's AdamW for CPUs must be compiled.
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}


class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 12

    def __getitem__(self, index):
        x = torch.tensor([index % 7, index % 5], dtype=torch.float)
        return {"x": x, "labels": x.sum(0, keepdim=True)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))

    def forward(self, x, labels):
        return {"loss": ((self.layers(x) - labels) ** 2).mean()}


def last_complete(folder, ranks):
    """Returns the last checkpoint that all ranks have completed: each writes
    its random state last."""
    steps = [int(name.rpartition("-")[2])
             for name in (os.listdir(folder) if os.path.isdir(folder) else ())
             if all(os.path.exists(os.path.join(folder, name, one)) for one in
                    ("trainer_state.json",
                     *(f"rng_state_{rank}.pth" for rank in range(ranks))))]
    return os.path.join(folder, f"checkpoint-{max(steps)}") if steps else None


class EndAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, **_):
        if state.global_step != self.step:
            return
        # Each rank writes its own part of the checkpoint.
        torch.distributed.barrier()
        if args.process_index + 1 == ranks:
            os.kill(os.getpid(), signal.SIGKILL)


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


folder = sys.argv[1]
ranks = int(os.environ["WORLD_SIZE"])
last = last_complete(folder, ranks)
begin = int(last.rpartition("-")[2]) if last else 0
torch.manual_seed(1)
trainer = Trainer(
    model=Model(),
    args=TrainingArguments(
        output_dir=folder, max_steps=200, per_device_train_batch_size=2,
        learning_rate=1e-2, save_steps=20, logging_steps=50, seed=1,
        use_cpu=True, report_to=[], disable_tqdm=True, deepspeed=ZERO2),
    train_dataset=Points(),
    callbacks=[EndAt(step) for step in map(int, sys.argv[2:])
               if step > begin])
say("begins", trainer.args.process_index, "of", trainer.args.world_size,
    "at", os.path.basename(last or "nothing"))
trainer.train(resume_from_checkpoint=last)
weights = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
say("fitted", trainer.args.process_index, "of", trainer.args.world_size,
    "after", trainer.state.global_step, "steps:",
    weights.double().square().sum().item().hex())
