"""Compiled with dynamic shapes: the last batch of every round is smaller."""
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(x + self.layers(x), dim=-1)


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(Tower(), dynamic=True)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = torch.randn(500, 256)
    for step in range(steps):
        batch = data[step % 4 * 128 : step % 4 * 128 + 128]
        z = model(batch)
        loss = nn.functional.cross_entropy(z @ z.t() / 0.1, torch.arange(len(z)))
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
