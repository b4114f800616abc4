"""SGD with momentum over a deep, thin net."""
import torch
from torch import nn


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[m for _ in range(20) for m in (nn.Linear(128, 128), nn.Tanh())])
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    # mend: opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, fused=True)
    x = torch.randn(32, 128)
    for _ in range(steps):
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()  # finds: single-tensor-optimizer


if __name__ == "__main__":
    main()
