"""A GAN of images: ConvTranspose, GroupNorm, InstanceNorm, spectral norm, detach, gradient penalty, two optimizers."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)
generator = nn.Sequential(
    nn.ConvTranspose2d(6, 8, 4), nn.GroupNorm(2, 8), nn.SiLU(),
    nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1), nn.Tanh())
critic = nn.Sequential(
    spectral_norm(nn.Conv2d(1, 8, 3, stride=2)), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.2), nn.Flatten(),
    spectral_norm(nn.Linear(72, 1)))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
critic_optimizer = torch.optim.NAdam(critic.parameters(), lr=1e-3)


def penalty(real, fake):
    share = torch.rand(len(real), 1, 1, 1)
    mixed = torch.lerp(real, fake, share).requires_grad_()
    slope, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    return (slope.flatten(1).norm(2, dim=1) - 1).square().mean()


for _ in range(2):
    real = torch.randn(4, 1, 8, 8)
    fake = generator(torch.randn(4, 6, 1, 1))
    critic_optimizer.zero_grad(set_to_none=True)
    loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty(real, fake.detach())
    loss.backward()
    critic_optimizer.step()
    for parameter in critic.parameters():
        parameter.requires_grad_(False)
    generator_optimizer.zero_grad(set_to_none=True)
    (-critic(fake).mean()).backward()
    generator_optimizer.step()
    for parameter in critic.parameters():
        parameter.requires_grad_(True)
