"""Prints, as JSON, the mean loss in PyTorch of a checkpoint of rollcall-train on
the first samples of a text.

    torch_loss.py CHECKPOINT TEXT SAMPLES
"""
import json
import sys

import torch

from torch_gpt2 import Gpt2
from torch_resume import said, tensors


def main():
    folder, text, samples = sys.argv[1:]
    config = said(folder, "config.json")
    context = config["n_positions"]
    model = Gpt2(config["n_layer"], config["n_head"], config["n_embd"],
                 context, config["vocab_size"])
    model.load_state_dict(tensors(folder, "model.safetensors"), strict=True)
    with open(text, "rb") as file:
        tokens = torch.tensor(list(file.read(int(samples) * context + 1)))
    with torch.no_grad():
        loss = model(tokens[:-1].view(-1, context),
                     tokens[1:].view(-1, context))
    print(json.dumps({"loss": loss.item()}))


if __name__ == "__main__":
    main()
