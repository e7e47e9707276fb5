"""Optimizers that take more than 32 tensors at once: foreach Adam, then foreach SGD."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(24)])
adam = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
sgd = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, foreach=True)
for optimizer in (adam, sgd, adam, sgd):
    inputs = torch.randn(4, 8)
    optimizer.zero_grad(set_to_none=False)
    model(inputs).square().mean().backward()
    optimizer.step()
