"""Transformer layers with masks and dropout, tied weights and several losses."""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Translator(nn.Module):
    def __init__(self, words=60, width=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.core = nn.Transformer(width, 2, 1, 1, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, source, target):
        mask = self.core.generate_square_subsequent_mask(target.shape[1])
        padding = source == 0
        return self.head(self.core(self.embedding(source), self.embedding(target), tgt_mask=mask,
                                   src_key_padding_mask=padding))


model = Translator()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    source, target = torch.randint(0, 60, (2, 9)), torch.randint(1, 60, (2, 7))
    logits = model(source, target[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)
    loss = loss + F.kl_div(logits.log_softmax(-1), torch.full_like(logits, 1 / 60), reduction="batchmean")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
