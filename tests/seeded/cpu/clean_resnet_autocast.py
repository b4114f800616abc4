"""A residual network with autocast, channels-last tensors and momentum."""
import torch
from torch import nn


def conv3x3(inp: int, out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inp, out, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inp: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inp, out, stride), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = conv3x3(out, out), nn.BatchNorm2d(out)
        self.down = None
        if stride != 1 or inp != out:
            self.down = nn.Sequential(nn.Conv2d(inp, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x if self.down is None else self.down(x)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + identity)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv3x3(3, 16), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(BasicBlock(16, 16), BasicBlock(16, 32, 2), BasicBlock(32, 64, 2))
        self.fc = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


def train_one_epoch(model: nn.Module, opt: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
    model.train()
    total = torch.zeros(())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for step in range(steps):
        lo = (step * 16) % (len(images) - 16)
        x = images[lo : lo + 16].contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), labels[lo : lo + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.detach()
    return total / steps


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Net().to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, fused=True)
    images, labels = torch.randn(256, 3, 32, 32), torch.randint(10, (256,))
    print(train_one_epoch(model, opt, images, labels, steps).item())


if __name__ == "__main__":
    main()
