"""Embedding bags and indexing with lists of tensors, masks, gather and scatter."""
import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(40, 8, padding_idx=0)
bag = nn.EmbeddingBag(40, 8, mode="mean")
optimizer = torch.optim.Adagrad([*table.parameters(), *bag.parameters()], lr=0.1)
rows, columns = torch.arange(6), torch.arange(6).flip(0)
for step in range(2):
    tokens = torch.randint(0, 40, (6, 5))
    offsets = torch.tensor([0, 4, 9])
    vectors = table(tokens)
    pooled = bag(tokens.flatten()[:12], offsets)
    picked = vectors[rows, columns % 5]
    grid = vectors.sum(-1)
    grid = grid.index_select(1, torch.randperm(5)).gather(1, torch.argsort(grid, dim=1))
    scattered = torch.zeros(6, 5).scatter_add(1, torch.randint(0, 5, (6, 5)), grid)
    scattered.index_put_((rows, columns % 5), torch.ones(6), accumulate=True)
    taken = torch.take(scattered, torch.tensor([0, 3, 7]))
    loss = picked.sum() + pooled.square().sum() + taken.sum() + vectors[vectors > 0].mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    counts = torch.bincount(tokens.flatten(), minlength=40).nonzero()
