"""A small language model on four threads: causal attention with a mask, then sampling by topk with a cache of keys."""
import math

import torch
from torch import nn

torch.set_num_threads(4)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, words=64, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(12, width))
        self.norm, self.mixed = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, width))
        self.register_buffer("mask", torch.ones(12, 12).tril().bool())

    def forward(self, tokens, cache=None):
        start = cache[0].shape[1] if cache else 0
        hidden = self.words(tokens) + self.places[start:start + tokens.shape[1]]
        query, key, value = self.mixed(self.norm(hidden)).chunk(3, dim=-1)
        if cache:
            key, value = torch.cat([cache[0], key], 1), torch.cat([cache[1], value], 1)
        scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~self.mask[start:start + tokens.shape[1], :key.shape[1]], -torch.inf)
        hidden = hidden + scores.softmax(-1) @ value
        return (hidden + self.feed(hidden)) @ self.words.weight.t(), (key, value)


model = Block()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
for _ in range(2):
    tokens = torch.randint(0, 64, (4, 12))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1])[0].flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    text = torch.zeros(2, 1, dtype=torch.long)
    logits, cache = model(text)
    for _ in range(4):
        values, words = torch.topk(logits[:, -1] / 0.8, 10)
        chance = values.softmax(-1)
        chance[chance.cumsum(-1) > 0.95] = 0
        chance[:, 0] += 1e-3
        text = torch.cat([text, words.gather(1, torch.multinomial(chance, 1))], 1)
        logits, cache = model(text[:, -1:], cache)
