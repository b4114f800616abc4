"""Prefill of a decoder language model, compiled, bfloat16: RMS norms, rotary positions worked out in float32, grouped
key and value heads written to a static cache and repeated for attention, SwiGLU, logits of each prompt's last token,
one token sampled from the fifty likeliest."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS, GROUPS, HEAD, HIDDEN = 64_000, 2048, 16, 4, 128, 5632
BATCH, LENGTH, ROOM, LAYERS = 4, 1024, 1536, 4


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * HEAD, bias=False) for _ in range(2))
        self.o = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.n1, self.n2 = RMSNorm(), RMSNorm()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(BATCH, GROUPS, ROOM, HEAD), persistent=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        h = self.n1(x)
        q = rotate(self.q(h).view(b, s, HEADS, HEAD).transpose(1, 2), cos, sin)
        k = rotate(self.k(h).view(b, s, GROUPS, HEAD).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, s, GROUPS, HEAD).transpose(1, 2)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        k, v = (t[:, :, None].expand(b, GROUPS, HEADS // GROUPS, s, HEAD).reshape(b, HEADS, s, HEAD) for t in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, -1))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = RMSNorm(), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: torch.Tensor, place: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        rate = 500_000.0 ** (-torch.arange(0, HEAD, 2, device=ids.device).float() / HEAD)
        angle = place.float()[:, None] * rate[None]
        angle = torch.cat((angle, angle), -1)
        x = self.words(ids)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, place)
        x = self.norm(x)[torch.arange(ids.shape[0], device=ids.device), last]
        value, index = (self.head(x).float() / 0.7).topk(50)
        return index.gather(1, torch.multinomial(value.softmax(-1), 1))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Model().cuda().bfloat16().eval()
    ids = torch.randint(0, WORDS, (BATCH, LENGTH), device="cuda")
    place = torch.arange(LENGTH, device="cuda")
    last = torch.randint(LENGTH // 2, LENGTH, (BATCH,), device="cuda")
    compiled = torch.compile(model)

    def step() -> None:
        with torch.no_grad():
            compiled(ids, place, last)

    return step
