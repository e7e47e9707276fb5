"""LBFGS: forward and backward passes inside the optimizer's step."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=3)
inputs, targets = torch.randn(20, 5), torch.randn(20, 1)


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


for _ in range(2):
    optimizer.step(closure)
