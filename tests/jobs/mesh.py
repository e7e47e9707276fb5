"""Training over a mesh of data and tensor parallel ranks, or over pipeline stages.

    mesh.py BACKEND RANKS KIND

KIND is tensor (data x tensor, two each) or pipeline (two stages of two ranks, which send and receive).
"""
import os
import sys

import torch
import torch.distributed as distributed

from ranks import launch_program

WIDTH = 32


def train_tensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(2 * WIDTH, WIDTH))
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
    for _ in range(3):
        model(torch.randn(8, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def train_pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    rank = distributed.get_rank()
    groups = [distributed.new_group([0, 1]), distributed.new_group([2, 3])]
    stage = PipelineStage(torch.nn.Linear(WIDTH, WIDTH), rank % 2, 2, torch.device("cpu"), group=groups[rank // 2])
    schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    for _ in range(2):
        if rank % 2:
            schedule.step(target=torch.zeros(8, WIDTH))
        else:
            schedule.step(torch.randn(8, WIDTH))


if __name__ == "__main__":
    if "RANK" in os.environ:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        distributed.init_process_group(sys.argv[1])
        {"tensor": train_tensor, "pipeline": train_pipeline}[sys.argv[2]]()
        distributed.barrier()
        distributed.destroy_process_group()
    else:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2]), sys.argv[3]))
