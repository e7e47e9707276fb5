"""Convolutions of every kind, pooling, resampling, skip connections, normalizations."""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.mixed = nn.utils.weight_norm(nn.Conv2d(8, 8, 1))
        self.norms = nn.ModuleList([nn.InstanceNorm2d(8, affine=True), nn.GroupNorm(2, 8)])
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.volume = nn.Conv3d(1, 2, 3, padding=1)
        self.slope = nn.PReLU(8)

    def forward(self, x):
        y = self.slope(self.down(x))
        y = y + self.norms[0](self.mixed(self.depth(y)))
        y = self.norms[1](F.avg_pool2d(y, 2))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        y = F.max_pool2d(self.up(y), 2)
        return F.adaptive_max_pool2d(y, 2).flatten(1), self.volume(x.unsqueeze(1)).mean()


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, nesterov=True, momentum=0.9, weight_decay=1e-4)
for _ in range(2):
    optimizer.zero_grad(set_to_none=True)
    features, extra = model(torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last))
    (features.log_softmax(-1).mean() + extra).backward()
    optimizer.step()
