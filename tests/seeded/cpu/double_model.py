"""A model was made in double precision for a check and stayed so."""
import torch
from torch import nn


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).double()
    # mend: model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 512, dtype=torch.float64)
    # mend: x = torch.randn(256, 512)
    for _ in range(steps):
        loss = model(x).square().mean()  # finds: float64
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
