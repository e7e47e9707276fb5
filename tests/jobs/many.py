"""Many ranks in one family: as many forked processes as given, each with a backward pass now and then."""
import os
import sys
import time

import torch

torch.set_num_threads(1)


def train():
    weight = torch.ones(100, requires_grad=True)
    while True:
        (weight * weight).sum().backward()
        weight.grad = None
        time.sleep(0.5)


children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        train()
    children.append(child)
print("children", *children, flush=True)
for child in children:
    os.waitpid(child, 0)
