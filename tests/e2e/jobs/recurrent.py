"""LSTM and GRU over short sequences, both directions, packed and plain."""
import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(32, 16, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(self.gru(hidden)[0])


model = Tagger()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
lengths = torch.tensor([7, 5, 3])
for _ in range(2):
    tokens = torch.randint(0, 50, (3, 7))
    tags = torch.randint(0, 5, (3, 7))
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(tokens, lengths).flatten(0, 1), tags.flatten()).backward()
    optimizer.step()
