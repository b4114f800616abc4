"""An encoder-decoder in the manner of T5, compiled, trained in bfloat16: a learnt bias by bucket of distance, unscaled
attention written out with its softmax in float32, cross attention, gated GELU, tied embeddings, fused AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SOURCE, TARGET = 16, 512, 256
VOCABULARY, WIDTH, HEADS, HIDDEN = 32128, 1024, 16, 2816
BUCKETS, REACH = 32, 128


def buckets(length: int, both_sides: bool, device: torch.device) -> torch.Tensor:
    place = torch.arange(length, device=device)
    distance = place[None] - place[:, None]
    count = BUCKETS // 2 if both_sides else BUCKETS
    base = (distance > 0).long() * count if both_sides else torch.zeros_like(distance)
    distance = distance.abs() if both_sides else (-distance).clamp(min=0)
    exact = count // 2
    far = torch.log(distance.float().clamp(min=1) / exact) / math.log(REACH / exact) * (count - exact)
    return base + torch.where(distance < exact, distance, (exact + far.long()).clamp(max=count - 1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
        h = self.norm(x)
        other = h if memory is None else memory
        q, k, v = (
            p(t).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p, t in ((self.q, h), (self.k, other), (self.v, other))
        )
        score = q @ k.transpose(-2, -1)
        if bias is not None:
            score = score + bias
        weight = F.dropout(score.float().softmax(-1).type_as(score), 0.1, self.training)
        return x + F.dropout(self.o((weight @ v).transpose(1, 2).flatten(2)), 0.1, self.training)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        h = F.dropout(F.gelu(self.gate(h), approximate="tanh") * self.up(h), 0.1, self.training)
        return x + F.dropout(self.down(h), 0.1, self.training)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.reads, self.writes, self.crosses = Attention(), Attention(), Attention()
        self.encodes, self.decodes = Gated(), Gated()
        self.encoder_bias, self.decoder_bias = nn.Embedding(BUCKETS, HEADS), nn.Embedding(BUCKETS, HEADS)
        self.n1, self.n2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)

    def forward(self, source: torch.Tensor, target: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        device = source.device
        near = self.encoder_bias(buckets(source.shape[1], True, device)).permute(2, 0, 1)
        padded = (source == 0)[:, None, None].to(near.dtype) * -1e4
        memory = self.n1(self.encodes(self.reads(self.embed(source), None, near + padded)))
        past = self.decoder_bias(buckets(target.shape[1], False, device)).permute(2, 0, 1)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=device).triu(1)
        y = self.writes(self.embed(target), None, past.masked_fill(future, -1e4))
        y = self.n2(self.decodes(self.crosses(y, memory, padded)))
        logits = F.linear(y * WIDTH**-0.5, self.embed.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Model().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_of = torch.compile(model)
    source = torch.randint(0, VOCABULARY, (BATCH, SOURCE), device="cuda")
    target = torch.randint(1, VOCABULARY, (BATCH, TARGET), device="cuda")
    labels = target.roll(-1, 1)
    labels[:, -TARGET // 8 :] = -100

    def step() -> None:
        loss_of(source, target, labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
