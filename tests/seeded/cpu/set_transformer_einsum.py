"""Sums of sets of numbers with a set transformer; attention is written with einsum."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SetAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, y):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, d // self.heads)
        k = self.k(y).view(b, y.size(1), self.heads, d // self.heads)
        v = self.v(y).view(b, y.size(1), self.heads, d // self.heads)
        logits = torch.einsum("bnhd,bmhd->bhnm", q, k) * (d // self.heads) ** -0.5
        attn = F.softmax(logits, dim=-1)  # finds: attention-unfused
        out = torch.einsum("bhnm,bmhd->bnhd", attn, v).reshape(b, n, d)
        x = self.norm1(x + self.o(out))
        return self.norm2(x + self.ff(x))


class SetTransformer(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2):
        super().__init__()
        self.inp = nn.Linear(1, dim)
        self.blocks = nn.ModuleList([SetAttention(dim, heads) for _ in range(layers)])
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, h)
        return self.out(h.mean(dim=1))


def main(steps=12):
    torch.manual_seed(0)
    model = SetTransformer()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.rand(4, 384, 1)
        loss = F.mse_loss(model(x), x.sum(dim=1) / 384)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
