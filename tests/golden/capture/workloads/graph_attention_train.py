"""A graph transformer over many small molecules, compiled, trained in float32 with TF32 products: queries and keys meet
along edges that carry bonds, softmax over the edges of an atom by scatters, layer norm, mean and largest over a
molecule, several regressions with missing targets, fused AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

MOLECULES, ATOMS, EDGES, WIDTH, HEADS, KINDS, BONDS, TARGETS = 4096, 98304, 204800, 128, 8, 119, 22, 12


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.bond = nn.Linear(WIDTH, 3 * WIDTH), nn.Embedding(BONDS, WIDTH)
        self.out, self.n1, self.n2 = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, edge: torch.Tensor, bond: torch.Tensor) -> torch.Tensor:
        source, target = edge
        q, k, v = self.qkv(self.n1(x)).view(-1, 3, HEADS, WIDTH // HEADS).unbind(1)
        along = self.bond(bond).view(-1, HEADS, WIDTH // HEADS)
        score = (q[target] * (k[source] + along)).sum(-1) * (WIDTH // HEADS) ** -0.5
        with torch.no_grad():
            place = target[:, None].expand_as(score)
            top = score.new_full((x.shape[0], HEADS), -1e9).scatter_reduce(0, place, score, "amax")
        weight = (score - top[target]).exp()
        total = torch.zeros_like(top).index_add(0, target, weight)
        message = (v[source] + along) * (weight / (total[target] + 1e-9))[..., None]
        x = x + self.out(torch.zeros_like(q).index_add(0, target, message).flatten(1))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.atom, self.degree = nn.Embedding(KINDS, WIDTH), nn.Embedding(8, WIDTH)
        self.layer, self.norm, self.head = Layer(), nn.LayerNorm(WIDTH), nn.Linear(2 * WIDTH, TARGETS)

    def forward(
        self, kind: torch.Tensor, degree: torch.Tensor, edge: torch.Tensor, bond: torch.Tensor, owner: torch.Tensor
    ) -> torch.Tensor:
        x = self.norm(self.layer(self.atom(kind) + self.degree(degree), edge, bond))
        place = owner[:, None].expand_as(x)
        empty = x.new_zeros(MOLECULES, WIDTH)
        mean = empty.scatter_reduce(0, place, x, "mean", include_self=False)
        return self.head(torch.cat((mean, empty.scatter_reduce(0, place, x, "amax", include_self=False)), 1))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    owner = torch.arange(ATOMS, device="cuda") * MOLECULES // ATOMS
    kind = torch.randint(0, KINDS, (ATOMS,), device="cuda")
    source = torch.randint(0, ATOMS, (EDGES,), device="cuda")
    target = (source + torch.randint(-3, 4, (EDGES,), device="cuda")).clamp(0, ATOMS - 1)
    edge = torch.stack((source, target))
    degree = torch.bincount(target, minlength=ATOMS).clamp(max=7)
    bond = torch.randint(0, BONDS, (EDGES,), device="cuda")
    truth = torch.randn(MOLECULES, TARGETS, device="cuda")
    truth[torch.rand_like(truth) < 0.3] = torch.nan

    @torch.compile
    def loss(truth: torch.Tensor) -> torch.Tensor:
        made, known = net(kind, degree, edge, bond, owner), ~truth.isnan()
        missed = F.smooth_l1_loss(made, truth.nan_to_num(), reduction="none")
        return torch.where(known, missed, 0.0).sum() / known.sum()

    def step() -> None:
        loss(truth).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
