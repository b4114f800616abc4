"""Attention in three lines."""
import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        weights = scores.softmax(-1)  # finds: attention-unfused
        return torch.matmul(weights, v).transpose(1, 2).reshape(b, n, c)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Attention(128, 4)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 256, 128)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
