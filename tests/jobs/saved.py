"""Stops between a forward and a backward pass, and says what the nodes of autograd's graph have saved: saved_test.py.

    saved.py [--steps N] [--pause SECONDS]

In each step, before its backward pass, a line `saves NODE ADDRESS BYTES` for each tensor that a node has,
then `between N`. JOB_DEVICE: where it trains.
"""
import argparse
import os
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**6)
parser.add_argument("--pause", type=float, default=0.5, help="seconds between forward and backward")
options = parser.parse_args()
device = os.environ.get("JOB_DEVICE", "cpu")
torch.manual_seed(0)
torch.set_num_threads(1)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x * x)
        return x * x * x

    @staticmethod
    def backward(context, gradient):
        square, = context.saved_tensors
        return gradient * 3 * square


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 3 * width), nn.Linear(3 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(20) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = torch.tanh(Cubed.apply(x))
        return (torch.stack([x.exp(), x.sigmoid()]).sum(0) * x).softmax(-1)


def nodes_of(node, met):
    if node is None or node in met:
        return
    met.add(node)
    yield node
    for following, _ in node.next_functions:
        yield from nodes_of(following, met)


def saved_by(node):
    """Tensors that a node has saved: of C++ nodes by the attributes that PyTorch gives them."""
    if hasattr(node, "saved_tensors"):
        yield from node.saved_tensors
        return
    for name in dir(node):
        value = getattr(node, name) if name.startswith("_saved_") else None
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if torch.is_tensor(item):
                yield item


def say(loss, held):
    for node in nodes_of(loss.grad_fn, set()):
        for tensor in saved_by(node):
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()._storage
            if storage.data_ptr() not in held:
                print("saves", type(node).__name__, hex(storage.data_ptr()), storage.nbytes(), flush=True)


def step(model, optimizer, number):
    loss = model(torch.randn(16, 20, device=device)).square().mean()
    say(loss, {parameter.data_ptr() for parameter in model.parameters()})
    print(f"between {number}", flush=True)
    time.sleep(options.pause)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {number}", flush=True)


model = Model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for number in range(options.steps):
    step(model, optimizer, number)
