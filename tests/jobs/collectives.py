"""Every kind of collective once or twice, with a log of what was called.

    collectives.py BACKEND RANKS FOLDER

Each rank writes FOLDER/RANK.log: a line for each call, `kind operation type elements peer`, with - for none; elements are
those that the rank gives, of a receive those that it gets.
"""
import os
import sys

import torch
import torch.distributed as distributed

from ranks import launch_program

OPERATIONS = {"sum": distributed.ReduceOp.SUM, "product": distributed.ReduceOp.PRODUCT,
              "min": distributed.ReduceOp.MIN, "max": distributed.ReduceOp.MAX}
TYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8]


class Log:
    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")

    def write(self, kind, operation="-", data=None, peer="-", elements=None):
        kind_of_data = str(data.dtype).removeprefix("torch.") if data is not None else "-"
        elements = elements if elements is not None else data.numel() if data is not None else 0
        print(kind, operation, kind_of_data, elements, peer, file=self.file, flush=True)


def reductions(log, device, rank, size):
    for index, (name, operation) in enumerate(OPERATIONS.items()):
        data = torch.ones(10 + index, device=device, dtype=TYPES[index])
        log.write("all_reduce", name, data)
        distributed.all_reduce(data, operation)
    data = torch.ones(21, device=device)
    log.write("reduce", "max", data, peer=1)
    distributed.reduce(data, 1, distributed.ReduceOp.MAX)


def movements(log, device, rank, size, backend):
    data = torch.ones(30, device=device, dtype=torch.uint8)
    log.write("broadcast", "-", data, peer=1)
    distributed.broadcast(data, 1)
    log.write("all_gather", "-", data)
    distributed.all_gather([torch.empty_like(data) for _ in range(size)], data)
    if backend == "gloo":
        log.write("gather", "-", data, peer=0)
        distributed.gather(data, [torch.empty_like(data) for _ in range(size)] if rank == 0 else None, 0)
        log.write("scatter", "-", data, peer=1, elements=size * data.numel() if rank == 1 else 0)
        distributed.scatter(data, [torch.ones_like(data) for _ in range(size)] if rank == 1 else None, 1)


def into_one(log, device, rank, size, backend):
    """Names of these methods changed between versions."""
    data = torch.ones(8, device=device)
    large = torch.ones(8 * size, device=device)
    if backend == "nccl" or not torch.__version__.startswith("1."):
        log.write("all_gather", "-", data)
        distributed.all_gather_into_tensor(large, data)
        log.write("reduce_scatter", "sum", large)
        distributed.reduce_scatter_tensor(data, large)
    log.write("all_to_all", "-", large)
    distributed.all_to_all_single(torch.empty_like(large), large)
    # Rows of five elements, of which each rank gives and gets other numbers.
    rows = [(rank + other) % 3 + 1 for other in range(size)]
    uneven = torch.ones(sum(rows), 5, device=device)
    log.write("all_to_all", "-", uneven)
    distributed.all_to_all_single(torch.empty_like(uneven), uneven, rows, rows)


def pairs(log, device, rank):
    data = torch.ones(40, device=device, dtype=torch.float64)
    if rank == 0:
        log.write("send", "-", data, peer=1)
        distributed.send(data, 1)
    elif rank == 1:
        log.write("receive", "-", data, peer=0)
        distributed.recv(data, 0)


def functional(log, device, size):
    if torch.__version__.startswith("1."):
        return
    import torch.distributed._functional_collectives as collectives
    data = torch.ones(50, device=device)
    group = distributed.group.WORLD
    log.write("all_reduce", "sum", data)
    collectives.wait_tensor(collectives.all_reduce(data, "sum", group))
    log.write("all_gather", "-", data)
    collectives.wait_tensor(collectives.all_gather_tensor(data, 0, group))


def groups(log, rank, size):
    """Two groups of all ranks, which the first rank uses in another order than the others."""
    both = [distributed.new_group(list(range(size))) for _ in range(2)]
    works = []
    for place in (0, 1) if rank == 0 else (1, 0):
        data = torch.ones(60 + place)
        log.write("all_reduce", "sum", data)
        works.append(distributed.all_reduce(data, group=both[place], async_op=True))
    for one in works:
        one.wait()


def work(backend, folder):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    distributed.init_process_group(backend)
    log = Log(os.path.join(folder, f"{rank}.log"))
    reductions(log, device, rank, size)
    movements(log, device, rank, size, backend)
    into_one(log, device, rank, size, backend)
    pairs(log, device, rank)
    functional(log, device, size)
    if backend == "gloo":
        log.write("barrier")
        distributed.monitored_barrier()
    log.write("barrier")
    distributed.barrier()
    if backend == "gloo":
        groups(log, rank, size)
    # A program of PyTorch 2.6 that used functional collectives hangs at its end now and then, traced or not.
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    work(sys.argv[1], sys.argv[2])
