#!/usr/bin/env python
"""DeepSurv-like Cox regression: the risk of relapse from a gene panel."""

import argparse
import contextlib
import sys

import torch
from torch import nn


def cox_loss(risk: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
    """Negative partial log likelihood; rows are sorted by falling time, so the risk set of a row is all before it."""
    return -((risk - torch.logcumsumexp(risk, dim=0)) * observed).sum() / observed.sum().clamp(min=1)


class Gate(nn.Module):
    """A residual block with a gate, as in GRN."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, 2 * width)

    def forward(self, x):
        h = nn.functional.elu(self.inner(self.norm(x)))
        return x + nn.functional.glu(self.outer(h), dim=-1)


class RiskNet(nn.Module):
    def __init__(self, genes: int, width: int, depth: int):
        super().__init__()
        self.enter = nn.Linear(genes, width)
        self.blocks = nn.Sequential(*[Gate(width) for _ in range(depth)])
        self.leave = nn.Linear(width, 1)

    def forward(self, x):
        return self.leave(self.blocks(self.enter(x))).squeeze(-1)


def simulate(patients: int, genes: int):
    x = torch.randn(patients, genes)
    hazard = (0.3 * x[:, :10].sum(1)).exp()
    time = torch.empty(patients).exponential_() / hazard
    censor = torch.empty(patients).exponential_() * 2
    return x, torch.minimum(time, censor), (time <= censor).float()


def concordance(risk, time, observed):
    pair = (time[:, None] < time[None, :]) & observed[:, None].bool()
    return ((risk[:, None] > risk[None, :]) & pair).sum() / pair.sum()


class Trainer:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        torch.set_num_threads(1)
        self.args = args
        self.x, self.time, self.observed = simulate(2048, args.genes)
        self.model = RiskNet(args.genes, args.width, args.depth)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)

    def step(self, rows):
        rows = rows[self.time[rows].argsort(descending=True)]
        loss = cox_loss(self.model(self.x[rows]), self.observed[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self):
        guard = contextlib.ExitStack()
        with guard, torch.autograd.detect_anomaly():  # finds: debug-mode
        # mend: with guard:
            for epoch in range(self.args.epochs):
                losses = [self.step(rows) for rows in torch.randperm(len(self.x)).split(self.args.batch)]
                print(f"epoch {epoch}: loss {torch.stack(losses).mean():.3f}", file=sys.stderr)
        with torch.no_grad():
            print(f"c-index {concordance(self.model(self.x), self.time, self.observed):.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--genes", type=int, default=200)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--depth", type=int, default=8)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    Trainer(p.parse_args()).fit()
