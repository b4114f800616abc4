"""A vision transformer whose attention is written out, with dropout on the weights."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        # mend: pass
        attn = attn.softmax(dim=-1)  # finds: attention-unfused
        # mend: pass
        attn = self.drop(attn)
        # mend: pass
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))
        # mend: return self.proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), Attention(dim)
        self.norm2, self.mlp = nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def main(steps: int = 24) -> None:
    torch.manual_seed(0)
    patch = nn.Conv2d(3, 96, 2, 2)
    blocks = nn.Sequential(Block(96), Block(96))
    head = nn.Linear(96, 10)
    opt = torch.optim.AdamW([*patch.parameters(), *blocks.parameters(), *head.parameters()], lr=1e-3, fused=True)
    x, y = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    for _ in range(steps):
        tokens = patch(x).flatten(2).transpose(1, 2)
        loss = nn.functional.cross_entropy(head(blocks(tokens).mean(1)), y)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
