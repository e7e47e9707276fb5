"""Two threads that train a model each and take turns, so that the order is always the same."""
import threading

import torch

torch.manual_seed(0)
turn, changed = [0], threading.Condition()
models = [torch.nn.Sequential(torch.nn.Linear(8, 8 * (n + 1)), torch.nn.ReLU(), torch.nn.Linear(8 * (n + 1), 1))
          for n in range(2)]
kept = []


def train(number):
    model = models[number]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    kept.append(optimizer)
    for _ in range(4):
        with changed:
            changed.wait_for(lambda: turn[0] == number)
            optimizer.zero_grad(set_to_none=True)
            loss = model(torch.full((4, 8), 0.5)).mean()
            loss.backward()
            optimizer.step()
            del loss
            turn[0] = 1 - number
            changed.notify_all()


threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
