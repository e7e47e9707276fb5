"""A job that trains until SIGUSR1 comes, and then replaces itself by another program (exec)."""
import itertools
import os
import signal
import sys
import time

import torch

model = torch.nn.Linear(8, 8)
told = []
signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
print("ready", flush=True)
for step in itertools.count(1):
    if told:
        break
    model(torch.randn(4, 8)).sum().backward()
    print(f"step {step}", flush=True)
    time.sleep(0.05)
NEXT = "import torch; torch.ones(3) + 1; print('replaced'); raise SystemExit(5)"
os.execv(sys.executable, [sys.executable, "-c", NEXT])
