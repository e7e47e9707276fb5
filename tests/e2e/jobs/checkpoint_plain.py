"""Activation checkpointing of both kinds in one model, with random numbers inside."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(12, 24)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Dropout(0.2)) for _ in range(4))
        self.tail = nn.Sequential(nn.Linear(24, 24), nn.Sigmoid(), nn.Linear(24, 24), nn.SiLU())

    def forward(self, x):
        x = self.entry(x)
        for place, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=place % 2 == 0)
        return checkpoint_sequential(self.tail, 2, x).sum(-1)


model = Tower()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(3):
    optimizer.zero_grad(set_to_none=True)
    model(torch.randn(6, 12)).square().mean().backward()
    optimizer.step()
