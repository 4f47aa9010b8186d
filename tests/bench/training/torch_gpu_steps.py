"""Does the work of `train_steps gpt2 SEQUENCES STEPS cuda` in PyTorch.

    torch_gpu_steps.py SEQUENCES CONTEXT STEPS

This is the fastest way in PyTorch: bf16 autocast over fp32 weights, flash
attention (scaled_dot_product_attention), torch.compile, fused AdamW, and a
vocabulary padded to a multiple of 128.
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, WIDTH, VOCABULARY = 12, 12, 768, 50304


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, context, _ = x.shape
        q, k, v = (part.view(batch, context, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(mixed.transpose(1, 2).reshape(batch, context, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, context):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(context, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def main():
    sequences, context, steps = (int(n) for n in sys.argv[1:])
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt2(context).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    tokens, targets = torch.randint(0, 50257, (2, sequences, context),
                                    device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(tokens, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss, norm

    print(f"torch_gpu_steps: torch {torch.__version__}", file=sys.stderr)
    for _ in sys.stdin:
        begun = time.monotonic()
        for _ in range(steps):
            loss, _ = step()
        loss.item()
        torch.cuda.synchronize()
        print(f"{time.monotonic() - begun:.6f}", flush=True)


if __name__ == "__main__":
    main()
