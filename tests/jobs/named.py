"""Every way for a module to come by its name: the target of accuracy_test.py's attach in the middle."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
SIZE = 24


class Block(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.up, self.shared, self.down = nn.Linear(SIZE, 2 * SIZE), shared, nn.Linear(2 * SIZE, SIZE)

    def forward(self, x):
        return x + self.down(self.shared(self.up(x)))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(SIZE))
        self.register_buffer("mean", torch.zeros(SIZE))
        self.register_buffer("seen", torch.zeros(SIZE), persistent=False)

    def forward(self, x):
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.1)
            self.seen += 1
        return x * self.scale - self.mean


class Tower(nn.Module):
    """Shared modules, a dictionary, a checkpoint, one that is scripted, and one that is replaced on the way."""

    def __init__(self):
        super().__init__()
        shared = nn.GELU()
        self.blocks = nn.ModuleList(Block(shared) for _ in range(3))
        self.heads = nn.ModuleDict({"left": nn.Linear(SIZE, SIZE), "right": Gate()})
        self.small = torch.jit.script(nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()))

    def forward(self, x):
        x = self.blocks[0](x)
        x = checkpoint(self.blocks[1], x)
        x = self.blocks[2](self.small(x))
        return self.heads["left"](x) + self.heads["right"](x)


class Wrapped(nn.Module):
    """As DistributedDataParallel wraps a model."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def penalty(tensors):
    """No module is called here."""
    return sum(tensor.square().sum() for tensor in tensors) * 1e-4


tower = Wrapped(Tower())
critic = nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, 1))  # a root of its own
optimizers = [torch.optim.AdamW(tower.parameters(), lr=1e-3), torch.optim.SGD(critic.parameters(), lr=1e-2, momentum=0.9)]
for step in range(6):
    if step == 2:
        tower.module.heads["left"] = nn.Linear(SIZE, SIZE)
        optimizers[0].add_param_group({"params": list(tower.module.heads["left"].parameters())})
    if step == 4:
        tower.module.last, tower.module.small = tower.module.small, nn.Identity()  # another name for what is there
    batch = torch.randn(16, SIZE)
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    result = tower(batch)
    if step >= 4:
        result = tower.module.last(result)
    (critic(result).mean() + penalty(tower.parameters())).backward()
    for optimizer in optimizers:
        optimizer.step()
