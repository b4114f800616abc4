"""A generative adversarial network over small images, generator and discriminator compiled, bfloat16 autocast: classes
embedded beside noise, nearest upsampling and transposed convolutions with batch norm, strided convolutions with leaky
ReLU, the hinge loss, one fused Adam each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, NOISE, WIDTH, CLASSES = 512, 128, 256, 10


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.label, self.front = nn.Embedding(CLASSES, NOISE), nn.Linear(2 * NOISE, WIDTH * 16)
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.second = nn.ConvTranspose2d(WIDTH, WIDTH // 2, 4, 2, 1, bias=False)
        self.third = nn.ConvTranspose2d(WIDTH // 2, 3, 4, 2, 1)
        self.n1, self.n2 = nn.BatchNorm2d(WIDTH), nn.BatchNorm2d(WIDTH // 2)

    def forward(self, noise: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = self.front(torch.cat((noise, self.label(label)), 1)).view(-1, WIDTH, 4, 4)
        x = F.relu(self.n1(self.first(F.interpolate(x, scale_factor=2.0))))
        return torch.tanh(self.third(F.relu(self.n2(self.second(x)))))


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH // 2, 3, padding=1)
        self.second, self.third = nn.Conv2d(WIDTH // 2, WIDTH, 4, 2, 1), nn.Conv2d(WIDTH, WIDTH, 4, 2, 1)
        self.score, self.label = nn.Linear(WIDTH, 1), nn.Embedding(CLASSES, WIDTH)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(self.first(image), 0.2)
        x = F.leaky_relu(self.third(F.leaky_relu(self.second(x), 0.2)), 0.2).sum((2, 3))
        return self.score(x)[:, 0] + (self.label(label) * x).sum(1)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    generator, discriminator = Generator().cuda(), Discriminator().cuda()
    makes = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.0, 0.9), fused=True)
    judges = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.0, 0.9), fused=True)
    make, judge = torch.compile(generator), torch.compile(discriminator)
    real = torch.rand(BATCH, 3, 32, 32, device="cuda") * 2 - 1
    label = torch.randint(0, CLASSES, (BATCH,), device="cuda")

    def step() -> None:
        noise = torch.randn(BATCH, NOISE, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            fake = make(noise, label)
            score = judge(torch.cat((real, fake.detach().float())), torch.cat((label, label))).float()
            loss = F.relu(1 - score[:BATCH]).mean() + F.relu(1 + score[BATCH:]).mean()
        loss.backward()
        judges.step()
        judges.zero_grad(set_to_none=True)
        discriminator.requires_grad_(False)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = -judge(fake.float(), label).float().mean()
        loss.backward()
        makes.step()
        makes.zero_grad(set_to_none=True)
        discriminator.requires_grad_(True)

    return step
