"""Eager augmentation of a batch of images on the device: bytes to half precision, flips, rotations by grid sampling,
jitter of brightness, contrast, saturation and hue, a blur, erased boxes, mixing of pairs, posterising, equalising,
resizing, normalisation."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

BATCH, SIDE, CROP, ERASED = 128, 256, 224, 56


def rotate(x: torch.Tensor) -> torch.Tensor:
    angle = (torch.rand(x.shape[0], device=x.device) - 0.5) * math.pi / 4
    size = 0.7 + 0.3 * torch.rand_like(angle)
    cos, sin, zero = angle.cos() * size, angle.sin() * size, torch.zeros_like(angle)
    matrix = torch.stack((cos, -sin, zero, sin, cos, zero), 1).view(-1, 2, 3)
    grid = F.affine_grid(matrix, [x.shape[0], 3, CROP, CROP], align_corners=False).to(x.dtype)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def jitter(x: torch.Tensor) -> torch.Tensor:
    bright, contrast, colour = (0.6 + 0.8 * torch.rand(x.shape[0], 1, 1, 1, device=x.device).half() for _ in range(3))
    x = x * bright
    mean = x.mean((1, 2, 3), keepdim=True)
    x = torch.lerp(mean.expand_as(x), x, contrast)
    grey = (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
    return torch.lerp(grey.expand_as(x), x, colour).clamp(0, 1)


def hue(x: torch.Tensor) -> torch.Tensor:
    """A turn of the two colour axes beside the luma, one product a pixel."""
    turn = (torch.rand(x.shape[0], device=x.device) - 0.5) * 0.4
    into = x.new_tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]]).float()
    cos, sin, zero = turn.cos(), turn.sin(), torch.zeros_like(turn)
    wheel = torch.stack((zero + 1, zero, zero, zero, cos, -sin, zero, sin, cos), 1).view(-1, 3, 3)
    matrix = torch.linalg.inv(into) @ wheel @ into
    return torch.bmm(matrix.to(x.dtype), x.flatten(2)).view_as(x)


def blur(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(-4, 5, device=x.device)
    line = torch.exp(-(place**2) / (2 * 1.5**2))
    line = (line / line.sum()).to(x.dtype)
    x = F.conv2d(F.pad(x, (4, 4, 0, 0), mode="reflect"), line.view(1, 1, 1, 9).repeat(3, 1, 1, 1), groups=3)
    return F.conv2d(F.pad(x, (0, 0, 4, 4), mode="reflect"), line.view(1, 1, 9, 1).repeat(3, 1, 1, 1), groups=3)


def erase(x: torch.Tensor) -> torch.Tensor:
    corner = torch.randint(0, CROP - ERASED, (2, x.shape[0], 1), device=x.device)
    place = torch.arange(CROP, device=x.device)
    rows, columns = ((place >= c) & (place < c + ERASED) for c in corner)
    return x.masked_fill((rows[:, :, None] & columns[:, None])[:, None], 0.5)


def equalise(image: torch.Tensor) -> torch.Tensor:
    """Bytes spread by the cumulative histogram of each image's channel."""
    flat = image.flatten(0, 1).flatten(1).long()
    count = torch.zeros(flat.shape[0], 256, device=image.device).scatter_add_(1, flat, torch.ones_like(flat).float())
    return (count.cumsum(1) * (255 / flat.shape[1])).gather(1, flat).byte().view_as(image)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    image = torch.randint(0, 256, (BATCH, 3, SIDE, SIDE), device="cuda", dtype=torch.uint8)
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1).half()
    deviation = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1).half()

    def step() -> None:
        with torch.no_grad():
            spread = torch.where(torch.rand(BATCH, 1, 1, 1, device="cuda") < 0.2, equalise(image), image)
            x = spread.half() / 255
            x = torch.where(torch.rand(BATCH, 1, 1, 1, device="cuda") < 0.5, x.flip(3), x)
            x = erase(blur(hue(jitter(rotate(x)))))
            few = ((x.float() * 255).byte() & 0xF0).half() / 255
            x = torch.where(torch.rand(BATCH, 1, 1, 1, device="cuda") < 0.1, few, x)
            share = torch.rand(BATCH, 1, 1, 1, device="cuda").half()
            x = torch.lerp(x[torch.randperm(BATCH, device="cuda")], x, share)
            F.interpolate(x.float(), scale_factor=0.5, mode="bicubic", antialias=True)
            ((x - mean) / deviation).contiguous(memory_format=torch.channels_last)

    return step
