"""A vocoder trained against a fixed discriminator, compiled, float32 with TF32 products: transposed one-dimensional
convolutions with dilated residual blocks and leaky ReLU, L1 of the wave, feature and least-squares losses, AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, BANDS, FRAMES, WIDTH, RATE = 16, 80, 64, 256, 16


class Residual(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, 7, padding=3 * dilation, dilation=dilation)
        self.second = nn.Conv1d(width, width, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(F.leaky_relu(self.first(F.leaky_relu(x, 0.1)), 0.1))


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(BANDS, WIDTH, 7, padding=3)
        self.ups = nn.ModuleList(nn.ConvTranspose1d(w, w // 2, 2 * RATE, RATE, RATE // 2) for w in (WIDTH, WIDTH // 2))
        self.blocks = nn.ModuleList(Residual(w, d) for w, d in ((WIDTH // 2, 3), (WIDTH // 4, 5)))
        self.back = nn.Conv1d(WIDTH // 4, 1, 7, padding=3)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = self.front(mel)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = block(up(F.leaky_relu(x, 0.1)))
        return torch.tanh(self.back(F.leaky_relu(x, 0.1)))


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.Conv1d(1, 128, 15, 2, 7), nn.Conv1d(128, 256, 41, 4, 20, groups=4)))
        self.score = nn.Conv1d(256, 1, 3, padding=1)

    def forward(self, wave: torch.Tensor) -> list[torch.Tensor]:
        features = []
        for layer in self.layers:
            wave = F.leaky_relu(layer(wave), 0.1)
            features.append(wave)
        return [*features, self.score(wave)]


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    generator, discriminator = Generator().cuda(), Discriminator().cuda().requires_grad_(False)
    optimizer = torch.optim.AdamW(generator.parameters(), lr=2e-4, betas=(0.8, 0.99), fused=True)
    mel = torch.randn(BATCH, BANDS, FRAMES, device="cuda")
    wave = torch.rand(BATCH, 1, FRAMES * RATE**2, device="cuda") * 2 - 1

    @torch.compile
    def loss(mel: torch.Tensor, wave: torch.Tensor) -> torch.Tensor:
        made = generator(mel)
        with torch.no_grad():
            real = discriminator(wave)
        fake = discriminator(made)
        features = sum((F.l1_loss(a, b) for a, b in zip(fake[:-1], real[:-1], strict=True)), made.new_zeros(()))
        return 45 * F.l1_loss(made, wave) + 2 * features + (fake[-1] - 1).square().mean()

    def step() -> None:
        loss(mel, wave).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
