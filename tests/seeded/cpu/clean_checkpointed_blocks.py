"""Activations are computed again in the backward pass, on purpose."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.net(x)


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    blocks = nn.ModuleList([Block(128) for _ in range(6)])
    opt = torch.optim.AdamW(blocks.parameters(), lr=1e-4, fused=True)
    x = torch.randn(256, 128)
    for _ in range(steps):
        h = x
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False)
        loss = h.pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
