"""Predictions become Python lists for a metric."""
import torch
from torch import nn


def hits(logits: torch.Tensor, labels: torch.Tensor) -> int:
    predicted = logits.argmax(-1)
    return int((predicted == labels).sum())  # finds: hidden-sync


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    x, y = torch.randn(256, 128), torch.randint(10, (256,))
    right = 0
    for _ in range(steps):
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        right += hits(out.detach(), y)
    print(right)


if __name__ == "__main__":
    main()
