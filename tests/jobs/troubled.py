"""Two ranks that train over Gloo, of which the second has a trouble of the kind that is wanted.

    troubled.py leaks | exhausted | uneven | sound [STEPS]

leaks: one line keeps a block more in each step. exhausted: one line holds half of the device, in the first rank too, and at every fiftieth step another
asks for more than is left. uneven: it holds much that the first does not. Each rank prints its losses; the second one first a JSON
line with the numbers of its lines. JOB_DEVICE: where they train.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as distributed

from ranks import launch_program

LEAK, PAUSE, EXHAUSTS = 1 << 18, 0.05, 50
held = []


def leak(device):
    held.append(torch.ones(LEAK // 4, device=device))


def hold(bytes_, device):
    held.append(torch.empty(bytes_, dtype=torch.uint8, device=device))


def exhaust(bytes_, device):
    return torch.empty(bytes_, dtype=torch.uint8, device=device)


def line_in(function):
    return function.__code__.co_firstlineno + 1


def device_bytes(device):
    return torch.cuda.get_device_properties(device).total_memory


def trouble(kind, step, device):
    """What goes wrong in a step."""
    if kind == "leaks":
        leak(device)
    elif kind == "exhausted" and step % EXHAUSTS == 0:
        try:
            exhaust(device_bytes(device) * 3 // 4, device)
        except torch.cuda.OutOfMemoryError:
            pass


def work(kind, steps):
    rank, device = int(os.environ["RANK"]), torch.device(os.environ.get("JOB_DEVICE", "cpu"))
    distributed.init_process_group("gloo")
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    if kind == "exhausted" or (kind == "uneven" and rank == 1):
        hold(device_bytes(device) // 2, device)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    if rank == 1:
        print(json.dumps({"leak": line_in(leak), "exhaust": line_in(exhaust)}), flush=True)
    step = 0
    while not steps or step < steps:
        loss = model(torch.randn(16, 64, device=device)).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if rank == 1:
            trouble(kind, step, device)
        total = loss.detach().cpu()
        distributed.all_reduce(total)
        step += 1
        print(f"rank {rank} step {step} {total.item():.9g}", flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(launch_program(__file__, "gloo", 2, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "0"))
