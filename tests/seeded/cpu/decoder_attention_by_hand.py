"""Causal attention with a mask and baddbmm."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        return x.view(b, n, self.heads, c // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / (c // self.heads) ** 0.5
        scores = scores + self.mask[:n, :n]
        p = torch.softmax(scores.float(), dim=-1).type_as(q)  # finds: attention-unfused
        y = torch.einsum("bhqk,bhkd->bhqd", p, v)
        return self.o(y.transpose(1, 2).reshape(b, n, c))


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList([Decoder(96, 3, 192) for _ in range(2)])
    opt = torch.optim.AdamW(layers.parameters(), lr=1e-3, fused=True)
    x = torch.randn(4, 192, 96)
    for _ in range(steps):
        h = x
        for layer in layers:
            h = h + layer(h)
        loss = h.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
