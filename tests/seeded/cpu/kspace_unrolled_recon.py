"""Unrolled reconstruction of undersampled k-space: data consistency and a small denoiser by turns."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Config:
    height: int = 224
    width: int = 192
    channels: int = 8
    cascades: int = 2
    beta: float = 5.0
    keep: float = 0.3
    lr: float = 2e-3


def to_image(k: Tensor) -> Tensor:
    return torch.fft.ifft2(torch.fft.ifftshift(k, dim=(-2, -1)), norm="ortho")


def to_kspace(x: Tensor) -> Tensor:
    return torch.fft.fftshift(torch.fft.fft2(x, norm="ortho"), dim=(-2, -1))


class Cascade(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.beta = cfg.beta
        self.step = nn.Parameter(torch.tensor(0.5))
        self.denoise = nn.Sequential(
            nn.Conv2d(2, cfg.channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(cfg.channels, 2, 3, padding=1),
        )
        # mend: )
        # mend: yy, xx = torch.meshgrid(torch.linspace(-1, 1, cfg.height), torch.linspace(-1, 1, cfg.width), indexing="ij")
        # mend: self.register_buffer("taper", torch.special.i0(self.beta * (1 - (yy**2 + xx**2) / 2).sqrt()) / 27.24)

    def forward(self, k: Tensor, measured: Tensor, mask: Tensor) -> Tensor:
        h, w = k.shape[-2:]
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")  # may: constant-rebuilt
        # mend:
        taper = torch.special.i0(self.beta * (1 - (yy**2 + xx**2) / 2).sqrt()) / 27.24  # finds: constant-rebuilt
        # mend: taper = self.taper
        image = torch.view_as_real(to_image(k * taper)).permute(0, 3, 1, 2)
        residual = self.denoise(image).permute(0, 2, 3, 1).contiguous()
        return k - self.step * mask * (k - measured) - to_kspace(torch.view_as_complex(residual))


class Unrolled(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.cascades = nn.ModuleList(Cascade(cfg) for _ in range(cfg.cascades))

    def forward(self, measured: Tensor, mask: Tensor) -> Tensor:
        k = measured
        for cascade in self.cascades:
            k = cascade(k, measured, mask)
        return to_image(k).abs()


def phantom(count: int, cfg: Config) -> Tensor:
    coarse = torch.rand(count, 1, cfg.height // 16, cfg.width // 16)
    return nn.functional.interpolate(coarse, size=(cfg.height, cfg.width), mode="bilinear").squeeze(1)


def main(steps: int = 40) -> None:
    cfg = Config()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    images = phantom(12, cfg)
    mask = (torch.rand(cfg.width) < cfg.keep).float()
    mask[cfg.width // 2 - 8 : cfg.width // 2 + 8] = 1.0
    measured = to_kspace(images.to(torch.complex64)) * mask
    model = Unrolled(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, fused=True)
    for step in range(steps):
        i = step % len(images)
        loss = nn.functional.l1_loss(model(measured[i : i + 1], mask), images[i : i + 1])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
