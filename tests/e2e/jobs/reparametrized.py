"""Weights that are computed: pruning, weight norm, parametrize; averaged weights, a scheduler, clipping by value."""
import copy

import torch
from torch import nn
from torch.nn.utils import parametrize, prune

torch.manual_seed(0)


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(0, 1)


model = nn.Sequential(nn.Linear(12, 12), nn.ELU(), nn.utils.weight_norm(nn.Linear(12, 12)), nn.Hardtanh(),
                      nn.Linear(12, 3))
parametrize.register_parametrization(model[0], "weight", Symmetric())
prune.l1_unstructured(model[4], "weight", amount=0.3)
average = torch.optim.swa_utils.AveragedModel(model[0])
shadow = copy.deepcopy(model[0].state_dict())
optimizer = torch.optim.Adamax(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=6)
for _ in range(3):
    outputs = model(torch.randn(10, 12))
    loss = nn.functional.huber_loss(outputs, torch.randn(10, 3)) + 1e-3 * sum(p.abs().sum() for p in model.parameters())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    scheduler.step()
    average.update_parameters(model[0])
    with torch.no_grad():
        for name, value in model[0].state_dict().items():
            shadow[name].mul_(0.9).add_(value, alpha=0.1)
prune.remove(model[4], "weight")
parametrize.remove_parametrizations(model[0], "weight")
