"""A training loop that inductor compiles: the target of compiled_test.py. JOB_DEVICE: where it trains."""
import os
import time

import torch
from torch import nn

WIDTH = 32
device = os.environ.get("JOB_DEVICE", "cpu")
torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(), nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.head(self.block(x))


model = Model().to(device)
compiled = torch.compile(model)
optimizer = torch.optim.SGD(compiled.parameters(), lr=1e-3)
number = 0
while True:
    optimizer.zero_grad()
    compiled(torch.randn(16, WIDTH, device=device)).square().mean().backward()
    optimizer.step()
    number += 1
    print(f"step {number}", flush=True)
    time.sleep(0.02)
