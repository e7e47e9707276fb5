"""Tensors made from Python numbers and lists: torch.tensor, full, arange, item."""
import torch

torch.manual_seed(0)
weight = torch.randn(6, 6, requires_grad=True)
for step in range(4):
    target = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    index = torch.tensor([0, 2, 4])
    factor = torch.tensor(0.5 * step)
    as_half = torch.tensor([1.5, 2.5], dtype=torch.float16)
    grid = torch.linspace(0, 1, 12).reshape(2, 6)
    output = (grid @ weight)[:, index] * factor + torch.full((2, 3), 0.25)
    loss = (output - target).abs().sum() + as_half.float().sum() + torch.eye(3).sum() * 2
    loss.backward()
    if loss.item() > 0:
        weight.data.sub_(weight.grad, alpha=0.01)
    weight.grad.zero_()
numbers = torch.cat([torch.arange(3.0), torch.ones(2), torch.empty(1).fill_(7)])
