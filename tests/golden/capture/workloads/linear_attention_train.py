"""A training step of a language model with linear attention, compiled, bfloat16 weights: tokens mixed with the one
before, retention over chunks (decay inside a chunk, states carried between chunks), group norm, swish gate, squared
rectifier, next-word loss, AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS, HEAD, BATCH, LENGTH, CHUNK, LAYERS = 16_000, 1024, 8, 128, 4, 1024, 128, 1
CHUNKS = LENGTH // CHUNK


def before(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 1, -1))


class TimeMix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.group = nn.LayerNorm(WIDTH), nn.GroupNorm(HEADS, WIDTH)
        self.mix = nn.Parameter(torch.rand(WIDTH))
        self.qkv, self.gate = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        rate = torch.log(1 - 2.0 ** (-5 - torch.arange(HEADS).float()))
        place, chunk = torch.arange(CHUNK), torch.arange(CHUNKS)
        gap, step = place[:, None] - place[None], chunk[:, None] - chunk[None] - 1
        within = torch.where(gap >= 0, (gap * rate[:, None, None]).exp(), 0.0)
        between = torch.where(step >= 0, (step * CHUNK * rate[:, None, None]).exp(), 0.0)
        self.register_buffer("within", within)
        self.register_buffer("between", between)
        self.register_buffer("inward", ((CHUNK - 1 - place) * rate[:, None]).exp()[..., None])
        self.register_buffer("outward", ((place + 1) * rate[:, None]).exp()[..., None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        h = self.norm(x)
        h = torch.lerp(before(h), h, self.mix)
        q, k, v = self.qkv(h).view(b, CHUNKS, CHUNK, 3, HEADS, HEAD).unbind(3)
        q, k, v = (t.transpose(2, 3) for t in (q * HEAD**-0.5, k, v))
        inside = (q @ k.transpose(-2, -1) * self.within) @ v
        state = (k * self.inward).transpose(-2, -1) @ v
        state = torch.einsum("hcd,bdhkv->bchkv", self.between, state)
        mixed = inside + (q * self.outward) @ state
        mixed = self.group(mixed.transpose(2, 3).reshape(b * s, WIDTH)).view(b, s, WIDTH)
        return x + self.out(mixed * F.silu(self.gate(h)))


class ChannelMix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Parameter(torch.rand(WIDTH))
        self.key, self.value = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.receive = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        h = torch.lerp(before(h), h, self.mix)
        return x + torch.sigmoid(self.receive(h)) * self.value(F.relu(self.key(h)).square())


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(WORDS, WIDTH),
        nn.LayerNorm(WIDTH),
        *(part() for _ in range(LAYERS) for part in (TimeMix, ChannelMix)),
        nn.LayerNorm(WIDTH),
        nn.Linear(WIDTH, WORDS, bias=False),
    )
    model = model.cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.99), weight_decay=0.01, fused=True)
    text = torch.randint(0, WORDS, (BATCH, LENGTH + 1), device="cuda")

    @torch.compile
    def loss(text: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(text[:, :-1]).float().flatten(0, 1), text[:, 1:].flatten())

    def step() -> None:
        loss(text).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
