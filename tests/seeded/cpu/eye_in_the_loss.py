"""The identity matrix of a decorrelation loss is made in every step."""
import torch
from torch import nn


def decorrelation(z: torch.Tensor) -> torch.Tensor:
    z = (z - z.mean(0)) / (z.std(0) + 1e-5)
    c = z.t() @ z / len(z)
    off = 1.0 - torch.eye(z.size(1))  # finds: constant-rebuilt
    return (c * off).square().sum()


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    net = nn.Linear(32, 512)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x = torch.randn(64, 32)
    for _ in range(steps):
        loss = decorrelation(net(x))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
