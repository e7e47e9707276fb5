"""A training loop that says what holds its memory: the target of owners_test.py.

After two steps everything that lives on has its place; then the job prints a line
`holds KIND ADDRESS BYTES NAME` for each storage, and `step N` after each further
step, until it is ended. JOB_DEVICE: where it trains.
"""
import argparse
import os
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--blocks", type=int, default=2, help="of five modules each")
parser.add_argument("--pause", type=float, default=0.02, help="seconds between steps")
options = parser.parse_args()
device = os.environ.get("JOB_DEVICE", "cpu")
torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.norm = nn.BatchNorm1d(size)
        self.register_parameter("absent", None)

    def forward(self, x):
        return self.norm(self.mlp(x))


class Decoder(nn.Module):
    def __init__(self, size, blocks):
        super().__init__()
        self.layers = nn.ModuleList(Block(size) for _ in range(blocks))
        self.out = nn.Linear(size, size, bias=False)
        self.out.weight = self.layers[0].mlp[0].weight  # shared: it has the name of the first
        self.frozen = nn.Parameter(torch.ones(size), requires_grad=False)
        self.größe = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x) * self.frozen + self.größe


class Trainer:
    """Not a module: it holds two."""

    def __init__(self):
        self.model = Decoder(24, options.blocks).to(device)
        self.never_called = nn.Linear(7, 5).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.average = {"loss": torch.zeros(33, device=device)}

    def step(self):
        self.optimizer.zero_grad(set_to_none=False)
        self.model(torch.randn(8, 24, device=device)).square().mean().backward()
        self.optimizer.step()

    def holders(self):
        for root in (self.model, self.never_called):
            kind = type(root).__name__
            for name, parameter in root.named_parameters():
                yield "Parameter", parameter, f"{kind}.{name}"
                if parameter.grad is not None:
                    yield "Gradient", parameter.grad, f"{kind}.{name}"
            for name, buffer in root.named_buffers():
                yield "Buffer", buffer, f"{kind}.{name}"
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        for parameter, state in self.optimizer.state.items():
            for key, value in state.items():
                if torch.is_tensor(value):
                    yield "Optstate", value, f"AdamW.{key}(Decoder.{names[parameter]})"
        yield "Other", self.average["loss"], 'Trainer.average["loss"]'


trainer = Trainer()
for _ in range(2):
    trainer.step()
for kind, tensor, name in trainer.holders():
    if tensor.device.type == device:
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()._storage
        print("holds", kind, hex(tensor.data_ptr()), storage.nbytes(), name, flush=True)
del kind, tensor, name
print("ready", flush=True)
step = 0
while True:
    trainer.step()
    step += 1
    print(f"step {step}", time.perf_counter(), flush=True)
    time.sleep(options.pause)
