"""A training loop in which each operator of the backward pass comes from a known line.

    nodes.py [--device DEVICE] [--steps N] [--pause SECONDS]

A comment at the end of a line names operators of the backward pass that belong
to that line: "#: NAME ...". Lines without such a mark have none of them.
"""
import argparse
import threading
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Doubled(torch.autograd.Function):
    """A node of Python's: it is made before its forward runs."""

    @staticmethod
    def forward(context, x):
        return x * 2  #: aten.atan.default

    @staticmethod
    def backward(context, gradient):
        return gradient + torch.atan(gradient)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.value = nn.Linear(width, width + 1), nn.Linear(width, width + 2)

    def forward(self, x):
        weights = torch.softmax(self.query(x), -1)  #: aten._softmax_backward_data.default
        mixed = weights.t() @ self.value(x)
        return torch.tanh(mixed).sum()  #: aten.tanh_backward.default


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 3 * width), nn.Linear(3 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        hidden = nn.functional.gelu(self.up(self.norm(x)))  #: aten.gelu_backward.default
        return x + self.down(hidden)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width=20) for _ in range(3))
        self.recomputed = nn.Sequential(nn.Linear(20, 21), nn.SiLU(), nn.Linear(21, 20))
        self.attention = Attention(20)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = Doubled.apply(x)
        x = checkpoint(self.recomputed, x)
        filled = torch.zeros_like(x)
        filled[1:] = nn.functional.softplus(x[1:])  #: aten.softplus_backward.default aten.new_empty_strided.default
        filled[:1].mul_(x[:1])  #: aten.new_empty_strided.default
        return filled, self.attention(x)


def in_another_thread(function, *arguments):
    """What a function returns that ran in a thread of its own: that thread numbers its nodes anew."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()
    thread.join()
    return results[0]


def sigmoid(x):
    return torch.sigmoid(x)  #: aten.sigmoid_backward.default


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Model().to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(options.steps):
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(16, 20, device=options.device)
        filled, attended = model(x)
        squashed = in_another_thread(sigmoid, filled)
        (squashed.sum() + attended).backward()
        optimizer.step()
        print("step", step, flush=True)
        time.sleep(options.pause)


if __name__ == "__main__":
    main()
