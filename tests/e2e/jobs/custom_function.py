"""autograd.Function with several inputs and outputs, in-place, once differentiable, with hooks."""
import torch
from torch.autograd.function import once_differentiable

torch.manual_seed(0)


class Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        positive, negative = x.clamp(min=0) * scale, x.clamp(max=0) * scale
        ctx.save_for_backward(x, scale)
        ctx.mark_non_differentiable(negative)
        return positive, negative

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_positive, _grad_negative):
        x, scale = ctx.saved_tensors
        mask = (x > 0).to(x.dtype)
        return grad_positive * mask * scale, (grad_positive * x * mask).sum().reshape(1)


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, amount):
        ctx.mark_dirty(x)
        return x.add_(amount)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


weight = torch.randn(16, 16, requires_grad=True)
scale = torch.ones(1, requires_grad=True)
seen = []
weight.register_hook(lambda grad: seen.append(grad.norm()))
for _ in range(3):
    positive, negative = Split.apply(torch.randn(8, 16) @ weight, scale)
    shifted = AddInPlace.apply(positive * 2, 0.5)
    shifted.register_hook(lambda grad: grad * 0.5)
    (shifted.mean() + 1).backward()
    with torch.no_grad():
        for leaf in (weight, scale):
            leaf -= 0.1 * leaf.grad
            leaf.grad = None
