"""Inference mode: no autograd keys at all, in a model and in plain arithmetic."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
kept = []
with torch.inference_mode():
    for _ in range(6):
        scores = model(torch.randn(8, 16))
        kept.append(scores.softmax(-1).max(-1).values)
    total = torch.stack(kept).sum(0)
