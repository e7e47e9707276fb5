"""Jacobian, Hessian products and complex signals by loops of autograd.grad, in mixed dtypes."""
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
filters = torch.nn.Parameter(torch.randn(5, dtype=torch.cfloat))
scale = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
for _ in range(2):
    inputs = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    outputs = net(inputs)
    rows = [torch.autograd.grad(outputs[:, i].sum(), inputs, create_graph=True)[0] for i in range(3)]
    jacobian = torch.stack(rows, 1)
    frobenius = jacobian.pow(2).sum()
    slopes = torch.autograd.grad(frobenius, tuple(net.parameters()), retain_graph=True, allow_unused=True)
    direction = torch.randn_like(inputs)
    product, = torch.autograd.grad((jacobian[:, 0] * direction).sum(), inputs, retain_graph=True)
    try:
        torch.autograd.grad(outputs.sum(), filters)
    except RuntimeError:
        pass

    signal = torch.fft.fft(torch.randn(5))
    shaped = signal * filters
    energy = (shaped.abs() * scale).sum() + shaped.real.square().mean() + torch.view_as_real(shaped).sum()
    energy.backward()
    with torch.no_grad():
        for parameter in (filters, scale):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    whole = (jacobian.detach().half().float() * 8).to(torch.int16)
    mixed = whole.bitwise_and(3) + torch.ones(3, dtype=torch.uint8) * 1.5 + torch.arange(3)
