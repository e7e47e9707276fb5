"""In-place operators and out= arguments, on tensors, views and lists of tensors."""
import torch

torch.manual_seed(0)
a, b = torch.randn(24, 24), torch.randn(24, 24)
out, values, indices = torch.empty(24, 24), torch.empty(24), torch.empty(24, dtype=torch.long)
for _ in range(3):
    torch.mm(a, b, out=out)
    out.relu_().add_(1).clamp_(0, 4).sqrt_()
    torch.max(out, dim=1, out=(values, indices))
    torch.cat([a, b], out=torch.empty(48, 24))
    a[::2].mul_(0.5)
    a.masked_fill_(a.abs() < 0.1, 0.0)
    torch._foreach_add_([a, b], 0.25)
    torch._foreach_mul_([a, b], [out, out])
    torch._foreach_sqrt([out, out.abs()])
    torch.addcmul(a, b, out, value=0.1, out=b)
    b.copy_(a.t()).triu_().transpose_(0, 1)
    a.normal_().uniform_(-1, 1)
    torch.where(a > 0, a, b).lerp_(b, 0.5)
