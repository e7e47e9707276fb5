"""Two models and two optimizers that take turns in one step."""
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 16))
critic = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
judge = nn.BCEWithLogitsLoss()
for _ in range(3):
    real, noise = torch.randn(10, 16), torch.randn(10, 8)
    fake = generator(noise)
    critic_optimizer.zero_grad()
    loss = judge(critic(real), torch.ones(10, 1)) + judge(critic(fake.detach()), torch.zeros(10, 1))
    loss.backward()
    critic_optimizer.step()
    generator_optimizer.zero_grad()
    judge(critic(fake), torch.ones(10, 1)).backward()
    generator_optimizer.step()
