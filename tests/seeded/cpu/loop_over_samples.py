"""A contrastive penalty, sample by sample."""
import torch
from torch import nn


def penalty(out: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(())
    for row in range(out.shape[0]):
    # mend: for row in range(1):
        total = total + (out[row] * out[0]).sum()  # finds: small-kernels
        # mend: total = total + (out * out[0]).sum()
    return total / out.shape[0]


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(128, 64)
    for _ in range(steps):
        loss = penalty(model(x))
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
