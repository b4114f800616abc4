"""AdamW over many small parameters, one by one."""
import torch
from torch import nn


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[m for _ in range(16) for m in (nn.Linear(96, 96), nn.ReLU())])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # mend: opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(64, 96)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()  # finds: single-tensor-optimizer
        opt.zero_grad()


if __name__ == "__main__":
    main()
