"""Allocates and frees a block of a device COUNT times, as fast as it can; prints how long each took, and all blocks that there were.

    allocating.py COUNT
"""
import json
import os
import sys
import time

import torch

data, count = torch.ones(64, 64, device=os.environ.get("JOB_DEVICE", "cpu")), int(sys.argv[1])
result = data + data
begin = time.monotonic_ns()
for _ in range(count):
    result = data + data
took = (time.monotonic_ns() - begin) / count
print(json.dumps({"nanoseconds": took, "blocks": torch.cuda.memory_stats()["allocation.all.allocated"]}))
