"""Residual blocks whose convolutions kept their bias."""
import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, width: int, mid: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, mid, 1)
        # mend: self.conv1 = nn.Conv2d(width, mid, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.conv2 = nn.Conv2d(mid, mid, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(mid)
        self.conv3 = nn.Conv2d(mid, width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv1(x)  # finds: conv-bias
        out = self.bn1(out)
        out = self.relu(out)
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + x)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *[Bottleneck(64, 16) for _ in range(4)])
    head = nn.Linear(64, 10)
    opt = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.05, momentum=0.9, nesterov=True, fused=True)
    x, y = torch.randn(8, 3, 24, 24), torch.randint(10, (8,))
    for _ in range(steps):
        loss = nn.functional.cross_entropy(head(model(x).mean((2, 3))), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
