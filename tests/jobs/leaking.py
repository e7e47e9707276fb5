"""Trains on a device, and keeps what it need not, until the device is full; prints what the allocator said then.

    leaking.py --steps N

About N steps fit: in each one a block is kept, all by one line. One JSON line: bytes asked for, allocated, reserved, held by that
line, and its number.
"""
import argparse
import json

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
options = parser.parse_args()

device = torch.device("cuda")
MEBIBYTES = 1 << 21  # what the allocator would round to
size = int(0.9 * torch.cuda.get_device_properties(device).total_memory / options.steps) // MEBIBYTES * MEBIBYTES
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept = []


def keep():
    kept.append(torch.zeros(size, dtype=torch.uint8, device=device))


def step():
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 32, device=device)),
                                             torch.zeros(16, dtype=torch.int64, device=device))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


try:
    while True:
        step()
        keep()
except torch.cuda.OutOfMemoryError:
    stats = torch.cuda.memory_stats()
    print(json.dumps({"asked": size, "allocated": stats["allocated_bytes.all.current"],
                      "reserved": stats["reserved_bytes.all.current"], "held": size * len(kept),
                      "line": keep.__code__.co_firstlineno + 1}), flush=True)
