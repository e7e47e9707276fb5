"""Hooks on tensors and modules, checkpoint without reentry, and a model that is saved to memory and read again."""
import gc
import io
import pickle

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
norms, kept = [], []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 24), nn.Linear(24, 2)
        self.inner = nn.Sequential(nn.Linear(24, 24), nn.GELU())
        self.inner.register_forward_hook(lambda module, inputs, output: output.sin())
        self.last.register_full_backward_hook(lambda module, inputs, outputs: norms.append(outputs[0].norm()))
        self.first.register_forward_pre_hook(lambda module, inputs: (inputs[0].clamp(-2, 2),))

    def forward(self, inputs):
        hidden = self.first(inputs)
        hidden.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        return self.last(checkpoint(self.inner, hidden, use_reentrant=False))


model = Net()
# What a hook of a leaf makes is its own, unless it gives it back.
model.first.weight.register_hook(lambda gradient: kept.append(gradient.clone()))
model.last.weight.register_hook(lambda gradient: gradient / (1 + gradient.norm()))
if hasattr(model.last.bias, "register_post_accumulate_grad_hook"):
    model.last.bias.register_post_accumulate_grad_hook(lambda parameter: kept.append(parameter.grad.clone()))
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3)
for _ in range(2):
    optimizer.zero_grad(set_to_none=True)
    nn.functional.smooth_l1_loss(model(torch.randn(6, 8)), torch.zeros(6, 2)).backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    copied = pickle.loads(pickle.dumps(model.last.weight.detach()))
    del saved
    gc.collect()  # what hangs in cycles ends here, not when the collector happens to come
