"""Holds a model that FullyShardedDataParallel has made flat, as one process: the target of owners_test.py.

Prints `holds ADDRESS BYTES NAME` for each flat parameter, then `ready`, and goes on until it is ended.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

os.environ.update(MASTER_ADDR="127.0.0.1", USE_LIBUV="0")
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
model = FullyShardedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).cuda(), use_orig_params=False)
for name, parameter in model.named_parameters():
    print("holds", hex(parameter.data_ptr()), parameter.untyped_storage().nbytes(), name, *parameter._fqns, flush=True)
print("ready", flush=True)
step = 0
while True:
    torch.ones(8, device="cuda").sum()
    step += 1
    print("step", step, time.perf_counter(), flush=True)
    time.sleep(0.02)
