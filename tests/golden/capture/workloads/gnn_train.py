"""Eager training of a graph network in float32: attention over incoming edges (rows gathered by edge, the largest score
and the sum of each node scattered, messages added up), then a layer that averages neighbours, over a graph with a few
popular nodes; node labels, Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

NODES, EDGES, INPUT, HEADS, HIDDEN, CLASSES = 60_000, 500_000, 256, 4, 32, 47


class GraphAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(INPUT, HEADS * HIDDEN, bias=False)
        self.source, self.target = (nn.Parameter(torch.randn(HEADS, HIDDEN) * 0.1) for _ in range(2))

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        h = self.project(x).view(-1, HEADS, HIDDEN)
        score = (h * self.source).sum(-1).index_select(0, source) + (h * self.target).sum(-1).index_select(0, target)
        score = F.leaky_relu(score, 0.2)
        with torch.no_grad():
            place = target[:, None].expand_as(score)
            top = score.new_full((x.shape[0], HEADS), -1e9).scatter_reduce(0, place, score, "amax")
        weight = (score - top.index_select(0, target)).exp()
        total = weight.new_zeros(x.shape[0], HEADS).index_add(0, target, weight)
        weight = weight / (total.index_select(0, target) + 1e-16)
        message = h.index_select(0, source) * weight[..., None]
        return F.elu(torch.zeros_like(h).index_add(0, target, message)).flatten(1)


class Neighbours(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.own, self.near = nn.Linear(width, CLASSES), nn.Linear(width, CLASSES, bias=False)

    def forward(
        self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor, degree: torch.Tensor
    ) -> torch.Tensor:
        place = target[:, None].expand(-1, x.shape[1])
        near = torch.zeros_like(x).scatter_add(0, place, x.index_select(0, source)) / degree[:, None]
        return self.own(x) + self.near(near)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    first, second = GraphAttention().cuda(), Neighbours(HEADS * HIDDEN).cuda()
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=5e-3, fused=True)
    x = torch.randn(NODES, INPUT, device="cuda")
    source = (torch.rand(EDGES, device="cuda").pow(2) * NODES).long()
    target = torch.randint(0, NODES, (EDGES,), device="cuda")
    degree = torch.bincount(target, minlength=NODES).clamp(min=1).float()
    label = torch.randint(0, CLASSES, (NODES,), device="cuda")

    def step() -> None:
        h = F.dropout(first(F.dropout(x, 0.2), source, target), 0.5)
        F.cross_entropy(second(h, source, target, degree), label).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
