"""Repeats gpt_dump's work in PyTorch and prints the differences as JSON.

    torch_compare.py HEADS AT_ONCE FOLDER

PyTorch adds up the gradients of micro-batches of AT_ONCE sequences.

`gradients`, `weights`: for each tensor, the norm of the difference divided by
the norm. `losses`, `norms`: for each step, the difference divided by the value.
`rates`: the same for the learning rate, which is computed from its formula.
"""
import json
import math
import os
import sys

import numpy
import torch

from torch_gpt2 import Gpt2, adamw

PEAK, WARMUP = 1e-2, 3


def learning_rate(step, steps):
    if step <= WARMUP:
        return PEAK * step / WARMUP
    done = (step - WARMUP) / (steps - WARMUP)
    return PEAK * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


class Dump:
    def __init__(self, folder):
        self.folder = folder
        self.shapes = {}
        for line in self.text("tensors").splitlines():
            name, *shape = line.split()
            self.shapes[name] = [int(n) for n in shape]

    def text(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def array(self, name, kind):
        return numpy.fromfile(os.path.join(self.folder, name), kind)

    def tensors(self, name):
        flat, at, found = self.array(name, numpy.float32), 0, {}
        for tensor, shape in self.shapes.items():
            size = math.prod(shape)
            found[tensor] = torch.from_numpy(flat[at:at + size]).view(*shape)
            at += size
        if at != len(flat):
            raise ValueError(f"{name}: expected {at} floats, got {len(flat)}")
        return found


def apart(got, expect):
    return (got.double() - expect.double()).norm().item() / \
        max(expect.double().norm().item(), 1e-30)


def settled(name, tensor):
    """Drops the keys' biases. A constant that is added to all scores of a query
    does not change the softmax, so the gradient of these biases is only rounding
    error, from which Adam makes full-size steps."""
    if not name.endswith("attn.c_attn.bias"):
        return tensor
    queries, _, values = tensor.chunk(3)
    return torch.cat([queries, values])


def main():
    heads, at_once = int(sys.argv[1]), int(sys.argv[2])
    dump = Dump(sys.argv[3])
    vocabulary, width = dump.shapes["wte.weight"]
    context = dump.shapes["wpe.weight"][0]
    layers = sum(name.endswith("ln_1.bias") for name in dump.shapes)
    model = Gpt2(layers, heads, width, context, vocabulary)
    # strict=True: the same names and shapes, and none may be missing.
    model.load_state_dict(dump.tensors("weights"), strict=True)
    optimizer = adamw(model)
    lines = [[float(n) for n in line.split()]
             for line in dump.text("steps").splitlines()]
    tokens, targets = (
        torch.from_numpy(dump.array(name, numpy.uint16).astype(numpy.int64))
        .view(len(lines), -1, context) for name in ("tokens", "targets"))
    found = {"rates": [], "losses": [], "norms": []}
    for step, (rate, loss, norm) in enumerate(lines, 1):
        expect_rate = learning_rate(step, len(lines))
        for group in optimizer.param_groups:
            group["lr"] = expect_rate
        optimizer.zero_grad(set_to_none=True)
        expect = 0
        for some, wanted in zip(tokens[step - 1].split(at_once),
                                targets[step - 1].split(at_once)):
            part = model(some, wanted) * (len(some) / len(tokens[step - 1]))
            part.backward()
            expect += part.item()
        if step == 1:
            ours = dump.tensors("gradients")
            found["gradients"] = {name: apart(ours[name], p.grad)
                                  for name, p in model.named_parameters()}
        # In double: torch's own sum of many squares has an error of 1e-4.
        expect_norm = math.sqrt(sum(p.grad.double().square().sum().item()
                                    for p in model.parameters()))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found["rates"].append(abs(rate / expect_rate - 1))
        found["losses"].append(abs(loss / expect - 1))
        found["norms"].append(abs(norm / expect_norm - 1))
        found.setdefault("values", []).append([loss, norm])
    ours = dump.tensors("trained")
    found["weights"] = {name: apart(settled(name, ours[name]),
                                    settled(name, p.data))
                        for name, p in model.named_parameters()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
