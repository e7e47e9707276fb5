"""A process with a model, for objects_test.c: says what it holds, then waits until its input ends.

First line: id of the model. Then `NAME ADDRESS` of each parameter and buffer (`other:NAME` where one has a second), `graph: ID` of a tensor that nodes of
autograd's graph lead to, and `saved:NODE ADDRESS` of each storage that they saved, parameters left out.
"""
import sys

import torch
from torch import nn

class Sharded:
    """What fully_shard makes every module a subclass of too: its type's first base leads to no module."""


model = type("Sequential", (Sharded, nn.Sequential), {})(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 2, bias=False)))
model.append(model[0]) if hasattr(model, "append") else model.add_module("3", model[0])
optimizer = torch.optim.Adam(model[2].parameters())
model[2](torch.ones(1, 4)).sum().backward()
optimizer.step()
print(hex(id(model)))
for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
    print(f"Sequential.{name} {hex(tensor.data_ptr())}")
loss = model[2](torch.tanh(torch.ones(3, 4, requires_grad=True).exp().sigmoid())).softmax(-1)
print(f"graph: {hex(id(loss))}")  # then, what is shared may be reached on the other way
for name, tensor in model[0].named_parameters():
    print(f"other:Sequential.3.{name} {hex(tensor.data_ptr())}")
held, node = {parameter.data_ptr() for parameter in model.parameters()}, loss.grad_fn
while node:
    for name in dir(node):
        value = getattr(node, name) if name.startswith("_saved_") else None
        if torch.is_tensor(value) and value.data_ptr() not in held:
            print(f"saved:{type(node).__name__} {hex(value.data_ptr())}")
    node = node.next_functions[0][0] if node.next_functions else None
print("end", flush=True)
sys.stdin.read()
