"""Convolutions with a bias and no normalisation after them."""
import torch
from torch import nn


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 32, 3), nn.GELU(), nn.Conv2d(32, 32, 3), nn.GELU(), nn.Conv2d(32, 1, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 8, 48, 48)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
