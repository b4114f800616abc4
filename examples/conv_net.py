"""Trains a residual convolution net on synthetic pictures that a DataLoader makes."""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


class Shapes(Dataset[tuple[torch.Tensor, int]]):
    """Noise with a bright square whose place is its class."""

    def __init__(self, count: int, size: int = 32) -> None:
        self.count = count
        self.size = size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.randn(3, self.size, self.size, generator=generator)
        label = index % CLASSES
        row, column = divmod(label, 4)
        picture[:, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] += 2.0
        return picture, label


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.body = nn.Sequential(
            Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(pictures))
        return self.head(x.mean(dim=(2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    big = device.type == "cuda"
    batch = 512 if big else 32

    torch.manual_seed(0)
    data = DataLoader(
        Shapes(batch * options.steps),
        batch,
        num_workers=options.workers,
        pin_memory=big,
        persistent_workers=options.workers > 0,
    )
    # The layout in which convolutions are fastest, on both kinds of device.
    model = Net(64 if big else 16).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    begun = time.perf_counter()
    for step, (pictures, labels) in enumerate(data):
        pictures = pictures.to(device, memory_format=torch.channels_last, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = F.cross_entropy(model(pictures), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 25 == 24:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
