"""Sparse gradients: Embedding and EmbeddingBag with SparseAdam, a dense head with SGD, sparse matrices."""
import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(50, 8, sparse=True)
bag = nn.EmbeddingBag(50, 8, mode="sum", sparse=True)
head = nn.Linear(16, 4)
sparse_optimizer = torch.optim.SparseAdam([*table.parameters(), *bag.parameters()], lr=1e-2)
dense_optimizer = torch.optim.SGD(head.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
graph = torch.eye(6).to_sparse()
for _ in range(3):
    tokens = torch.randint(0, 50, (6, 4))
    weights = torch.rand(6, 4)
    features = torch.cat([table(tokens).mean(1), bag(tokens, per_sample_weights=weights)], dim=1)
    loss = nn.functional.cross_entropy(head(torch.sparse.mm(graph, features)), torch.randint(0, 4, (6,)))
    sparse_optimizer.zero_grad()
    dense_optimizer.zero_grad()
    loss.backward()
    sparse_optimizer.step()
    dense_optimizer.step()
    degrees = torch.sparse.sum(graph, dim=1).to_dense()
