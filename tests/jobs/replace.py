"""A job that trains a few steps and then replaces itself by another program (exec)."""
import os
import sys
import time

import torch

model = torch.nn.Linear(8, 8)
print("ready", flush=True)
for step in range(1, int(sys.argv[1]) + 1):
    model(torch.randn(4, 8)).sum().backward()
    print(f"step {step}", flush=True)
    time.sleep(0.05)
NEXT = "import torch; torch.ones(3) + 1; print('replaced'); raise SystemExit(5)"
os.execv(sys.executable, [sys.executable, "-c", NEXT])
