"""Constants in double precision that are scalars."""
import torch
from torch import nn


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    scale = torch.tensor(0.5, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 512)
    for _ in range(steps):
        loss = (model(x) * scale).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
