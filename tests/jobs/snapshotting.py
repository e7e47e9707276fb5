"""Trains a small model on a device while PyTorch records what its allocator does; at the end writes PyTorch's own snapshot.

    snapshotting.py FILE
"""
import pickle
import sys

import torch

torch.cuda.init()
torch.cuda.memory._record_memory_history(stacks="python")
torch.backends.cudnn.enabled = False
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    loss = model(torch.empty(512, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.empty_cache()
with open(sys.argv[1], "wb") as out:
    pickle.dump(torch.cuda.memory._snapshot(), out)
