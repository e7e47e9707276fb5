"""Checkpoints: state of a model and its optimizer saved, loaded and trained on."""
import copy
import io

import torch

torch.manual_seed(0)


def build():
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.BatchNorm1d(12), torch.nn.Linear(12, 3))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(9, 6)).square().mean().backward()
        optimizer.step()


model, optimizer = build()
train(model, optimizer, 2)
best = copy.deepcopy(model)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
file.seek(0)
state = torch.load(file)
model, optimizer = build()
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
del state
train(model, optimizer, 2)
