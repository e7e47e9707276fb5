"""A job that forks children which use torch too; they are not the target."""
import os

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
kept = [torch.ones(10)]
for number in range(3):
    child = os.fork()
    if child == 0:
        for _ in range(50):
            torch.ones(1234) * 2
        os._exit(0)
    kept.append(kept[-1] + 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
print("children", len(kept) - 1, flush=True)
