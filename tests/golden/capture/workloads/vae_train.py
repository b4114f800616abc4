"""A variational autoencoder of images, compiled, float32 with TF32 products and convolutions: strided convolutions down,
a reparametrised sample, transposed convolutions up, binary cross entropy and divergence, a running average of weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, WIDTHS, LATENT, BETA = 128, 128, (64, 128, 256), 256, 4.0
SIDE = SIZE >> len(WIDTHS)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        down: list[nn.Module] = []
        up: list[nn.Module] = []
        for a, b in zip((3, *WIDTHS[:-1]), WIDTHS):
            down += [nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]
        for a, b in zip(WIDTHS[:0:-1], WIDTHS[-2::-1]):
            up += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]
        self.down, self.up = nn.Sequential(*down), nn.Sequential(*up, nn.ConvTranspose2d(WIDTHS[0], 3, 4, 2, 1))
        self.moments = nn.Linear(WIDTHS[-1] * SIDE * SIDE, 2 * LATENT)
        self.open = nn.Linear(LATENT, WIDTHS[-1] * SIDE * SIDE)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.moments(self.down(image).flatten(1)).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        logits = self.up(F.relu(self.open(z)).view(-1, WIDTHS[-1], SIDE, SIDE))
        rebuilt = F.binary_cross_entropy_with_logits(logits, image, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (rebuilt + BETA * divergence) / image.shape[0]


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    model = Autoencoder().cuda()
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    loss_of = torch.compile(model)
    image = torch.rand(BATCH, 3, SIZE, SIZE, device="cuda")

    def step() -> None:
        loss_of(image).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, list(model.parameters()), 1e-3)

    return step
