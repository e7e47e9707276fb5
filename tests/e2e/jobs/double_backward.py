"""Gradients of gradients: a penalty with create_graph, then a Hessian-vector product."""
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(10, 20), nn.Softplus(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(2):
    points = torch.randn(12, 10, requires_grad=True)
    scores = critic(points)
    (gradient,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    penalty = (gradient.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad(set_to_none=True)
    (scores.mean() + 10 * penalty).backward()
    optimizer.step()

x = torch.randn(5, requires_grad=True)
(first,) = torch.autograd.grad(x.sin().pow(3).sum(), x, create_graph=True)
(product,) = torch.autograd.grad(first @ torch.ones(5), x)
