"""Trains a small recommender eagerly: embedding tables, feature interactions, a click probability.

The shape of DLRM (Naumov et al., 2019): categorical features go through embedding tables, numbers through an MLP, and all
pairs of the resulting vectors are multiplied. The data is synthetic, with a click rate that can be learned.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

TABLE_SIZES = (20_000, 5_000, 5_000, 1_000, 1_000, 200, 50, 50)
NUMBERS = 13


class Recommender(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in TABLE_SIZES)
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        vectors = len(TABLE_SIZES) + 1
        self.top = nn.Sequential(
            nn.Linear(width + vectors * (vectors - 1) // 2, 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, 1),
        )
        rows, columns = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", rows * vectors + columns, persistent=False)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        looked_up = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *looked_up], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        interactions = products.flatten(1)[:, self.pairs]
        return self.top(torch.cat([dense, interactions], dim=1)).squeeze(1)


def make_batch(size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers, categories and clicks; popular items come more often, as in life."""
    numbers = torch.randn(size, NUMBERS, device=device)
    popularity = torch.rand(size, len(TABLE_SIZES), device=device).pow(3)
    categories = (popularity * torch.tensor(TABLE_SIZES, device=device)).long()
    clicks = torch.bernoulli(torch.sigmoid(numbers[:, 0] - 2 * popularity[:, 0]))
    return numbers, categories, clicks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=None, help="default: 1024 on a CPU, 16384 on a GPU")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    batch = options.batch or (16_384 if device.type == "cuda" else 1024)

    torch.manual_seed(0)
    model = Recommender().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    batches = [make_batch(batch, device) for _ in range(8)]

    begun = time.perf_counter()
    for step in range(options.steps):
        numbers, categories, clicks = batches[step % len(batches)]
        logits = model(numbers, categories)
        loss = F.binary_cross_entropy_with_logits(logits, clicks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.4f}, {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
