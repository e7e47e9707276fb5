"""Models and optimizers that hold their memory in unusual ways: a target of owners_test.py.

Prints what holds what after some steps (`holds KIND ADDRESS BYTES NAME`), then goes on. JOB_DEVICE: where it trains.
"""
import collections
import os
import threading
import time

import torch
from torch import nn
from torch.nn.utils import parametrizations, weight_norm

device = os.environ.get("JOB_DEVICE", "cpu")
torch.manual_seed(0)
torch.set_num_threads(1)
SIZE = 24


class Special(nn.Parameter):
    """A parameter of a class of its own."""


class Logged:
    """Comes first among the bases, so that nn.Module is not what objects lie in memory by."""


class Slotted(Logged, nn.Module):
    __slots__ = ("secret",)

    def __init__(self):
        super().__init__()
        self.secret = 3
        self.inner = nn.Linear(SIZE, SIZE)

    @property
    def weight(self):
        return self.inner.weight

    def forward(self, x):
        return self.inner(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SIZE, SIZE)
        self.towers = nn.ModuleList([nn.Linear(SIZE, SIZE), Slotted(), nn.Linear(SIZE, SIZE)])
        self.named = nn.ModuleDict({"0": nn.Linear(SIZE, SIZE), "with-dash": nn.LayerNorm(SIZE)})
        self.list = nn.ParameterList([nn.Parameter(torch.ones(SIZE + i)) for i in range(3)])
        self.dict = nn.ParameterDict({"a": nn.Parameter(torch.ones(SIZE + 5)), "b": nn.Parameter(torch.ones(SIZE + 6))})
        self.special = Special(torch.ones(SIZE + 7))
        self.phase = nn.Parameter(torch.ones(SIZE, dtype=torch.complex64))
        self.lazy = nn.LazyLinear(SIZE)
        self.normed = weight_norm(nn.Linear(SIZE, SIZE, bias=False))
        self.spectral = parametrizations.spectral_norm(nn.Linear(SIZE, SIZE, bias=False))
        self.register_buffer("unsaved", torch.zeros(SIZE + 8), persistent=False)
        self.register_buffer("nothing", None)
        self.out = nn.Linear(SIZE, SIZE, bias=False)
        self.out.weight = self.embedding.weight
        self.frozen = nn.Linear(SIZE, SIZE).requires_grad_(False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for tower in self.towers:
            x = x + tower(x)
        x = self.named["with-dash"](self.named["0"](x)) + self.spectral(self.normed(self.lazy(x)))
        extra = sum(p.sum() for p in self.list) + self.dict["a"].sum() + self.special.sum() + self.phase.real.sum()
        self.unsaved += 1
        return self.out(x + self.frozen(x)).square().mean() + extra * 1e-3


class Nested(torch.optim.Optimizer):
    """Keeps its state in lists, tuples and dictionaries, as Shampoo and its kin do, and steps with a tensor."""

    def __init__(self, parameters):
        super().__init__(parameters, {"pace": torch.tensor(1e-3).to(device)})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["sides"] = [torch.zeros_like(parameter), (torch.zeros_like(parameter),)]
                    state["inner"] = {"slow": torch.zeros_like(parameter), 2: torch.zeros_like(parameter)}
                state["sides"][0].add_(parameter.grad)
                parameter.sub_(parameter.grad * group["pace"])


def held_by_closure():
    """Nobody but the closure has the model."""
    hidden = nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()).to(device)
    return lambda x: hidden(x), lambda: hidden


def held_by_generator():
    model = nn.Linear(SIZE, 2).to(device)
    while True:
        yield model


def held_by_thread(event):
    model = nn.Linear(SIZE, 3).to(device)  # noqa: F841
    models.append(None)
    event.wait()


models, stopped = collections.deque(), threading.Event()
call, get = held_by_closure()
generator = held_by_generator()
next(generator)
thread = threading.Thread(target=held_by_thread, args=(stopped,), daemon=True)
thread.start()
while not models:
    time.sleep(0.01)
tied = Tied().to(device)
tokens = torch.randint(0, SIZE, (16,), device="cpu").to(device)
tied(tokens)  # the lazy one gets its weight
average = torch.optim.swa_utils.AveragedModel(tied.named)
flat = torch.zeros(3 * SIZE, device=device)  # one storage of several parameters
views = nn.Module()
views.first, views.second = nn.Parameter(flat[:SIZE]), nn.Parameter(flat[SIZE:])
decay = [p for p in tied.parameters() if p.ndim > 1 and p.requires_grad]
rest = [p for p in tied.parameters() if p.ndim <= 1 and p.requires_grad]
optimizers = {"AdamW": torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest}], lr=1e-4),
              "Nested": Nested(get().parameters()),
              "LBFGS": torch.optim.LBFGS(views.parameters(), max_iter=2, history_size=3)}


def train(step):
    keep = step % 2  # accumulation: gradients stay in every other step
    for optimizer in optimizers.values():
        optimizer.zero_grad(set_to_none=not keep)
    tied(tokens).backward()
    call(torch.ones(4, SIZE, device=device)).sum().backward()
    optimizers["AdamW"].step()
    optimizers["Nested"].step()

    def closure():
        optimizers["LBFGS"].zero_grad()
        loss = (views.first.sum() - 1).square() + (views.second - 2).square().sum()
        loss.backward()
        return loss
    optimizers["LBFGS"].step(closure)
    average.update_parameters(tied.named)


def tensors_below(value, path):
    if torch.is_tensor(value):
        yield value, path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors_below(inner, f"{path}[{key}]" if isinstance(key, int) else f'{path}["{key}"]')
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            yield from tensors_below(inner, f"{path}[{place}]")


def holders():
    names = {}
    for root in (tied, get(), next(generator), average, views):
        kind = type(root).__name__
        for name, parameter in root.named_parameters():
            names.setdefault(parameter, f"{kind}.{name}")
            yield "Parameter", parameter, f"{kind}.{name}"
            if parameter.grad is not None:
                yield "Gradient", parameter.grad, f"{kind}.{name}"
        for name, buffer in root.named_buffers():
            yield "Buffer", buffer, f"{kind}.{name}"
    for kind, optimizer in optimizers.items():
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                for tensor, path in tensors_below(value, key):
                    yield "Optstate", tensor, f"{kind}.{path}({names[parameter]})"
    yield "Optstate", optimizers["Nested"].param_groups[0]["pace"], "Nested.pace"


for step in range(5):
    train(step)
listed = {}
for kind, tensor, name in holders():
    if tensor.device.type == device:
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()._storage
        place = kind, hex(storage.data_ptr()), storage.nbytes()
        names = listed.setdefault(place, {})
        if kind == "Parameter" and tensor not in names:
            names[tensor] = name  # parts of one storage have all their names, what is tied the first
        elif not names:
            names[None] = name
for place, names in listed.items():
    print("holds", *place, ", ".join(names.values()), flush=True)
del kind, tensor, name, storage, names, listed
print("ready", flush=True)
step = 0
while True:
    time.sleep(0.05)
    step += 1
    print(f"step {step}", time.perf_counter(), flush=True)
    # What it does must not change who holds what: the listing stands.
    tied.unsaved.add_(1)
    optimizers["Nested"].step()
