"""A training loop that is compiled: the target of compiled_test.py. JOB_DEVICE: where it trains.

    compiled.py [BACKEND]

With a backend, which is inductor otherwise, the second of two blocks breaks the graph.
"""
import os
import sys
import time

import torch
from torch import nn

WIDTH = 32
backend = sys.argv[1] if len(sys.argv) > 1 else None
device = os.environ.get("JOB_DEVICE", "cpu")
torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Broken(Block):
    def forward(self, x):
        y = torch.tanh(self.up(x))
        torch._dynamo.graph_break()
        return x + self.down(y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = nn.Sequential(Block(), Broken()) if backend else Block(), nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.head(self.block(x))


model = Model().to(device)
compiled = torch.compile(model, backend=backend or "inductor")
optimizer = torch.optim.SGD(compiled.parameters(), lr=1e-3)
number = 0
while True:
    optimizer.zero_grad()
    compiled(torch.randn(16, WIDTH, device=device)).square().mean().backward()
    optimizer.step()
    number += 1
    print(f"step {number}", flush=True)
    time.sleep(0.02)
