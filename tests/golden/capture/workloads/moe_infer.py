"""Prefill of a decoder with mixtures of experts, compiled, bfloat16: RMS norm, rotary, grouped-query attention, a router
that picks two of eight experts, a running count that gives each token its place, scatter into buffers of fixed capacity,
batched SwiGLU experts, gather and weighted sum."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, GROUPS, DEPTH = 2, 2048, 1024, 16, 4, 2
EXPERTS, CHOSEN, HIDDEN = 8, 2, 2048
CAPACITY = BATCH * LENGTH * CHOSEN // EXPERTS * 5 // 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        d = WIDTH // HEADS
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * d, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, HEADS + 2 * GROUPS, -1).transpose(1, 2).split([HEADS, GROUPS, GROUPS], 1)

        def rotate(t: torch.Tensor) -> torch.Tensor:
            even, odd = t.float().unflatten(-1, (-1, 2)).unbind(-1)
            cos, sin = turn
            return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2).type_as(t)

        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(b, s, WIDTH))


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * HIDDEN) * 0.02)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, expert = self.router(x).float().softmax(-1).topk(CHOSEN, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        expert = expert.flatten()
        count = F.one_hot(expert, EXPERTS).cumsum(0)
        place = count.gather(1, expert[:, None])[:, 0] - 1
        kept = place < CAPACITY
        # What exceeds the capacity of its expert goes to a row of its own, which no expert reads.
        slot = torch.where(kept, expert * CAPACITY + place, EXPERTS * CAPACITY)
        token = torch.arange(x.shape[0], device=x.device).repeat_interleave(CHOSEN)
        buffer = x.new_zeros(EXPERTS * CAPACITY + 1, WIDTH).index_put((slot,), x[token])
        gate, up = torch.bmm(buffer[:-1].view(EXPERTS, CAPACITY, WIDTH), self.gate_up).chunk(2, -1)
        done = torch.bmm(F.silu(gate) * up, self.down).flatten(0, 1)
        back = done[slot.clamp(max=EXPERTS * CAPACITY - 1)] * (kept * weight.flatten()).to(x.dtype)[:, None]
        return back.view(-1, CHOSEN, WIDTH).sum(1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32000, WIDTH)
        self.attention = nn.ModuleList(Attention() for _ in range(DEPTH))
        self.mixtures = nn.ModuleList(Mixture() for _ in range(DEPTH))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2 * DEPTH + 1))
        self.head = nn.Linear(WIDTH, 32000, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        b, s = ids.shape
        rate = 10000.0 ** -torch.linspace(0, 1, WIDTH // HEADS // 2, device=ids.device)
        angle = torch.arange(s, device=ids.device)[:, None] * rate
        turn = angle.cos(), angle.sin()
        x = self.embed(ids)
        for i, (attention, mixture) in enumerate(zip(self.attention, self.mixtures)):
            x = x + attention(self.norms[2 * i](x), turn)
            x = x + mixture(self.norms[2 * i + 1](x).flatten(0, 1)).view(b, s, WIDTH)
        return self.head(self.norms[-1](x[:, -1])).float().argmax(-1)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = torch.compile(Model().cuda().bfloat16().eval())
    ids = torch.randint(0, 32000, (BATCH, LENGTH), device="cuda")

    def step() -> None:
        with torch.no_grad():
            model(ids)

    return step
