"""Promoter strength from DNA, BIO-462 homework 5. Attention should prefer neighbours, so I add a log-distance bias."""

import torch
import torch.nn.functional as F
from torch import nn


class DistanceBiasMixin:
    """For any layer with self.reach: how much a base pair cares for another one that far away."""

    def distance_bias(self, n):
        at = torch.arange(n, dtype=torch.float32)  # may: constant-rebuilt
        return -torch.log1p((at[:, None] - at[None, :]).abs() / self.reach)  # finds: constant-rebuilt
        # mend: if not hasattr(self, "kept"):
        # mend:     self.kept = -torch.log1p((at[:, None] - at[None, :]).abs() / self.reach)
        # mend: return self.kept


class Block(DistanceBiasMixin, nn.Module):
    def __init__(self, dim, heads, reach):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self.distance_bias(n))
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Promoter(nn.Module):
    def __init__(self, dim=48, heads=2):
        super().__init__()
        self.embed = nn.Embedding(4, dim)
        self.blocks = nn.Sequential(Block(dim, heads, 4.0), Block(dim, heads, 32.0))
        self.head = nn.Linear(dim, 1)

    def forward(self, dna):
        return self.head(self.blocks(self.embed(dna)).mean(1)).squeeze(1)


def main(steps: int = 60):
    torch.manual_seed(462)
    dna = torch.randint(4, (240, 640))
    strength = ((dna == 1) | (dna == 2)).float().mean(1) * 10 - 5
    model = Promoter()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for i in range(steps):
        pick = torch.randint(len(dna), (2,))
        loss = F.mse_loss(model(dna[pick]), strength[pick])
        loss.backward()
        optim.step()
        optim.zero_grad()
        if i % 20 == 0:
            print("iteration", i, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
