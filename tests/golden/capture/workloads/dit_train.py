"""A training step of a diffusion transformer over image latents, compiled, TF32 products: patches, sinusoidal time
and class embeddings, blocks modulated by them (adaptive layer norm), noise predicted, AdamW, moving average of weights."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LATENT, CHANNELS, PATCH, CLASSES, BATCH, DEPTH = 1024, 16, 32, 4, 2, 1000, 48, 1
TOKENS = (LATENT // PATCH) ** 2


def modulate(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * (1 + scale[:, None]) + shift[:, None]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = (nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.condition = nn.Linear(WIDTH, 6 * WIDTH)

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        shift1, scale1, gate1, shift2, scale2, gate2 = self.condition(F.silu(c)).chunk(6, 1)
        q, k, v = self.qkv(modulate(self.n1(x), shift1, scale1)).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, WIDTH)
        x = x + gate1[:, None] * self.out(attended)
        h = F.gelu(self.up(modulate(self.n2(x), shift2, scale2)), approximate="tanh")
        return x + gate2[:, None] * self.down(h)


class DiT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(CHANNELS * PATCH * PATCH, WIDTH)
        self.place = nn.Parameter(torch.randn(TOKENS, WIDTH) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.label = nn.Embedding(CLASSES + 1, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.condition, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, CHANNELS * PATCH * PATCH)

    def forward(self, image: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        b, n = image.shape[0], LATENT // PATCH
        x = image.view(b, CHANNELS, n, PATCH, n, PATCH).permute(0, 2, 4, 1, 3, 5).reshape(b, n * n, -1)
        x = self.patch(x) + self.place
        rate = torch.exp(-math.log(10_000) * torch.arange(128, device=t.device) / 128)
        angle = t[:, None] * rate[None]
        c = self.time(torch.cat((angle.cos(), angle.sin()), -1)) + self.label(y)
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.condition(F.silu(c)).chunk(2, 1)
        x = self.out(modulate(self.norm(x), shift, scale)).view(b, n, n, CHANNELS, PATCH, PATCH)
        return x.permute(0, 3, 1, 4, 2, 5).reshape(b, CHANNELS, LATENT, LATENT)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = DiT().cuda()
    parameters = list(model.parameters())
    average = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.0, fused=True)
    latent = torch.randn(BATCH, CHANNELS, LATENT, LATENT, device="cuda")
    label = torch.randint(0, CLASSES, (BATCH,), device="cuda")
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device="cuda"), 0)

    @torch.compile
    def loss(latent: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        t = torch.randint(0, 1000, (latent.shape[0],), device=latent.device)
        noise = torch.randn_like(latent)
        a = kept[t][:, None, None, None]
        noisy = a.sqrt() * latent + (1 - a).sqrt() * noise
        y = torch.where(torch.rand(label.shape, device=label.device) < 0.1, CLASSES, label)
        return F.mse_loss(model(noisy, t.float(), y).float(), noise)

    def step() -> None:
        loss(latent, label).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 1e-4)

    return step
