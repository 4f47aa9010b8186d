"""Loads a checkpoint of rollcall-train with Hugging Face's transformers, and
prints its loss on a text as JSON.

    transformers_loss.py CHECKPOINT TEXT

`loss`: the mean over all tokens of the text, in sequences of the model's
context length. `missing`, `unexpected`: tensors that only one side has.
"""
import json
import sys

import torch
import transformers


def main():
    folder, text = sys.argv[1:]
    model, report = transformers.GPT2LMHeadModel.from_pretrained(
        folder, output_loading_info=True, local_files_only=True)
    model.eval()
    context = model.config.n_positions
    with open(text, "rb") as file:
        tokens = torch.tensor(list(file.read()))
    with torch.no_grad():
        logits = model(tokens[:-1].view(-1, context)).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), tokens[1:])
    print(json.dumps({"loss": loss.item(),
                      "missing": sorted(report["missing_keys"]),
                      "unexpected": sorted(report["unexpected_keys"])}))


if __name__ == "__main__":
    main()
