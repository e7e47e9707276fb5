"""One rank on c10d's back end of MPI, which calls MPI on a thread of its own. Prints `call KIND FUNCTION ELEMENTS`."""
import sys

import torch
import torch.distributed as distributed


def call(kind, function, elements, perform, *arguments):
    print("call", kind, function, elements, flush=True)
    perform(*arguments)


def work():
    distributed.init_process_group("mpi")
    data = torch.ones(10)
    for _ in range(3):
        call("all_reduce", "MPI_Allreduce", 10, distributed.all_reduce, data)
    call("broadcast", "MPI_Bcast", 10, distributed.broadcast, data, 0)
    call("reduce", "MPI_Reduce", 10, distributed.reduce, data, 0)
    call("all_gather", "MPI_Allgather", 10, distributed.all_gather, [torch.empty(10)], data)
    call("barrier", "MPI_Barrier", 0, distributed.barrier)
    distributed.destroy_process_group()


if not distributed.is_mpi_available():
    print("no MPI")
    sys.exit(0)
work()
