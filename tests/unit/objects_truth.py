"""A process with a model, for objects_test.c: says what it holds, then waits until its input ends.

First line: id of the model. Then `NAME ADDRESS` of each parameter and buffer.
"""
import sys

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 2, bias=False)))
model.append(model[0]) if hasattr(model, "append") else model.add_module("3", model[0])
optimizer = torch.optim.Adam(model[2].parameters())
model[2](torch.ones(1, 4)).sum().backward()
optimizer.step()
print(hex(id(model)))
for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
    print(f"Sequential.{name} {hex(tensor.data_ptr())}")
print("end", flush=True)
sys.stdin.read()
