"""Weights of a loss come from NumPy and lift the whole loss to double precision."""
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4096))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def weighted(logits: torch.Tensor, goal: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return ((torch.sigmoid(logits) - goal).square() * weights).mean()  # finds: float64


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    weights = torch.from_numpy(np.random.default_rng(0).uniform(0.5, 2.0, 4096))
    x, goal = torch.randn(256, 64), torch.rand(256, 4096)
    for _ in range(steps):
        loss = weighted(model(x), goal, weights)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
