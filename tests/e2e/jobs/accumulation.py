"""Gradient accumulation, scaling, clipping, a schedule and an average of the weights."""
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 30), nn.GELU(), nn.Linear(30, 30), nn.GELU(), nn.Linear(30, 2))
model[2].weight = nn.Parameter(model[2].weight.detach().clone())
average = AveragedModel(model)
optimizer = torch.optim.AdamW(
    [{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2].parameters()},
     {"params": model[4].parameters(), "weight_decay": 0.0}], lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
for step in range(3):
    total = torch.zeros(())
    for _ in range(4):
        loss = nn.functional.mse_loss(model(torch.randn(5, 10)), torch.randn(5, 2)) / 4
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    schedule.step()
    average.update_parameters(model)
