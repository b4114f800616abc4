"""Scan drone mosaics for leaf disease: overlapping tiles through a trained network, blended back into a map."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(Path(__file__).stem)
CLASSES = ("healthy", "rust", "blight", "soil")


def conv_bn(cin: int, cout: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
    )


class Segmenter(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.stem = conv_bn(3, width, stride=2)
        self.body = nn.Sequential(conv_bn(width, 2 * width, stride=2), conv_bn(2 * width, 2 * width))
        self.head = nn.Conv2d(2 * width, len(CLASSES), 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(self.head(self.body(self.stem(x))), scale_factor=4, mode="bilinear", align_corners=False)


class Scanner:
    """Tiles of one mosaic in one batch; a Hann window blends the overlaps."""

    def __init__(self, model: nn.Module, tile: int = 64, stride: int = 48) -> None:
        self.model = model.eval()
        self.tile, self.stride = tile, stride
        hann = torch.hann_window(tile, periodic=False).clamp(min=1e-3)
        self.window = torch.outer(hann, hann).reshape(1, -1, 1)
        self.weights: dict[tuple[int, int], torch.Tensor] = {}

    def weight(self, size: tuple[int, int], count: int) -> torch.Tensor:
        if size not in self.weights:
            spread = self.window.expand(1, -1, count).contiguous()
            self.weights[size] = F.fold(spread, size, self.tile, stride=self.stride)
        return self.weights[size]

    @torch.inference_mode()
    def __call__(self, mosaic: torch.Tensor) -> torch.Tensor:
        size = (mosaic.shape[-2], mosaic.shape[-1])
        columns = F.unfold(mosaic[None], self.tile, stride=self.stride)
        count = columns.shape[-1]
        tiles = columns[0].T.reshape(count, 3, self.tile, self.tile)
        scores = self.model(tiles).softmax(1).flatten(2)
        weighted = (scores.permute(1, 2, 0) * self.window).contiguous()
        blended = F.fold(weighted, size, self.tile, stride=self.stride)
        return (blended / self.weight(size, count)).argmax(0).squeeze(0)


def mosaics(count: int) -> Iterator[tuple[str, torch.Tensor]]:
    field = torch.rand(3, 400, 400)
    for i in range(count):
        yield f"plot-{i:03d}", field.roll(16 * i, dims=2)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    torch.manual_seed(11)
    torch.set_num_threads(1)
    scanner = Scanner(Segmenter())
    counts = torch.zeros(len(CLASSES), dtype=torch.long)
    began = time.perf_counter()
    for done, (name, mosaic) in enumerate(mosaics(48), 1):
        counts += torch.bincount(scanner(mosaic).flatten(), minlength=len(CLASSES))
        if done % 16 == 0:
            logger.info("%s: %d mosaics, %.1f s", name, done, time.perf_counter() - began)
    for label, share in zip(CLASSES, (counts / counts.sum()).tolist()):
        logger.info("%-8s %5.1f %%", label, 100 * share)


if __name__ == "__main__":
    main()
