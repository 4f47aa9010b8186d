"""Executes a checkpoint's next step in PyTorch, and prints the difference from
the checkpoint that rollcall-train saved after that step, as JSON.

    torch_resume.py CHECKPOINT NEXT_CHECKPOINT TEXT LEARNING_RATE

`loss`: the loss of that step on the whole text at once. `updates`: for each
tensor, the norm of the difference of its updates divided by the norm of the
update.
"""
import json
import os
import sys

import torch

import safetensors_file
from torch_compare import apart, settled
from torch_gpt2 import Gpt2, adamw


def tensors(folder, name):
    return {name: torch.tensor(values).view(*shape) for name, (shape, values)
            in safetensors_file.read(os.path.join(folder, name)).items()}


def said(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def main():
    folder, after, text, rate = sys.argv[1:]
    config = said(folder, "config.json")
    context = config["n_positions"]
    model = Gpt2(config["n_layer"], config["n_head"], config["n_embd"],
                 context, config["vocab_size"])
    before = tensors(folder, "model.safetensors")
    # strict=True: the same names and shapes, and none may be missing.
    model.load_state_dict(before, strict=True)
    optimizer = adamw(model)
    moments = tensors(folder, "optimizer.safetensors")
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            "step": torch.tensor(
                float(said(folder, "trainer_state.json")["step"])),
            **{moment: moments.pop(f"{moment}.{name}")
               for moment in ("exp_avg", "exp_avg_sq")}}
    if moments:
        raise ValueError(f"moments of no parameter: {sorted(moments)}")
    for group in optimizer.param_groups:
        group["lr"] = float(rate)
    with open(text, "rb") as file:
        tokens = torch.tensor(list(file.read()))
    loss = model(tokens[:-1].view(-1, context), tokens[1:].view(-1, context))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ours = tensors(after, "model.safetensors")
    updates = {name: apart(settled(name, ours[name] - before[name]),
                           settled(name, parameter.data - before[name]))
               for name, parameter in model.named_parameters()}
    print(json.dumps({"loss": loss.item(), "updates": updates}))


if __name__ == "__main__":
    main()
