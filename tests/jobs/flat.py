"""Holds a model that FSDP has made flat or sharded, as one process: the target of owners_test.py.

    flat.py flat|views|sharded

`flat`: FullyShardedDataParallel makes one parameter of all; `views`: that is kept in parts; `sharded`: fully_shard makes
a DTensor of each. Prints `holds KIND ADDRESS BYTES NAME` for what it holds, then `ready`, and goes on until it is ended.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

mode = sys.argv[1]
os.environ.update(MASTER_ADDR="127.0.0.1", USE_LIBUV="0")
dist.init_process_group("nccl" if mode == "sharded" else "gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).cuda()
if mode == "sharded":
    from torch.distributed.fsdp import fully_shard
    fully_shard(model)
else:
    model = FullyShardedDataParallel(model, use_orig_params=mode == "views")
optimizer = torch.optim.Adam(model.parameters())
if mode == "sharded":
    model(torch.ones(3, 8, device="cuda")).sum().backward()
    optimizer.step()


def local(tensor):
    return tensor._local_tensor if mode == "sharded" else tensor


def note(kind, tensor, name):
    """Parts of one storage are called by all of them."""
    storage = local(tensor).untyped_storage()
    names.setdefault((kind, hex(storage.data_ptr()), storage.nbytes()), []).append(name)


names = {}
for name, parameter in model.named_parameters():
    name = f"{type(model).__name__}.{name}" + (f"({', '.join(parameter._fqns)})" if mode == "flat" else "")
    note("Parameter", parameter, name)
    if parameter.grad is not None:
        note("Gradient", parameter.grad, name)
    for key, value in optimizer.state[parameter].items() if mode == "sharded" else ():
        if key != "step":
            note("Optstate", value, f"Adam.{key}({name})")
for place, several in names.items():
    print("holds", *place, ", ".join(several))
del parameter
print("ready", flush=True)
step = 0
while True:
    torch.ones(8, device="cuda").sum()
    step += 1
    print("step", step, time.perf_counter(), flush=True)
    time.sleep(0.02)
