"""Inference of a windowed vision transformer in the manner of Swin, compiled, half precision: windows cut by reshapes,
shifted by roll with a mask, a bias by relative place looked up in a table, patches merged between stages."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, WIDTH, WINDOW = 64, 224, 96, 7
HEADS = (3, 6, 12)


def windows(x: torch.Tensor) -> torch.Tensor:
    b, h, w, c = x.shape
    x = x.view(b, h // WINDOW, WINDOW, w // WINDOW, WINDOW, c)
    return x.transpose(2, 3).reshape(-1, WINDOW * WINDOW, c)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, side: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, heads) * 0.02)
        grid = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = grid[:, :, None] - grid[:, None] + WINDOW - 1
        self.register_buffer("place", apart[0] * (2 * WINDOW - 1) + apart[1])
        region = torch.zeros(1, side, side, 1)
        if shift:
            cuts = (slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))
            for i, rows in enumerate(cuts):
                for j, columns in enumerate(cuts):
                    region[:, rows, columns] = 3 * i + j
        ids = windows(region).squeeze(-1)
        self.register_buffer("mask", (ids[:, :, None] != ids[:, None]) * -100.0)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        count, n, c = x.shape
        q, k, v = self.qkv(x).view(count, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        score = score + self.table[self.place].permute(2, 0, 1)
        if self.shift:
            places = self.mask.shape[0]
            score = (score.view(-1, places, self.heads, n, n) + self.mask[:, None]).view(-1, self.heads, n, n)
        return self.out((score.softmax(-1) @ v).transpose(1, 2).reshape(count, n, c))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        y = torch.roll(self.n1(x), (-self.shift, -self.shift), (1, 2)) if self.shift else self.n1(x)
        y = self.attend(windows(y)).view(b, h // WINDOW, w // WINDOW, WINDOW, WINDOW, c)
        y = y.transpose(2, 3).reshape(b, h, w, c)
        x = x + (torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Merge(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (x[:, i::2, j::2] for j in (0, 1) for i in (0, 1))
        return self.reduce(self.norm(torch.cat(tuple(parts), -1)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.norm = nn.LayerNorm(WIDTH)
        stages: list[nn.Module] = []
        for i, heads in enumerate(HEADS):
            width, side = WIDTH << i, SIZE // 4 >> i
            stages += [Merge(width // 2)] if i else []
            stages += [Block(width, heads, side, 0), Block(width, heads, side, WINDOW // 2)]
        self.stages = nn.Sequential(*stages)
        self.last, self.head = nn.LayerNorm(WIDTH << 2), nn.Linear(WIDTH << 2, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stages(self.norm(self.patches(image).permute(0, 2, 3, 1)))
        return self.head(self.last(x).mean((1, 2)))


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.compile(Model().cuda().half().eval())
    image = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda", dtype=torch.float16)

    def step() -> None:
        with torch.inference_mode():
            model(image)

    return step
