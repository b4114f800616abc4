"""Counts of classes, one comparison a class."""
import torch
from torch import nn


def counts(labels: torch.Tensor, classes: int) -> torch.Tensor:
    found = torch.zeros(classes)
    for c in range(classes):
    # mend: for c in range(1):
        found[c] = (labels == c).float().mean()  # finds: small-kernels
        # mend: found = torch.bincount(labels, minlength=classes).float() / len(labels)
    return found


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Linear(32, 100)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 32)
    for _ in range(steps):
        out = model(x)
        loss = out.square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        counts(out.detach().argmax(-1), 100)


if __name__ == "__main__":
    main()
