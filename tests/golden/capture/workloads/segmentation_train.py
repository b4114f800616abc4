"""A segmentation network in the manner of DeepLab, compiled, bfloat16 autocast: dilated convolutions with batch norm, a
pyramid of dilations beside a pooled image, bilinear upsampling to the full image, cross entropy a pixel with a label that
does not count, momentum SGD with a foreach update."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, WIDTH, PYRAMID, CLASSES, VOID = 8, 512, 128, 128, 21, 255


class Conv(nn.Sequential):
    def __init__(self, a: int, b: int, kernel: int = 3, stride: int = 1, dilation: int = 1) -> None:
        padding = kernel // 2 * dilation
        super().__init__(
            nn.Conv2d(a, b, kernel, stride, padding, dilation, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)
        )


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Conv(3, WIDTH // 2, 7, 2), Conv(WIDTH // 2, WIDTH, 3, 2))
        self.a, self.b = Conv(WIDTH, WIDTH, 3, 1, 2), Conv(WIDTH, WIDTH, 3, 1, 4)
        self.branches = nn.ModuleList((Conv(WIDTH, PYRAMID, 1), *(Conv(WIDTH, PYRAMID, 3, 1, d) for d in (6, 18))))
        self.pooled = nn.Conv2d(WIDTH, PYRAMID, 1)
        self.project = Conv(4 * PYRAMID, PYRAMID, 1)
        self.head = nn.Conv2d(PYRAMID, CLASSES, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        x = x + self.b(self.a(x))
        whole = F.relu(self.pooled(F.adaptive_avg_pool2d(x, 1)))
        whole = F.interpolate(whole, size=x.shape[-2:], mode="bilinear", align_corners=False)
        x = self.project(torch.cat((*(branch(x) for branch in self.branches), whole), 1))
        logits = self.head(F.dropout(x, 0.1, self.training))
        return F.interpolate(logits, size=image.shape[-2:], mode="bilinear", align_corners=False)


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=True)

    def loss_of(image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(image).float(), label, ignore_index=VOID)

    compiled = torch.compile(loss_of)
    image = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda")
    label = torch.randint(0, CLASSES, (BATCH, SIZE, SIZE), device="cuda")
    label[:, : SIZE // 16] = VOID

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(image, label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
