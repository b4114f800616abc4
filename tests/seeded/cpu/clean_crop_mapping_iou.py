"""Scores a crop map: tiles through a trained segmentation network, one confusion matrix, intersection over union at the end."""

import torch
from torch import nn

CROPS = ("water", "wheat", "maize", "rapeseed", "meadow", "built-up")


def stage(inside: int, outside: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class Segmenter(nn.Module):
    def __init__(self, bands: int, classes: int) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = stage(bands, 16, 1), stage(16, 32, 2), stage(32, 32, 1)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.head = nn.Conv2d(32, classes, 1)

    def forward(self, tile: torch.Tensor) -> torch.Tensor:
        fine = self.down1(tile)
        coarse = self.middle(self.down2(fine))
        return self.head(torch.cat((fine, self.up(coarse)), dim=1))


class ConfusionMatrix:
    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.counts = torch.zeros(classes, classes, dtype=torch.int64)

    def update(self, predicted: torch.Tensor, truth: torch.Tensor) -> None:
        cells = truth.flatten() * self.classes + predicted.flatten()
        self.counts += torch.bincount(cells, minlength=self.classes**2).view_as(self.counts)

    def iou(self) -> torch.Tensor:
        hit = self.counts.diag()
        return hit / (self.counts.sum(0) + self.counts.sum(1) - hit).clamp(min=1)


@torch.inference_mode()
def evaluate(network: nn.Module, tiles: torch.Tensor, truth: torch.Tensor, batch: int) -> ConfusionMatrix:
    network.eval()
    matrix = ConfusionMatrix(len(CROPS))
    for tile, label in zip(tiles.split(batch), truth.split(batch), strict=True):
        matrix.update(network(tile).argmax(1), label)
    return matrix


def main(steps: int = 60) -> None:
    torch.manual_seed(8)
    batch = 3
    tiles = torch.randn(steps * batch, 5, 96, 96)
    truth = torch.randint(len(CROPS), (steps * batch, 96, 96))
    matrix = evaluate(Segmenter(5, len(CROPS)), tiles, truth, batch)
    for crop, score in zip(CROPS, matrix.iou().tolist(), strict=True):
        print(f"{crop:10s} {score:.3f}")


if __name__ == "__main__":
    main()
