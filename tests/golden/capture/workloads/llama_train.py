"""A small decoder-only language model, compiled, trained in bfloat16: RMS norm, rotary, grouped-query causal attention,
SwiGLU, embedding, dropout, a wide vocabulary, fused AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, GROUPS, DEPTH = 32000, 1024, 16, 4, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        d = WIDTH // HEADS
        self.n1, self.n2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.kv = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 2 * GROUPS * d, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, 2816, bias=False), nn.Linear(WIDTH, 2816, bias=False)
        self.down = nn.Linear(2816, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        h = self.n1(x)
        q = self.q(h).view(b, s, HEADS, -1).transpose(1, 2)
        k, v = self.kv(h).view(b, s, 2, GROUPS, -1).permute(2, 0, 3, 1, 4)

        def rotate(t: torch.Tensor) -> torch.Tensor:
            a, c = t.chunk(2, -1)
            return torch.cat((a * cos - c * sin, c * cos + a * sin), -1)

        k, v = (t.repeat_interleave(HEADS // GROUPS, 1) for t in (rotate(k), v))
        y = F.scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
        x = x + F.dropout(self.o(y.transpose(1, 2).reshape(b, s, WIDTH)), 0.1, self.training)
        h = self.n2(x)
        return x + F.dropout(self.down(F.silu(self.gate(h)) * self.up(h)), 0.1, self.training)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        s = ids.shape[1]
        angle = torch.arange(s, device=ids.device)[:, None] * torch.logspace(
            0, -4, WIDTH // HEADS // 2, device=ids.device
        )
        cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), target.flatten())


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Model().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_of = torch.compile(model)
    ids = torch.randint(0, VOCABULARY, (8, 1024), device="cuda")

    def step() -> None:
        loss_of(ids, ids.roll(-1, 1)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
