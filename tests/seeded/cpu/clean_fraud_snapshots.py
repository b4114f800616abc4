"""Card fraud on a graph of accounts that changes by the week: evolving weights, edge attention."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Week:
    src: torch.Tensor
    dst: torch.Tensor
    amount: torch.Tensor      # log amounts of the transfers
    when: torch.Tensor        # hour in the week, 0..1


def make_weeks(accounts: int, edges: int, weeks: int, seed: int = 5):
    g = torch.Generator().manual_seed(seed)
    popularity = torch.rand(accounts, generator=g) ** 4 + 1e-3
    out = []
    for _ in range(weeks):
        src = torch.randint(accounts, (edges,), generator=g)
        dst = torch.multinomial(popularity, edges, replacement=True, generator=g)
        order = torch.argsort(dst)
        out.append(Week(src[order], dst[order], torch.randn(edges, generator=g), torch.rand(edges, generator=g)))
    return out


class EvolvingWeight(nn.Module):
    """The weight of a layer is the state of a GRU that moves on once a week (EvolveGCN-O)."""

    def __init__(self, width: int):
        super().__init__()
        self.start = nn.Parameter(torch.empty(width, width))
        nn.init.xavier_uniform_(self.start)
        self.cell = nn.GRUCell(width, width)

    def forward(self, weight):
        return self.cell(weight, weight)


class EdgeAttention(nn.Module):
    def __init__(self, width: int, edge_dim: int = 2):
        super().__init__()
        self.score_src = nn.Linear(width, 1, bias=False)
        self.score_dst = nn.Linear(width, 1, bias=False)
        self.score_edge = nn.Linear(edge_dim, 1)

    def forward(self, h, week: Week, visible):
        """visible: 1 for transfers that happened before the alert, 0 for later ones."""
        edge = torch.stack([week.amount, week.when], dim=1)
        raw = (self.score_src(h).index_select(0, week.src) + self.score_dst(h).index_select(0, week.dst)
               + self.score_edge(edge)).squeeze(1)
        raw = F.leaky_relu(raw, 0.2).clamp(max=12.0)
        weight = raw.exp() * visible
        total = h.new_zeros(h.shape[0]).index_add(0, week.dst, weight)
        alpha = weight / (total.index_select(0, week.dst) + 1e-6)
        return torch.zeros_like(h).index_add(0, week.dst, h.index_select(0, week.src) * alpha.unsqueeze(1))


class FraudModel(nn.Module):
    def __init__(self, features: int = 24, width: int = 32):
        super().__init__()
        self.inp = nn.Linear(features, width)
        self.weight = EvolvingWeight(width)
        self.attend = EdgeAttention(width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x, weeks, alert_time):
        h = F.relu(self.inp(x))
        w = self.weight.start
        # each week needs the accounts' state and the weight of the week before
        for week in weeks:
            visible = (week.when < alert_time).to(h.dtype)
            w = self.weight(w)
            h = self.norm(h + F.relu(self.attend(h @ w, week, visible)))
        return self.out(h).squeeze(1)


def focal(logits, labels, gamma: float = 2.0, alpha: float = 0.9):
    ce = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    hit = torch.exp(-ce)
    return ((alpha * labels + (1 - alpha) * (1 - labels)) * (1 - hit) ** gamma * ce).mean()


@torch.no_grad()
def average_precision(scores, labels):
    hits = labels[scores.argsort(descending=True)]
    rank = torch.arange(1, len(hits) + 1)
    return (hits * hits.cumsum(0) / rank).sum() / hits.sum().clamp_min(1)


def main(steps: int = 200):
    torch.manual_seed(17)
    accounts, span = 3000, 3
    weeks = make_weeks(accounts, 12000, weeks=12)
    x = torch.randn(accounts, 24)
    labels = (torch.rand(accounts) < 0.02).float()
    x[:, 0] += 1.5 * labels
    perm = torch.randperm(accounts)
    train, valid = perm[:2400], perm[2400:]
    train_y, valid_y = labels[train], labels[valid]

    model = FraudModel()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    warm = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.2, total_iters=40)
    for step in range(steps):
        first = step % (len(weeks) - span)
        logits = model(x, weeks[first:first + span], alert_time=torch.rand(()))
        loss = focal(logits[train], train_y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        warm.step()
        if step % 100 == 99:
            ap = average_precision(logits.detach()[valid], valid_y)
            print(f"{step + 1}: loss {loss.item():.4f} AP {ap.item():.3f}")


if __name__ == "__main__":
    main()
