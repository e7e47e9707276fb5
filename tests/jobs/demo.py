"""A small language model that trains for ever on made-up text: the job of `make demo`."""
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WORDS, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 512, 128, 4, 3, 64, 8
STEPS_PER_SECOND = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def attend(self, x):
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.out((scores.masked_fill(mask, float("-inf")).softmax(-1) @ value).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks[:-1]:
            x = checkpoint(block, x)
        return self.head(self.blocks[-1](x))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    step = 0
    while True:
        start = time.perf_counter()
        tokens = (torch.arange(LENGTH + 1) * torch.randint(1, 9, (BATCH, 1))) % WORDS
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step}: loss {loss.item():.3f}", flush=True)
        time.sleep(max(0.0, 1 / STEPS_PER_SECOND - (time.perf_counter() - start)))


if __name__ == "__main__":
    main()
