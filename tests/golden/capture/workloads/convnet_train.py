"""A residual convolutional network, channels last, mixed precision, momentum SGD: strided, depthwise, grouped and
transposed convolutions, batch and group norm, pooling, upsampling; forward and backward, compiled."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, c: int, groups: int = 1) -> None:
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, groups=groups, bias=False)
        self.b = nn.Conv2d(c, c, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c), nn.GroupNorm(16, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + self.nb(self.b(F.relu(self.na(self.a(x))))), approximate="tanh")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.one = Residual(64)
        self.down = nn.Conv2d(64, 192, 3, stride=2, padding=1)
        self.two = Residual(192, groups=192)
        self.three = Residual(192, groups=4)
        self.up = nn.ConvTranspose2d(192, 64, 2, stride=2)
        self.head = nn.Linear(64, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.one(F.max_pool2d(F.silu(self.stem(x)), 3, 2, 1))
        y = self.three(self.two(self.down(x)))
        y = F.interpolate(F.avg_pool2d(self.up(y), 2), scale_factor=2.0, mode="bilinear")
        return self.head((x + y).mean((2, 3)))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Net().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    forward = torch.compile(model)
    x = torch.randn(16, 3, 128, 128, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 100, (16,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
