"""bfloat16 autocast around convolution, normalization and attention, with its weight cache."""
import torch
from torch import nn

torch.manual_seed(0)


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.norm = nn.GroupNorm(4, 16)
        self.qkv = nn.Linear(16, 48)
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        x = self.norm(self.patches(images).float()).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v
        return self.head(x.mean(1))


model = Vision()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images).float() + model(images).float(), labels)
    loss.backward()
    optimizer.step()
