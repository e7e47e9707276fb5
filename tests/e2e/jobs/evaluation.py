"""Training steps with evaluation under no_grad between them."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 40), nn.BatchNorm1d(40), nn.ELU(), nn.Dropout(), nn.Linear(40, 4))
optimizer = torch.optim.NAdam(model.parameters())
best = 0.0
for _ in range(3):
    model.train()
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(torch.randn(16, 20)), torch.randint(0, 4, (16,))).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        right = total = 0
        for _ in range(2):
            labels = torch.randint(0, 4, (16,))
            right += (model(torch.randn(16, 20)).argmax(-1) == labels).sum().item()
            total += len(labels)
    best = max(best, right / total)


@torch.no_grad()
def average(models):
    for group in zip(*[part.parameters() for part in models]):
        group[0].copy_(torch.stack([parameter.detach() for parameter in group]).mean(0))


average([model, model])
