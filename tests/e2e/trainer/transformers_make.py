"""Makes a small GPT-2 with Hugging Face's transformers, for bytes as tokens.

    transformers_make.py FOLDER

All weights are random, biases and gains too, so that each of them matters.
"""
import sys

import torch
import transformers


def main():
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=3, n_head=2, n_embd=48, n_positions=32, vocab_size=256))
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.3 * torch.randn_like(value))
    model.save_pretrained(sys.argv[1], safe_serialization=True)


if __name__ == "__main__":
    main()
