"""Sequences of many lengths from a loader with its own collate, through cells of an RNN written as a loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Sentences(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.arange(1 + index % 4 + 2) + index, float(index % 2)


def collate(items):
    lengths = torch.tensor([len(tokens) for tokens, _ in items])
    tokens = nn.utils.rnn.pad_sequence([tokens for tokens, _ in items], batch_first=True)
    return tokens, lengths, torch.tensor([label for _, label in items])


table, cell, gates, head = nn.Embedding(20, 6), nn.GRUCell(6, 10), nn.LSTMCell(10, 10), nn.Linear(10, 1)
layers = nn.ModuleList([table, cell, gates, head])
optimizer = torch.optim.Adadelta(layers.parameters())
loader = DataLoader(Sentences(), batch_size=4, shuffle=True, collate_fn=collate, pin_memory=False)
for tokens, lengths, labels in loader:
    vectors = table(tokens)
    hidden, state = torch.zeros(4, 10), None
    for place in range(tokens.shape[1]):
        alive = (place < lengths).unsqueeze(1)
        hidden = torch.where(alive, cell(vectors[:, place], hidden), hidden)
        state = gates(hidden, state)
    packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    loss = nn.functional.soft_margin_loss(head(state[0]).squeeze(1), labels * 2 - 1) + packed.data.square().mean()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
