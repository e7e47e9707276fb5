"""A thousand C++ exceptions through operators, caught in Python, between training steps."""
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
bad, caught = torch.randn(3, 5), 0
for _ in range(20):
    for _ in range(50):
        try:
            torch.mm(bad, bad)
        except RuntimeError:
            caught += 1
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
print(f"caught {caught}, weights {model.weight.double().sum().item():.17g}", flush=True)
