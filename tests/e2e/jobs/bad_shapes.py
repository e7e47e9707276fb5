"""C++ exceptions that cross operators, are caught in Python, and leave the training as it was."""
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
caught = 0


def fails(function, *arguments):
    global caught
    try:
        function(*arguments)
    except (RuntimeError, IndexError):
        caught += 1


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("on purpose")


for _ in range(3):
    inputs = torch.randn(4, 8)
    fails(torch.mm, inputs, inputs)
    fails(torch.cat, [inputs, inputs[:, :3]])
    fails(model, inputs[:, :5])
    fails(torch.nn.functional.cross_entropy, inputs, torch.full((4,), 99))
    fails(inputs.view, 5, 5)
    fails(lambda: Failing.apply(model(torch.randn(4, 8))).sum().backward())
    optimizer.zero_grad(set_to_none=True)
    model(inputs).square().mean().backward()
    optimizer.step()
