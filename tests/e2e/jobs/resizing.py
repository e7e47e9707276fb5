"""Storages that change under their tensors: resize_, UntypedStorage.resize_, out= that grows."""
import torch

torch.manual_seed(0)


def storage_of(tensor):
    return tensor.storage()._storage if not hasattr(tensor, "untyped_storage") else tensor.untyped_storage()


growing = torch.empty(0)
for size in (100, 1000, 10, 5000):
    growing.resize_(size).fill_(1.0)
    doubled = growing * 2

weight = torch.randn(64, 64)
kept = weight.clone()
for _ in range(3):
    storage_of(weight).resize_(0)
    between = torch.ones(8) + 1
    storage_of(weight).resize_(64 * 64 * 4)
    weight.copy_(kept)
    product = weight @ weight

out = torch.empty(0)
torch.mul(kept, 2, out=out)
torch.add(out, kept, out=out)
