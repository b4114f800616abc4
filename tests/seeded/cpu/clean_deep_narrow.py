"""Forty-eight narrow residual layers: many equal small operations, each with weights of its own."""
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        h = nn.functional.gelu(self.up(h))
        return x + self.down(h)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList([Layer(48) for _ in range(48)])
    opt = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    x = torch.randn(32, 48)
    for _ in range(steps):
        h = x
        for layer in layers:
            h = layer(h)
        loss = h.square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
