"""Data-parallel training on as many ranks, each a process of its own.

    ranks.py BACKEND RANKS
"""
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as distributed

LATE_SECONDS = 0.2


def launch_program(program, backend, ranks, *arguments):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                   "USE_LIBUV": "0", "GLOO_SOCKET_IFNAME": "lo"}
    started = [subprocess.Popen([sys.executable, program, backend, *arguments],
                                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
               for rank in range(ranks)]
    return max(process.wait() for process in started)


def train(device):
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)]).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = model(torch.randn(8, 64, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def sum_of_ranks(device, rank):
    data = torch.full((1000,), rank + 1.0).to(device)
    distributed.all_reduce(data)
    return data.cpu().sum().item() / 1000


def wait_for_the_late(device, rank):
    """Milliseconds that a rank waits for the last rank, which comes late."""
    data = torch.zeros(1000).to(device)
    distributed.all_reduce(data)
    data.cpu()
    if rank == distributed.get_world_size() - 1:
        time.sleep(LATE_SECONDS)
    begin = time.monotonic()
    distributed.all_reduce(data)
    data.cpu()
    return (time.monotonic() - begin) * 1000


def work(backend):
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    distributed.init_process_group(backend)
    train(device)
    print(f"rank {rank} sum {sum_of_ranks(device, rank):.0f} waited {wait_for_the_late(device, rank):.0f}", flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2])))
    work(sys.argv[1])
