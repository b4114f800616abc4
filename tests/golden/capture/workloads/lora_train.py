"""Low-rank adapters on a frozen bfloat16 decoder, compiled a block at a time, checkpointed by hand: blocks run without
gradients and keep their inputs, then again, last first, with gradients; adapters in float32, fused AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS, HIDDEN, DEPTH = 4, 1024, 32000, 2048, 16, 5632, 2
RANK, SCALE = 16, 2.0


class Frozen(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(b, a, dtype=torch.bfloat16) * a**-0.5, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight)


class Adapted(Frozen):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)
        self.down = nn.Parameter(torch.randn(RANK, a) * a**-0.5)
        self.up = nn.Parameter(torch.zeros(b, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = F.linear(x, self.down.to(x.dtype))
        return F.linear(x, self.weight) + F.linear(low, self.up.to(x.dtype)) * SCALE


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        return (y * (y.square().mean(-1, keepdim=True) + 1e-5).rsqrt()).type_as(x) * self.weight


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = Norm(), Norm()
        self.qkv, self.o = Adapted(WIDTH, 3 * WIDTH), Frozen(WIDTH, WIDTH)
        self.gate, self.up, self.down = Frozen(WIDTH, HIDDEN), Frozen(WIDTH, HIDDEN), Frozen(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.n1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        cos, sin = turn.unbind(0)
        q, k = (t * cos + torch.cat((-t.chunk(2, -1)[1], t.chunk(2, -1)[0]), -1) * sin for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block() for _ in range(DEPTH)).cuda()
    norm, head = Norm().cuda(), Frozen(WIDTH, VOCABULARY).cuda()
    words = torch.randn(VOCABULARY, WIDTH, device="cuda", dtype=torch.bfloat16)
    adapters = [p for p in blocks.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=2e-4, fused=True)
    half = WIDTH // HEADS // 2
    angle = torch.arange(LENGTH, device="cuda")[:, None] * 1e4 ** -torch.linspace(0, 1, half, device="cuda")
    turn = torch.stack((angle.cos(), angle.sin())).repeat(1, 1, 2).bfloat16()
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda")
    target = ids.roll(-1, 1).flatten()
    forwards = [torch.compile(block) for block in blocks]

    @torch.compile
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(head(norm(x)).float().flatten(0, 1), target)

    def step() -> None:
        x, entries = F.embedding(ids, words), []
        with torch.no_grad():
            for forward in forwards:
                entries.append(x)
                x = forward(x, turn)
        x.requires_grad_()
        loss_of(x).backward()
        gradient = x.grad
        for forward, kept in zip(reversed(forwards), reversed(entries)):
            entry = kept.detach().requires_grad_()
            forward(entry, turn).backward(gradient)
            gradient = entry.grad
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
