"""A job that prints the median of its own step times in microseconds, and their mean by the processor's clock: the subject of tests/bench/overhead.py.

    step_time.py --model small|large [--steps N] [--profile]

on the device that JOB_DEVICE names, else the CPU.
small: about a hundred operators of a few microseconds a step, the worst case.
large: operators of 100 microseconds and more. --profile runs it under
torch.profiler with memory, stacks and shapes; only steps are timed.
"""
import argparse
import contextlib
import os
import statistics
import time

import torch

WARM_UP_STEPS = 20

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=("small", "large"), default="small")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--profile", action="store_true")
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
if options.model == "small":
    batch, inputs_width, width, classes = 32, 64, 256, 10
    model = torch.nn.Sequential(torch.nn.Linear(inputs_width, width), torch.nn.LayerNorm(width), torch.nn.ReLU(),
                                torch.nn.Linear(width, classes))
else:
    batch, inputs_width, width, classes = 64, 640, 640, 640
    model = torch.nn.Sequential(torch.nn.Linear(inputs_width, width), torch.nn.Tanh(), torch.nn.Linear(width, classes))
device = os.environ.get("JOB_DEVICE", "cpu")
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step():
    inputs = torch.randn(batch, inputs_width, device=device)
    labels = torch.randint(0, classes, (batch,), device=device)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


profiler = contextlib.nullcontext()
if options.profile:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True,
                                      with_stack=True, record_shapes=True)
for _ in range(WARM_UP_STEPS):
    step()
times = []
processor = time.process_time()
with profiler:
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    processor = (time.process_time() - processor) / options.steps
    print(f"median_us {statistics.median(times) * 1e6:.1f} processor_us {processor * 1e6:.1f}", flush=True)
    if options.profile:
        os._exit(0)  # what the profiler does with its events afterwards is not measured
