"""Trains a small GPT on synthetic text under torch.compile.

Every operation of the model is written out, so that each fused kernel leads back to the lines it was made from.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 512


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(attended.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        h = F.silu(self.gate(h)) * self.up(h)
        return x + self.down(h)


class GPT(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_batch(batch: int, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences that count in steps of one to seven: a next token that can be learned."""
    start = torch.randint(0, VOCABULARY, (batch, 1), device=device)
    stride = torch.randint(1, 8, (batch, 1), device=device)
    text = (start + stride * torch.arange(length + 1, device=device)) % VOCABULARY
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    big = device.type == "cuda"
    width, heads, layers, batch, length = (768, 12, 8, 32, 512) if big else (128, 4, 3, 8, 128)

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = GPT(width, heads, layers, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    compiled = torch.compile(model)

    begun = time.perf_counter()
    for step in range(options.steps):
        tokens, targets = make_batch(batch, length, device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=big):
            loss = compiled(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 25 == 24:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
