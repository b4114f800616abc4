"""Training of a small denoiser, compiled, bfloat16, channels last: noise drawn and mixed by a schedule, time embedding,
group norm with scale and shift, SiLU, 3x3 convolutions, attention over pixels, squared error, a running average of the
weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, CHANNELS, SIZE, STEPS = 16, 192, 64, 1000


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, CHANNELS), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.n2, self.c2 = nn.GroupNorm(32, CHANNELS), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.time = nn.Linear(256, 2 * CHANNELS)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
        h = self.c1(F.silu(self.n1(x)))
        h = F.silu(self.n2(h) * (1 + scale) + shift)
        return x + self.c2(F.dropout(h, 0.1, self.training))


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(4, CHANNELS, 3, padding=1), nn.Conv2d(CHANNELS, 4, 3, padding=1)
        self.first = Residual()
        self.halve = nn.Conv2d(CHANNELS, CHANNELS, 3, 2, 1, bias=False)
        self.qkv, self.out = nn.Linear(CHANNELS, 3 * CHANNELS, bias=False), nn.Linear(CHANNELS, CHANNELS, bias=False)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angle = t[:, None] * torch.exp(torch.arange(128, device=x.device) * (-9.21 / 128))
        first = self.first(self.stem(x), torch.cat((angle.sin(), angle.cos()), 1).to(x.dtype))
        low = self.halve(first)
        b, c, h, w = low.shape
        q, k, v = self.qkv(low.flatten(2).transpose(1, 2)).view(b, h * w, 3, 6, c // 6).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        low = low + self.out(y).transpose(1, 2).reshape(b, c, h, w)
        return self.head(F.silu(first + F.interpolate(low, scale_factor=2.0, mode="bilinear")))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Denoiser().cuda().bfloat16().to(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    average = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    kept = torch.linspace(1, 0.01, STEPS, device="cuda")
    clean = torch.randn(BATCH, 4, SIZE, SIZE, device="cuda").bfloat16().to(memory_format=torch.channels_last)

    @torch.compile
    def loss_of(clean: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        noise = torch.randn_like(clean)
        share = kept[t][:, None, None, None]
        noisy = (share.sqrt() * clean + (1 - share).sqrt() * noise).to(clean.dtype)
        return F.mse_loss(model(noisy, t).float(), noise.float())

    def step() -> None:
        loss_of(clean, torch.randint(0, STEPS, (BATCH,), device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 0.001)

    return step
