"""Inference of a convolutional network in the manner of EfficientNet, compiled, half precision, channels last: expansions,
depthwise kernels of three and five, squeeze and excitation, SiLU, batch norm with running statistics."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, CLASSES, STEM, HEAD = 128, 240, 1000, 32, 1280
BLOCKS = (
    # from, to, expansion, kernel, stride
    (32, 16, 1, 3, 1),
    (16, 24, 6, 3, 2),
    (24, 24, 6, 3, 1),
    (24, 40, 6, 5, 2),
    (40, 80, 6, 3, 2),
    (80, 112, 6, 5, 1),
    (112, 192, 6, 5, 2),
)


class Conv(nn.Module):
    def __init__(self, a: int, b: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(b, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


class Inverted(nn.Module):
    def __init__(self, a: int, b: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide, narrow = a * expansion, max(1, a // 4)
        self.expand = Conv(a, wide) if expansion > 1 else None
        self.depthwise = Conv(wide, wide, kernel, stride, groups=wide)
        self.squeeze, self.excite = nn.Conv2d(wide, narrow, 1), nn.Conv2d(narrow, wide, 1)
        self.project = Conv(wide, b)
        self.residual = a == b and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.expand is None else F.silu(self.expand(x))
        y = F.silu(self.depthwise(y))
        gate = self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))
        y = self.project(y * gate.sigmoid())
        return x + y if self.residual else y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv(3, STEM, 3, 2)
        self.blocks = nn.Sequential(*(Inverted(*b) for b in BLOCKS))
        self.last, self.head = Conv(BLOCKS[-1][1], HEAD), nn.Linear(HEAD, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.last(self.blocks(F.silu(self.stem(x)))))
        return self.head(x.mean((2, 3))).softmax(-1)


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.compile(Net().cuda().half().eval().to(memory_format=torch.channels_last))
    image = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda", dtype=torch.float16)
    image = image.to(memory_format=torch.channels_last)

    def step() -> None:
        with torch.no_grad():
            model(image)

    return step
