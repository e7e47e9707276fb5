"""Operators of a few microseconds, so that to see each block costs much: the target of tests of the agent's budget.

    hasty.py [--keep BYTES]

It trains until it is ended, keeps a tensor of so many bytes every 20 ms, and prints
`kept BYTES holds BYTES SECONDS` every 100 ms: what it has kept so far, all that parameters, gradients, states of the
optimizer and kept tensors have, and the time by CLOCK_MONOTONIC.
"""
import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--keep", type=int, default=0, help="bytes")
options = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept = []


def holds():
    tensors = [*model.parameters(), *(parameter.grad for parameter in model.parameters()), *kept,
               *(value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value))]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def step():
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()


keep_at = tell_at = 0
while True:
    step()
    now = time.monotonic()
    if options.keep and now > keep_at:
        kept.append(torch.empty(options.keep, dtype=torch.uint8))
        keep_at = now + 0.02
    if now > tell_at:
        print("kept", len(kept) * options.keep, "holds", holds(), now, flush=True)
        tell_at = now + 0.1
