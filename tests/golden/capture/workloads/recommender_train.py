"""A click model in the manner of DLRM, forward and backward compiled, float32: tables looked up and summed over bags of
fixed length, one bag of varying lengths, pairwise products of features, two perceptrons, a binary loss, dense gradients
into Adagrad over lists."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, ROWS, WIDTH, TABLES, BAG = 16384, 150_000, 64, 3, 8
FEATURES = TABLES + 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.bag = nn.EmbeddingBag(ROWS, WIDTH, mode="sum")
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, WIDTH), nn.ReLU())
        pairs = FEATURES * (FEATURES - 1) // 2
        self.top = nn.Sequential(nn.Linear(WIDTH + pairs, 512), nn.ReLU(), nn.Linear(512, 1))
        self.register_buffer("pairs", torch.tril_indices(FEATURES, FEATURES, -1))

    def forward(
        self, dense: torch.Tensor, ids: torch.Tensor, ragged: torch.Tensor, starts: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        dense = self.bottom(torch.log1p(dense))
        rows = [table(ids[:, i]).sum(1) for i, table in enumerate(self.tables)]
        z = torch.stack([dense, self.bag(ragged, starts), *rows], 1)
        products = (z @ z.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat((dense, products), 1))[:, 0], y)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Net().cuda()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01, foreach=True)
    loss_of = torch.compile(model)
    dense = torch.rand(BATCH, 13, device="cuda") * 100
    # Clicks are skewed: a few rows are hot.
    ids = (torch.rand(BATCH, TABLES, BAG, device="cuda").pow(3) * ROWS).long()
    lengths = torch.randint(1, 2 * BAG, (BATCH,))
    starts = (lengths.cumsum(0) - lengths).cuda()
    ragged = torch.randint(0, ROWS, (int(lengths.sum()),), device="cuda")
    y = torch.randint(0, 2, (BATCH,), device="cuda").float()

    def step() -> None:
        loss_of(dense, ids, ragged, starts, y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
