"""A forecaster of time series, compiled, trained in bfloat16: each series normalised by its own mean and deviation,
unfolded into overlapping patches, a small transformer with batch norm, one linear head, Huber loss, fused AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SERIES, LENGTH, AHEAD, PATCH, STRIDE = 64, 21, 512, 96, 16, 8
WIDTH, HEADS, LAYERS = 256, 8, 2
PATCHES = (LENGTH - PATCH) // STRIDE + 2


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(x.flatten(0, 1))
        return y.view_as(x)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = Norm(), Norm()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(x.shape[0], PATCHES, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = self.n1(x + F.dropout(y, 0.2, self.training))
        return self.n2(x + F.dropout(self.down(F.gelu(self.up(x))), 0.2, self.training))


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(PATCH, WIDTH), nn.Parameter(torch.randn(PATCHES, WIDTH) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(PATCHES * WIDTH, AHEAD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, deviation = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0).add(1e-5).sqrt()
        x = F.pad((x - mean) / deviation, (0, STRIDE), mode="replicate").flatten(0, 1)
        x = self.embed(x.unfold(-1, PATCH, STRIDE).to(self.place.dtype)) + self.place
        for layer in self.layers:
            x = layer(x)
        made: torch.Tensor = self.head(F.dropout(x.flatten(1), 0.2, self.training)).float()
        return made.view(mean.shape[0], mean.shape[1], AHEAD) * deviation + mean


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Forecaster().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    past = torch.randn(BATCH, SERIES, LENGTH, device="cuda").cumsum(-1)
    future = past[..., -1:] + torch.randn(BATCH, SERIES, AHEAD, device="cuda").cumsum(-1)

    @torch.compile
    def loss(past: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
        return F.huber_loss(model(past), future, delta=2.0)

    def step() -> None:
        loss(past, future).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
