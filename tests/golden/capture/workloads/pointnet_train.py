"""A point cloud classifier, compiled, trained in float32 with TF32 products: nearest neighbours by distance, edges
gathered, shared perceptrons with batch norm, the largest over neighbours and over points, label smoothing, SGD."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

CLOUDS, POINTS, NEAR, CLASSES = 16, 2048, 16, 40


class Shared(nn.Module):
    """A linear layer, batch norm and leaky ReLU that every point shares; channels last."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, out, bias=False), nn.BatchNorm1d(out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x.flatten(0, -2))
        return F.leaky_relu(self.norm(y), 0.2).view(*x.shape[:-1], -1)


def edges(x: torch.Tensor) -> torch.Tensor:
    """Each point's nearest points less the point, and the point: (clouds, points, NEAR, 2 x width)."""
    with torch.no_grad():
        square = x.square().sum(-1)
        distance = square[:, :, None] + square[:, None] - 2 * x @ x.transpose(1, 2)
        near = distance.topk(NEAR, dim=-1, largest=False).indices
    width = x.shape[-1]
    there = x.gather(1, near.flatten(1)[..., None].expand(-1, -1, width)).unflatten(1, (-1, NEAR))
    here = x[:, :, None].expand_as(there)
    return torch.cat((there - here, here), -1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Shared(6, 64), Shared(64, 64), Shared(128, 128)
        self.wide = Shared(192, 1024)
        self.hidden, self.norm, self.head = nn.Linear(2048, 512), nn.BatchNorm1d(512), nn.Linear(512, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = self.second(self.first(edges(x))).amax(2)
        two = self.third(edges(one)).amax(2)
        y = self.wide(torch.cat((one, two), -1))
        pooled = torch.cat((y.max(1).values, y.mean(1)), -1)
        return self.head(F.dropout(F.leaky_relu(self.norm(self.hidden(pooled)), 0.2), 0.5, self.training))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    classify = torch.compile(model)
    cloud = torch.randn(CLOUDS, POINTS, 3, device="cuda")
    label = torch.randint(0, CLASSES, (CLOUDS,), device="cuda")

    def step() -> None:
        turned = cloud * (torch.rand(CLOUDS, 1, 3, device="cuda") * 0.8 + 0.6)
        F.cross_entropy(classify(turned), label, label_smoothing=0.2).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
