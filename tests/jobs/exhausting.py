"""Runs out of the memory of a device, holding blocks of known sizes; prints what the allocator said when it did.

    exhausting.py [--times N]

One JSON line each time: bytes that were asked for, allocated and reserved.
"""
import argparse
import json

import torch

MEBIBYTE = 1 << 20
parser = argparse.ArgumentParser()
parser.add_argument("--times", type=int, default=1)
options = parser.parse_args()


class Cache(torch.nn.Module):
    def forward(self):
        return torch.empty(300 * MEBIBYTE, dtype=torch.uint8, device="cuda")


def noise_make():
    """Blocks with gaps between them: a third of the memory is free, in pieces."""
    blocks = [torch.empty(6 * MEBIBYTE, dtype=torch.uint8, device="cuda") for _ in range(30)]
    return blocks[::3] + blocks[1::3]


weights = torch.zeros(100 * MEBIBYTE, dtype=torch.uint8, device="cuda")
make = Cache()
cache = make()
noise = noise_make()
for _ in range(options.times):
    size = 600 * MEBIBYTE
    try:
        weights.repeat(6)
    except torch.cuda.OutOfMemoryError:
        stats = torch.cuda.memory_stats()
        print(json.dumps({"asked": size, "allocated": stats["allocated_bytes.all.current"],
                          "reserved": stats["reserved_bytes.all.current"]}), flush=True)
