"""Training of a one-stage detector's head, eager, float32 with TF32 convolutions: anchors on a grid, overlaps with the true
boxes, matches by their maximum, focal loss, a box loss over matched anchors alone, then the best boxes by top-k, decoded,
sorted and thinned by their overlaps."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, HEIGHT, WIDTH, STRIDE, CHANNELS = 4, 96, 128, 8, 256
CLASSES, TRUTHS, SHAPES, BEST, KEPT = 80, 32, 9, 1000, 100


def overlaps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of boxes (…, N, 4) and (…, M, 4) as x1, y1, x2, y2: (…, N, M)."""
    low, high = torch.max(a[..., :, None, :2], b[..., None, :, :2]), torch.min(a[..., :, None, 2:], b[..., None, :, 2:])
    both = (high - low).clamp_(min=0).prod(-1)
    size_a, size_b = (a[..., 2:] - a[..., :2]).prod(-1), (b[..., 2:] - b[..., :2]).prod(-1)
    return both / (size_a[..., :, None] + size_b[..., None, :] - both)


def focal(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    p = logits.sigmoid()
    wrong = p + target - 2 * p * target
    weight = (0.75 - 0.5 * target) * wrong.square()
    return weight * F.binary_cross_entropy_with_logits(logits, target, reduction="none")


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.GroupNorm(32, CHANNELS), nn.ReLU())
        self.classes = nn.Conv2d(CHANNELS, SHAPES * CLASSES, 3, padding=1)
        self.boxes = nn.Conv2d(CHANNELS, SHAPES * 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.tower(x)
        a, b = (c(x).permute(0, 2, 3, 1).reshape(BATCH, -1, n) for c, n in ((self.classes, CLASSES), (self.boxes, 4)))
        return a, b


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = True
    model = Head().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    features = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH, device="cuda")
    half = 16 * 2 ** (torch.arange(SHAPES, device="cuda") / 3)[:, None] * torch.tensor([1.0, 0.7], device="cuda")
    cells = torch.cat((-half, half), 1)
    corner = torch.rand(BATCH, TRUTHS, 2, device="cuda") * torch.tensor([WIDTH, HEIGHT], device="cuda") * STRIDE * 0.8
    truth = torch.cat((corner, corner + 20 + 200 * torch.rand(BATCH, TRUTHS, 2, device="cuda")), -1)
    label = torch.randint(0, CLASSES, (BATCH, TRUTHS), device="cuda")

    x, y = (torch.arange(n, device="cuda") * STRIDE + STRIDE / 2 for n in (WIDTH, HEIGHT))
    rows, columns = torch.meshgrid(y, x, indexing="ij")
    anchors = (torch.stack((columns, rows, columns, rows), -1).view(-1, 1, 4) + cells).view(-1, 4)

    def step() -> None:
        centre, size = (anchors[:, 2:] + anchors[:, :2]) / 2, anchors[:, 2:] - anchors[:, :2]
        logits, offsets = model(features)
        with torch.no_grad():
            best, match = overlaps(anchors, truth).max(-1)
            positive = best >= 0.5
            counted = positive | (best < 0.4)
            own = truth.gather(1, match[..., None].expand(-1, -1, 4))
            wanted = torch.cat(
                (((own[..., 2:] + own[..., :2]) / 2 - centre) / size, ((own[..., 2:] - own[..., :2]) / size).log()), -1
            )
            target = torch.zeros_like(logits).scatter_(
                2, label.gather(1, match)[..., None], positive[..., None].float()
            )
            count = positive.sum().clamp(min=1)
        class_loss = (focal(logits, target) * counted[..., None]).sum() / count
        found = positive.nonzero(as_tuple=True)
        box_loss = F.smooth_l1_loss(offsets[found], wanted[found], beta=0.1, reduction="sum") / count
        (class_loss + box_loss).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            score, place = logits.amax(-1).sigmoid().topk(BEST, 1)
            shift = offsets.gather(1, place[..., None].expand(-1, -1, 4))
            middle, extent = centre[place] + shift[..., :2] * size[place], size[place] * shift[..., 2:].exp() / 2
            box = torch.cat((middle - extent, middle + extent), -1)
            # Each box is worth less the more it overlaps a better one.
            worth = score * (1 - overlaps(box, box).triu_(1).amax(1))
            worth.sort(1, descending=True)[1][:, :KEPT]

    return step
