"""Inputs that live in numpy arrays, results that go back to them."""
import numpy
import torch

torch.manual_seed(0)
generator = numpy.random.default_rng(0)
images = generator.standard_normal((64, 12)).astype(numpy.float32)
labels = generator.integers(0, 3, 64)
model = torch.nn.Linear(12, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
shared = torch.from_numpy(images)
for start in range(0, 48, 16):
    batch = shared[start:start + 16]
    whole = torch.as_tensor(labels[start:start + 16])
    normal = (batch - batch.mean(0)) / batch.std(0)
    loss = torch.nn.functional.cross_entropy(model(normal), whole)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    images[start:start + 16] = model(batch).detach().numpy() @ numpy.zeros((3, 12), numpy.float32)
    shared.add_(1)
    copied = torch.tensor(images[:4]).double()
