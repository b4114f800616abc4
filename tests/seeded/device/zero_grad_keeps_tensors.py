"""Gradients kept and filled with zeros."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4096, 16384), nn.ReLU(), nn.Linear(16384, 4096)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(512, 4096, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        opt.zero_grad(set_to_none=False)  # finds: zero-grad
        # mend: opt.zero_grad()
        loss = model(x).float().square().mean()  # may: launch-bound
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
