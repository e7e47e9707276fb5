"""Training whose parameters, gradients and optimizer state lie in shards over the ranks.

    sharded.py BACKEND RANKS KIND [STEPS]

KIND is ddp, fsdp1 or fsdp2.
"""
import os
import sys

import torch
import torch.distributed as distributed

from ranks import launch_program

WIDTH, LAYERS = 64, 4


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def shard(model, kind, device):
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=device)
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def work(backend, kind, steps):
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    distributed.init_process_group(backend)
    model = shard(Model().to(device), kind, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = model(torch.randn(16, WIDTH, device=device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(launch_program(__file__, sys.argv[1], int(sys.argv[2]), sys.argv[3], *(sys.argv[4:] or ["3"])))
