"""A TorchScript model, scripted and traced, trained and frozen."""
import torch
from torch import nn

torch.manual_seed(0)
torch.jit.set_fusion_strategy([])


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        if x.sum() > 0:
            x = self.inner(x).sigmoid() * x
        else:
            x = self.inner(-x).tanh()
        return x + 1


model = torch.jit.script(Gate())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad(set_to_none=True)
    model(torch.ones(3, 8)).square().mean().backward()
    optimizer.step()
with torch.no_grad():
    for _ in range(2):
        result = model(torch.full((3, 8), -1.0))
