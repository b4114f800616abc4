"""A block of a protein structure network, compiled, bfloat16 autocast: pairs of residues updated by the outer product of
an alignment, by gated products along triangles and by attention along rows with a bias of the pairs, a transition, cross
entropy over binned distances of pairs that are known, gradients clipped, fused Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, RESIDUES, DEPTH, SINGLE, PAIR, HEADS, OUTER, BINS = 1, 320, 64, 128, 128, 4, 32, 64


class Outer(nn.Module):
    """From rows of an alignment, (batch, sequences, residues, width), to pairs: the mean product of two columns."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.sides, self.out = nn.LayerNorm(SINGLE), nn.Linear(SINGLE, 2 * OUTER), nn.Linear(OUTER**2, PAIR)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        left, right = self.sides(self.norm(rows)).chunk(2, -1)
        return self.out(torch.einsum("bsic,bsjd->bijcd", left, right / rows.shape[1]).flatten(3))


class Triangle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(PAIR), nn.LayerNorm(PAIR)
        self.sides, self.gate, self.out = nn.Linear(PAIR, 4 * PAIR), nn.Linear(PAIR, PAIR), nn.Linear(PAIR, PAIR)

    def forward(self, pair: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(pair)
        left, right = (F.glu(self.sides(x), -1) * mask).chunk(2, -1)
        return torch.sigmoid(self.gate(x)) * self.out(self.inner(torch.einsum("bikc,bjkc->bijc", left, right)))


class Rows(nn.Module):
    """Attention of each row of pairs, biased by the pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.bias = nn.LayerNorm(PAIR), nn.Linear(PAIR, HEADS, bias=False)
        self.qkvg, self.out = nn.Linear(PAIR, 4 * PAIR, bias=False), nn.Linear(PAIR, PAIR)

    def forward(self, pair: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(pair)
        q, k, v, gate = self.qkvg(x).unflatten(-1, (4, HEADS, -1)).permute(3, 0, 1, 4, 2, 5)
        score = q @ k.mT * (PAIR // HEADS) ** -0.5 + self.bias(x).permute(0, 3, 1, 2)[:, None]
        weight = score.masked_fill(~mask[..., 0][:, :, None, None], -1e4).softmax(-1)
        return self.out((torch.sigmoid(gate) * (weight.to(v.dtype) @ v)).transpose(2, 3).flatten(3))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.outer, self.triangle, self.rows = Outer(), Triangle(), Rows()
        self.norm, self.up, self.down = nn.LayerNorm(PAIR), nn.Linear(PAIR, 4 * PAIR), nn.Linear(4 * PAIR, PAIR)
        self.place, self.head = nn.Embedding(65, PAIR), nn.Linear(PAIR, BINS)

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        place = torch.arange(rows.shape[2], device=rows.device)
        pair = self.place((place[None] - place[:, None]).clamp(-32, 32) + 32) + self.outer(rows)
        pair = pair + self.triangle(pair, mask)
        pair = pair + self.rows(pair, mask)
        pair = pair + self.down(F.relu(self.up(self.norm(pair))))
        return self.head(pair + pair.transpose(1, 2)).float()


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    block = Block().cuda()
    optimizer = torch.optim.Adam(block.parameters(), lr=1e-3, fused=True)
    rows = torch.randn(BATCH, DEPTH, RESIDUES, SINGLE, device="cuda")
    here = torch.arange(RESIDUES, device="cuda") < RESIDUES - 20
    mask = (here[:, None] & here)[None, ..., None].expand(BATCH, -1, -1, -1).contiguous()
    atoms = torch.randn(BATCH, RESIDUES, 3, device="cuda").cumsum(1)

    @torch.compile
    def loss(rows: torch.Tensor, mask: torch.Tensor, atoms: torch.Tensor) -> torch.Tensor:
        edge = torch.linspace(2, 22, BINS - 1, device=atoms.device)
        square = (atoms[:, :, None] - atoms[:, None]).square().sum(-1, keepdim=True)
        wanted = (square > edge.square()).sum(-1)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = block(rows, mask)
        missed = F.cross_entropy(logits.flatten(0, 2), wanted.flatten(), reduction="none")
        return (missed * mask.flatten()).sum() / mask.sum()

    def step() -> None:
        loss(rows, mask, atoms).backward()
        nn.utils.clip_grad_norm_(block.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
