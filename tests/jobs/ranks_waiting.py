"""Ranks that begin collectives together, until the file `stop` is there: from then on the last one does not come.

    ranks_waiting.py BACKEND RANKS

Prints `round N`.
"""
import os
import sys
import time

import torch
import torch.distributed as distributed

from ranks import launch_program


def work(backend):
    launcher = os.getppid()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group(backend)
    stop, data, number = torch.zeros(1), torch.zeros(1000), 0
    while True:
        stop[0] = os.path.exists("stop")
        distributed.all_reduce(stop)
        while stop.item() and rank == size - 1 and os.getppid() == launcher:
            time.sleep(0.1)
        distributed.all_reduce(data)
        number += 1
        if rank == 0:
            print(f"round {number}", flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2])))
    work(sys.argv[1])
