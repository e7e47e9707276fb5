"""What collectives have around them: copies, averages by hand, waits, counts of tokens.

    gathering.py BACKEND RANKS
"""
import os
import sys
import time

import torch
import torch.distributed as distributed
from torch.distributed import _functional_collectives as functional

from ranks import launch_program

ROWS, COLUMNS, LATE_SECONDS = 8, 32, 0.05


def gathers(part, size):
    """Along the first dimension, which is where it lies; along the second, which takes a copy; the same by hand."""
    first = functional.all_gather_tensor(part, 0, distributed.group.WORLD)
    torch.sin(functional.wait_tensor(first))
    second = functional.all_gather_tensor(part, 1, distributed.group.WORLD)
    torch.sin(functional.wait_tensor(second))
    parts = [torch.empty_like(part) for _ in range(size)]
    distributed.all_gather(parts, part)
    torch.sin(torch.cat(parts, dim=1))


def averages(part, size):
    """After the sum, before it, not at all."""
    data = torch.sin(part)
    distributed.all_reduce(data)
    data.div_(size)
    data = torch.cos(data)
    data.mul_(1 / size)
    distributed.all_reduce(data)
    data = torch.cos(data)
    distributed.all_reduce(data)
    torch.sin(data)


def counts(device):
    distributed.all_reduce(torch.tensor([7], device=device))
    distributed.all_reduce(torch.ones((), device=device))


def coalesced(device):
    parts = [torch.sin(torch.rand(elements, device=device)) for elements in (10, 20, 30)]
    for part in functional.all_reduce_coalesced(parts, "sum", distributed.group.WORLD):
        functional.wait_tensor(part)
    for part in functional.all_gather_into_tensor_coalesced(parts, distributed.group.WORLD):
        functional.wait_tensor(part)


def direct(part):
    """As compiled code calls it, without Python's wrappers."""
    operators = torch.ops._c10d_functional
    torch.sin(operators.wait_tensor(operators.all_reduce(part, "sum", distributed.group.WORLD.group_name)))


def late(part, rank):
    """Prints how long the rank waited."""
    distributed.all_reduce(part)
    if rank:
        time.sleep(LATE_SECONDS)
    work = distributed.all_reduce(part, async_op=True)
    begin = time.monotonic_ns()
    work.wait()
    print(f"waited {rank} {time.monotonic_ns() - begin}\n", end="", flush=True)
    torch.sin(part)


def work(backend):
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    distributed.init_process_group(backend)
    part, size = torch.sin(torch.rand(ROWS, COLUMNS, device=device)), distributed.get_world_size()
    gathers(part, size)
    averages(part, size)
    counts(device)
    coalesced(device)
    direct(part)
    late(torch.sin(part), rank)
    distributed.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(sys.argv[1])
    else:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2])))
