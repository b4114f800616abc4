"""A three-dimensional convolutional network over clips, compiled, float16 autocast with a gradient scaler: residual blocks
with group norm, strides in space and time, a pool over both, dropout, momentum SGD."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, FRAMES, SIZE, WIDTH, CLASSES, GROUPS = 8, 16, 112, 64, 400, 32


class Residual(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv3d(a, b, 3, stride, 1, bias=False), nn.Conv3d(b, b, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.GroupNorm(GROUPS, b), nn.GroupNorm(GROUPS, b)
        self.short = nn.Conv3d(a, b, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.n2(self.c2(F.relu(self.n1(self.c1(x)))))
        return F.relu(y + self.short(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv3d(3, WIDTH, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.norm = nn.GroupNorm(GROUPS, WIDTH)
        self.blocks = nn.Sequential(Residual(WIDTH, WIDTH, 1), Residual(WIDTH, 2 * WIDTH, 2))
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.max_pool3d(F.relu(self.norm(self.stem(clip))), (1, 3, 3), (1, 2, 2), (0, 1, 1)))
        return self.head(F.dropout(x.mean((2, 3, 4)), 0.5, self.training))


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)  # steps that overflow are skipped, and would differ
    forward = torch.compile(model)
    clip = torch.randn(BATCH, 3, FRAMES, SIZE, SIZE, device="cuda")
    label = torch.randint(0, CLASSES, (BATCH,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(forward(clip), label)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    return step
