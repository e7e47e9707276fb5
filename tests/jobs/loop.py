"""A training loop that runs until it is ended: the target of attach tests.

Prints `ready` when the model is built and `step N` after each step. With
--late SECONDS, torch is imported only after that time. JOB_DEVICE: where it trains.
"""
import argparse
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=0, help="0: for ever")
parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
parser.add_argument("--pause", type=float, default=0.02, help="seconds between steps")
parser.add_argument("--losses", action="store_true", help="print the loss of each step too")
parser.add_argument("--late", type=float, default=0.0)
parser.add_argument("--status", type=int, default=0, help="exit code")
options = parser.parse_args()

if options.late:
    print("waiting", flush=True)
    time.sleep(options.late)

import torch  # noqa: E402

device = os.environ.get("JOB_DEVICE", "cpu")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
if options.optimizer == "sgd":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
print("ready", flush=True)
step = 0
while not options.steps or step < options.steps:
    inputs, labels = torch.randn(16, 32, device=device), torch.randint(0, 4, (16,), device=device)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    step += 1
    print(f"step {step}" + (f" {loss.item():.9g}" if options.losses else ""), flush=True)
    time.sleep(options.pause)
print(f"weights {sum(p.double().sum().item() for p in model.parameters()):.17g}", flush=True)
sys.exit(options.status)
