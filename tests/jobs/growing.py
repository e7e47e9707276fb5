"""Trains, keeps a block more in each step by one line, and holds one that nothing uses any more; prints both lines.

One JSON line: the number of the line that keeps, its bytes a step, the steps, and the number of the line whose block is dead.
"""
import json

import torch

STEPS, KEPT, DEAD = 8, 64 * 1024, 1024 * 1024
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters())
kept = []


def keep():
    kept.append(torch.ones(KEPT // 4))


def make_dead():
    return torch.ones(DEAD // 4)


dead = make_dead()
total = dead.sum()
for _ in range(STEPS):
    optimizer.zero_grad()
    model(torch.ones(8, 64)).sum().backward()
    optimizer.step()
    keep()
del dead
total = total + 1
print(json.dumps({"keep": keep.__code__.co_firstlineno + 1, "bytes": KEPT, "steps": STEPS,
                  "dead": make_dead.__code__.co_firstlineno + 1, "dead_bytes": DEAD}), flush=True)
