"""Trains, and says what its modules held by hooks of its own: the target of modules_test.py.

Prints a JSON line for each call: module, state, bytes (allocated on the device), and at the end of it the highest
since; for the last calls also the bytes of inputs and outputs. Then it ends.
"""
import argparse
import json

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
options = parser.parse_args()
SIZE = 64
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(SIZE, 4 * SIZE)
        self.second = nn.Linear(4 * SIZE, SIZE)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(SIZE, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def say(**what):
    print(json.dumps(what), flush=True)


def storage_bytes(tensors):
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors if torch.is_tensor(tensor))


def watch(module, name):
    def before(_, inputs):
        torch.cuda.reset_peak_memory_stats()
        say(module=name, state="Pre-Forward", bytes=torch.cuda.memory_allocated(), input=storage_bytes(inputs))

    def after(_, inputs, output):
        say(module=name, state="Post-Forward", bytes=torch.cuda.memory_allocated(),
            peak=torch.cuda.max_memory_allocated(), output=storage_bytes([output]))
    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)


model = Model().cuda()
for name, module in model.named_modules():
    if not isinstance(module, nn.ModuleList):
        watch(module, f"Model.{name}" if name else "Model")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
batches = [torch.randn(32, SIZE, device="cuda") for _ in range(options.steps)]
for batch in batches:
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
