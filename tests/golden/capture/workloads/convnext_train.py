"""A convolutional network in the manner of ConvNeXt, compiled, channels last, mixed precision: depthwise kernels of seven,
layer norm over channels, pointwise layers as products, layer scale, stochastic depth, label smoothing, foreach AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, WIDTHS, CLASSES = 64, 224, (96, 192, 384), 1000


class Norm(nn.LayerNorm):
    """Layer norm over the channels of NCHW."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))
        self.keep = 1 - drop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
        kept = torch.rand(x.shape[0], 1, 1, 1, device=x.device) < self.keep
        return x + y * kept / self.keep


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        a, b, c = WIDTHS
        self.body = nn.Sequential(
            *(nn.Conv2d(3, a, 4, 4), Norm(a), Block(a, 0.0)),
            *(Norm(a), nn.Conv2d(a, b, 2, 2), Block(b, 0.1)),
            *(Norm(b), nn.Conv2d(b, c, 2, 2), Block(c, 0.2)),
        )
        self.norm, self.head = nn.LayerNorm(c), nn.Linear(c, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.body(x).mean((2, 3))))


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Net().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    forward = torch.compile(model)
    image = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda").to(memory_format=torch.channels_last)
    label = torch.randint(0, CLASSES, (BATCH,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(forward(image), label, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
