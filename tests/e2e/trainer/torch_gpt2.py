"""GPT-2 in PyTorch, the reference for rollcall-train's model.

Parameters have the names and shapes of Hugging Face's GPT2Model; matrices are
[in, out], as in its Conv1D. There is no dropout. This module does not use
rollcall.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Conv1D(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, heads, width, context):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)
        later = torch.ones(context, context, dtype=torch.bool).triu(1)
        self.register_buffer("later", later, persistent=False)
        self.register_buffer("mask", torch.zeros(context, context)
                             .masked_fill(later, -math.inf), persistent=False)
        self.fused = False  # One baddbmm scales and masks.

    def forward(self, x):
        batch, context, width = x.shape
        head = width // self.heads
        q, k, v = (part.view(batch, context, self.heads, head).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        if self.fused:
            scores = torch.baddbmm(
                self.mask, q.reshape(-1, context, head),
                k.reshape(-1, context, head).transpose(1, 2),
                alpha=1 / math.sqrt(head)).view(batch, -1, context, context)
        else:
            scores = (q @ k.transpose(-1, -2)) / math.sqrt(head)
            scores = scores.masked_fill(self.later, -math.inf)
        mixed = F.softmax(scores, dim=-1) @ v
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, context, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, heads, width, context):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-5)
        self.attn = Attention(heads, width, context)
        self.ln_2 = nn.LayerNorm(width, eps=1e-5)
        self.mlp = Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(heads, width, context)
                               for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, eps=1e-5)
        self.register_buffer("positions", torch.arange(context),
                             persistent=False)

    def forward(self, tokens, targets):
        """Returns the mean loss; both arguments are [sequences, context]."""
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)),
                               targets.reshape(-1))


def adamw(model):
    """AdamW with rollcall-train's settings: weight decay for matrices."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                              {"params": others, "weight_decay": 0.0}],
                             betas=(0.9, 0.95), eps=1e-8)
