"""Two threads that train models of different sizes at the same time."""
import threading

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
start = threading.Barrier(2)
kept = []


def train(width):
    model = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept.append((model, optimizer))
    start.wait()
    for _ in range(60):
        optimizer.zero_grad(set_to_none=True)
        (model(torch.full((4, 8), 0.5)) * width).mean().backward()
        optimizer.step()


threads = [threading.Thread(target=train, args=(width,)) for width in (24, 56)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done", flush=True)
