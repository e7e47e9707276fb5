"""Ranks of which the last comes late to a collective, or never.

    late.py gloo 2 SECONDS      SECONDS: how late; "never"

Each rank prints `late RANK TIME` before that collective, the fourth: nanoseconds of the monotonic clock.
"""
import os
import sys
import time

import torch
import torch.distributed as distributed

from ranks import launch_program


def linger(seconds):
    time.sleep(seconds)


def work(backend, late):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group(backend)
    data = torch.zeros(1000)
    for _ in range(3):
        distributed.all_reduce(data)
    if rank == size - 1:
        linger(3600 if late == "never" else float(late))
    data = data * 2
    print("late", rank, time.monotonic_ns(), flush=True)
    distributed.all_reduce(data)
    distributed.barrier()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    work(sys.argv[1], sys.argv[2])
