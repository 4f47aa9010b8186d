"""A small GPT that trains on while nodes come and go, in living processes.

    rollcall launch --nodes 2:8 -- python3 elastic_gpt.py TEXT [STEPS]

TEXT is any text file that every node has; it learns its characters. Lines that
are rollcall's end in "# elastic". When a node is lost, or one joins or leaves, the
other processes re-form their group and train on from the last step: nothing is
loaded from a disk, and no batch is lost or trained on twice. Rank 0 writes
gpt.pt at each notice (a newcomer, a drain, a preemption) and at the end, to the
folder that OUT in the environment names (default: the current one). A run begins
with the one that a rank finds there.
Needs torch 2.14 (on GPUs 2.5) and the package rollcalld. Works without rollcall, on
one GPU or CPU.
"""
import math
import os
import sys

import rollcall                                                      # elastic
import torch
import torch.nn.functional as F
from rollcall.torch import elastic                                   # elastic
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT, STEPS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 128, 4, 4, 32
SAVED = os.path.join(os.environ.get("OUT", "."), "gpt.pt")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                 nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.before_attention(x)).split(WIDTH, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.token = nn.Embedding(characters, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                scale = math.sqrt(2 * LAYERS) if "out" in name else 1
                nn.init.normal_(weight, std=0.02 / scale)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place.weight[:tokens.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    with open(TEXT, encoding="utf-8") as file:
        text = file.read()
    characters = sorted(set(text))
    index = {character: i for i, character in enumerate(characters)}
    data = torch.tensor([index[character] for character in text])

    torch.manual_seed(1)
    model = Gpt(len(characters)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sampler = elastic.Sampler(len(data) - CONTEXT, BATCH, epochs=10**6)  # elastic
    state = elastic.State(model, optimizer, sampler)                  # elastic
    if os.path.exists(SAVED):
        state.load_state_dict(torch.load(SAVED, map_location=device))  # elastic

    def save(_=None):
        if state.rank == 0:                                           # elastic
            torch.save(state.state_dict(), SAVED + ".partial")        # elastic
            os.replace(SAVED + ".partial", SAVED)

    @elastic.run                                                      # elastic
    def train(state):
        ddp = DistributedDataParallel(state.model)
        for indices in state.sampler:                                 # elastic
            if state.step >= STEPS:
                return
            rows = torch.tensor(indices)[:, None] + torch.arange(CONTEXT + 1)
            batch = data[rows].to(device)
            loss = ddp(batch[:, :-1], batch[:, 1:])
            (loss * state.sampler.weight).backward()                  # elastic
            state.commit(loss.item())                                 # elastic
            if state.step % 100 == 0 and state.rank == 0:
                print(f"step {state.step} loss {loss.item():.4f} "
                      f"world {state.size}", flush=True)

    train(state, on_notice=save)                                      # elastic
    save()


if __name__ == "__main__":
    with rollcall.attach(elastic=True):                              # elastic
        main()
