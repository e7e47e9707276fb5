"""Trains in order, or wastes memory in one way: the target of findings_test.py.

    wasteful.py FAULT GO

It begins when the file GO is there.

none       nothing is wasted
zeroed     gradients are set to zero, and stay through the forward pass
late       gradients go behind the forward pass
logits     what the model puts out is kept through the backward pass
dead       a block that is used at the begin of a step is kept to its end
leak       a block more is kept in each step
foreach    the optimizer makes intermediates of all parameters at once
idle       a block that nothing uses stays
whole      forward pass and loss are recomputed, all at once
layers     they are recomputed too, layer by layer, which helps
"""
import os
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

BATCH, WIDTH, HIDDEN, LAYERS, WORDS = 256, 128, 512, 3, 1024
KIBIBYTE = 1 << 10
STEPS = 6
fault, go = sys.argv[1:]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x) if fault == "layers" else layer(x)
        return self.head(x)


def make(kibibytes):
    return torch.ones(kibibytes * KIBIBYTE // 4)


def loss_of(x, labels):
    return torch.nn.functional.cross_entropy(model(x), labels)


def forward(x, labels):
    """The loss, and what is kept beside it."""
    if fault == "logits":
        logits = model(x)
        return torch.nn.functional.cross_entropy(logits, labels), logits
    if fault == "whole":
        return checkpoint(loss_of, x, labels), None
    return loss_of(x, labels), None


def step():
    dead = make(1024) if fault == "dead" else None
    x = torch.ones(BATCH, WIDTH, requires_grad=fault in ("whole", "layers"))
    if dead is not None:
        x.data.add_(dead.sum())
    loss, beside = forward(x, torch.zeros(BATCH, dtype=torch.int64))
    if fault == "late":
        optimizer.zero_grad(set_to_none=True)
    if fault == "zeroed":
        optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    if fault not in ("late", "zeroed"):
        optimizer.zero_grad(set_to_none=True)
    del dead, beside


while not os.path.exists(go):
    print("step not begun", flush=True)
    time.sleep(0.05)
torch.set_num_threads(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), foreach=fault == "foreach")
idle = make(1024) if fault == "idle" else None
kept = []
for _ in range(STEPS):
    step()
    if fault == "leak":
        kept.append(make(256))
print("trained", flush=True)
