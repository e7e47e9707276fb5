"""Tensors that take over the storage of others: set_, views, data, splits and swaps."""
import torch

torch.manual_seed(0)
base = torch.randn(32, 32)
alias = torch.empty(0)
alias.set_(base.storage(), 0, (16, 16), (32, 1))
alias.mul_(2)
left, right = base.chunk(2)
left += right
window = base.unfold(0, 4, 2).contiguous()
parts = [part.clone() for part in base.split(8)]
holder = torch.nn.Parameter(torch.zeros(4, 4))
for part in parts:
    holder.data = part[:4, :4].contiguous()
    (holder * 3).sum().backward()
    holder.grad = None
swapped = base.t()
base = None
swapped = swapped + 1
strided = torch.as_strided(swapped, (4, 4), (1, 8)).sum()
left = right = alias = None
final = torch.ones(2) * strided
