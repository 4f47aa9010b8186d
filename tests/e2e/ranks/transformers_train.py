"""Hugging Face's Trainer with rollcall's callback; FOLDER holds the
checkpoints.

Without a checkpoint it trains until it is stopped; with one, for three more
steps.
"""
import os
import sys

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from rollcall.transformers import Callback


class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        x = torch.tensor([index % 7, index % 5], dtype=torch.float)
        return {"x": x, "labels": x.sum(0, keepdim=True)}


# The buffers of transformers' models cannot be sent over the Gloo of torch 1.
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, x, labels):
        return {"loss": ((self.linear(x) - labels) ** 2).mean()}


folder = sys.argv[1]
last = get_last_checkpoint(folder) if os.path.isdir(folder) else None
steps = 100000 if last is None else int(last.rsplit("-", 1)[1]) + 3
trainer = Trainer(
    model=Model(),
    args=TrainingArguments(
        output_dir=folder, max_steps=steps, per_device_train_batch_size=2,
        logging_steps=100, save_strategy="no", no_cuda=True, report_to=[],
        disable_tqdm=True),
    train_dataset=Points(), callbacks=[Callback()])
print("begins", trainer.args.world_size, last, flush=True)
trainer.train(resume_from_checkpoint=last)
print("ends", trainer.args.world_size, trainer.state.global_step, flush=True)
