"""A small diffusion U-Net step in bfloat16, compiled, channels last: group norm, SiLU, convolutions, self-attention over
pixels, nearest upsampling, skip concatenation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, before), nn.Conv2d(before, after, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(32, after), nn.Conv2d(after, after, 3, padding=1)
        self.time, self.skip = nn.Linear(256, after), nn.Conv2d(before, after, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.c1(F.silu(self.n1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(32, c), nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(y).view(b, h * w, 3, 8, c // 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(4, 128, 3, padding=1)
        self.a, self.down, self.b = Residual(128, 128), nn.Conv2d(128, 256, 3, 2, 1), Residual(256, 256)
        self.middle, self.c = Attention(256), Residual(384, 128)
        self.head = nn.Conv2d(128, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angle = t[:, None] * torch.exp(torch.arange(128, device=x.device) * -0.07)
        t = torch.cat((angle.sin(), angle.cos()), 1).to(x.dtype)
        first = self.a(self.stem(x), t)
        low = self.middle(self.b(self.down(first), t))
        return self.head(self.c(torch.cat((first, F.interpolate(low, scale_factor=2.0)), 1), t))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = torch.compile(Net().cuda().bfloat16().eval().to(memory_format=torch.channels_last))
    x = torch.randn(16, 4, 64, 64, device="cuda").bfloat16().to(memory_format=torch.channels_last)
    t = torch.rand(16, device="cuda") * 1000

    def step() -> None:
        with torch.no_grad():
            x.sub_(0.01 * model(x, t))

    return step
