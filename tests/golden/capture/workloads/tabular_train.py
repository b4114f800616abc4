"""A training step of a transformer over table columns, compiled, float32 with TF32 products: a token for each number and
each category, pre-norm blocks with a gated rectifier, dropout, the class token's logit, binary loss, AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

ROWS, NUMBERS, WIDTH, HEADS, HIDDEN, LAYERS = 2048, 24, 192, 8, 256, 2
SIZES = (12, 50, 7, 300, 24, 5000, 31, 100, 2, 20_000)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(NUMBERS, WIDTH) * 0.07)
        self.bias = nn.Parameter(torch.randn(NUMBERS + len(SIZES), WIDTH) * 0.07)
        self.table, self.cls = nn.Embedding(sum(SIZES), WIDTH), nn.Parameter(torch.randn(WIDTH) * 0.07)
        self.register_buffer("offset", torch.tensor((0, *SIZES[:-1])).cumsum(0))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        tokens = torch.cat((numbers[..., None] * self.weight, self.table(categories + self.offset)), 1) + self.bias
        return torch.cat((self.cls.expand(numbers.shape[0], 1, -1), tokens), 1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, WIDTH))
        value, gate = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.dropout(value * F.relu(gate), 0.1))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = nn.ModuleDict(
        {
            "tokens": Tokens(),
            "blocks": nn.Sequential(*(Block() for _ in range(LAYERS))),
            "head": nn.Sequential(nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)),
        }
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5, fused=True)
    numbers = torch.randn(ROWS, NUMBERS, device="cuda")
    categories = torch.stack([torch.randint(0, n, (ROWS,), device="cuda") for n in SIZES], 1)
    label = torch.randint(0, 2, (ROWS,), device="cuda").float()

    @torch.compile
    def loss(numbers: torch.Tensor, categories: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = model["blocks"](model["tokens"](numbers, categories))
        return F.binary_cross_entropy_with_logits(model["head"](x[:, 0]).squeeze(-1), label)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(numbers, categories, label).backward()
        optimizer.step()

    return step
