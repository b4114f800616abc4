"""Inference of a short bottleneck ResNet in half precision, channels last, compiled with frozen weights, which folds the
batch norms into the convolutions: 7x7 stem, max pool, 1x1 and 3x3 convolutions, grouped ones, squeeze and excitation,
average pool, classifier, softmax and the five best classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE = 64, 224


def unit(before: int, after: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after))


class Bottleneck(nn.Module):
    def __init__(self, before: int, width: int, stride: int = 1, groups: int = 1, squeeze: bool = False) -> None:
        super().__init__()
        after = 4 * width
        self.a, self.b = unit(before, width, 1), unit(width, width, 3, stride, groups)
        self.c = unit(width, after, 1)
        self.skip = unit(before, after, 1, stride) if before != after else nn.Identity()
        self.gate = nn.Sequential(nn.Linear(after, 64), nn.ReLU(), nn.Linear(64, after)) if squeeze else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.c(F.relu(self.b(F.relu(self.a(x)))))
        if self.gate is not None:
            y = y * torch.sigmoid(self.gate(y.mean((2, 3))))[:, :, None, None]
        return F.relu(y + self.skip(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = unit(3, 64, 7, 2)
        self.blocks = nn.Sequential(
            Bottleneck(64, 64),
            Bottleneck(256, 64, squeeze=True),
            Bottleneck(256, 128, 2),
            Bottleneck(512, 128, groups=32),
            Bottleneck(512, 256, 2, squeeze=True),
        )
        self.head = nn.Linear(1024, 1000)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = (x / 255.0 - 0.45) / 0.225
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        best = self.head(self.blocks(x).mean((2, 3))).float().softmax(-1).topk(5)
        return best.values, best.indices


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    net = Net().cuda().half().eval().to(memory_format=torch.channels_last)
    model = torch.compile(net, options={"freezing": True})
    x = torch.rand(BATCH, 3, SIZE, SIZE, device="cuda").half().mul(255).to(memory_format=torch.channels_last)

    def step() -> None:
        with torch.no_grad():
            model(x)

    return step
