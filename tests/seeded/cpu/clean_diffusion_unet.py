"""A step of denoising diffusion: a small U-Net, a table of noise, a moving average of the weights."""
import math

import torch
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, inp: int, out: int, emb: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inp), nn.Conv2d(inp, out, 3, padding=1)
        self.emb = nn.Linear(emb, out)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(inp, out, 1) if inp != out else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.conv1(nn.functional.silu(self.norm1(x)))
        h = h + self.emb(nn.functional.silu(t))[:, :, None, None]
        return self.conv2(nn.functional.silu(self.norm2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        half = width // 2
        self.register_buffer("freqs", torch.exp(-math.log(10_000) * torch.arange(half) / half))
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.down1, self.down2 = ResBlock(width, width, 4 * width), ResBlock(width, 2 * width, 4 * width)
        self.pool1, self.pool2 = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.mid = ResBlock(2 * width, 2 * width, 4 * width)
        self.up2, self.up1 = ResBlock(4 * width, width, 4 * width), ResBlock(2 * width, width, 4 * width)
        self.out = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angle = t[:, None] * self.freqs
        emb = self.time(torch.cat([angle.sin(), angle.cos()], dim=-1))
        h1 = self.down1(self.inp(x), emb)
        h2 = self.down2(self.pool1(h1), emb)
        h = self.mid(self.pool2(h2), emb)
        h = self.up2(torch.cat([nn.functional.interpolate(h, scale_factor=2.0), h2], 1), emb)
        h = self.up1(torch.cat([nn.functional.interpolate(h, scale_factor=2.0), h1], 1), emb)
        return self.out(h)


class Average:
    """Exponential moving average, all tensors in one call."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.weights = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.weights]
        self.decay = decay

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self.shadow, self.weights, 1.0 - self.decay)


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = UNet()
    average = Average(model, 0.999)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    alphas = torch.cumprod(1.0 - torch.linspace(1e-4, 0.02, 1000), 0)
    images = torch.randn(128, 3, 32, 32)
    for step in range(steps):
        x = images[step % 16 * 8 : step % 16 * 8 + 8]
        t = torch.randint(1000, (8,))
        noise = torch.randn_like(x)
        a = alphas[t].view(-1, 1, 1, 1)
        loss = nn.functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        average.update()


if __name__ == "__main__":
    main()
