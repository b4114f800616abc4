"""A compiled perceptron."""
import torch
from torch import nn


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 512)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
