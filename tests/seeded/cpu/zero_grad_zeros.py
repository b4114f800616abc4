"""Gradients are kept and filled with zeros."""
import torch
from torch import nn


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(16, 1024)
    for _ in range(steps):
        opt.zero_grad(set_to_none=False)  # finds: zero-grad
        # mend: opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
