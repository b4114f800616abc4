"""A training step of an image super-resolution net, compiled, channels last, float32 with TF32: residual blocks with
channel attention, a pixel shuffle to twice the size, a bilinear skip, Charbonnier and edge losses, Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, WIDTH, BLOCKS = 16, 96, 64, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.squeeze, self.excite = nn.Conv2d(WIDTH, WIDTH // 16, 1), nn.Conv2d(WIDTH // 16, WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.c2(F.relu(self.c1(x)))
        weight = torch.sigmoid(self.excite(F.relu(self.squeeze(h.mean((2, 3), keepdim=True)))))
        return x + h * weight


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.body = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.up, self.tail = nn.Conv2d(WIDTH, 4 * WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.head(x)
        h = F.pixel_shuffle(self.up(h + self.body(h)), 2)
        return self.tail(h) + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    model = SuperResolution().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, fused=True)
    low = torch.rand(BATCH, 3, SIZE, SIZE, device="cuda").to(memory_format=torch.channels_last)
    high = torch.rand(BATCH, 3, 2 * SIZE, 2 * SIZE, device="cuda").to(memory_format=torch.channels_last)

    @torch.compile
    def loss(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        guess = model(low)
        pixel = ((guess - high).pow(2) + 1e-6).sqrt().mean()
        across = (guess.diff(dim=3) - high.diff(dim=3)).abs().mean()
        down = (guess.diff(dim=2) - high.diff(dim=2)).abs().mean()
        return pixel + 0.1 * (across + down)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(low, high).backward()
        optimizer.step()

    return step
