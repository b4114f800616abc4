"""A pairwise penalty summed in a Python loop."""
import torch
from torch import nn

device = "cuda"


def penalty(out: torch.Tensor) -> torch.Tensor:
    total = torch.zeros((), device=out.device)
    for row in range(out.shape[0]):
    # mend: for row in range(1):
        total = total + out[row].square().sum() * 0.5  # finds: small-kernels
        # mend: total = total + out.square().sum() * 0.5
    return total


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = nn.Linear(512, 512).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(128, 512, device=device)
    for _ in range(steps):
        loss = penalty(model(x))
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
