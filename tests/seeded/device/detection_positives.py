"""A one-stage detector: the box loss is taken over the anchors that were matched, image after image."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class Detector(nn.Module):
    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(8, 64, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(64, width, 3, stride=2, padding=1), nn.SiLU()
        )
        self.body = nn.Sequential(*[m for _ in range(3) for m in (nn.Conv2d(width, width, 3, padding=1), nn.SiLU())])
        self.boxes, self.scores = nn.Conv2d(width, 8, 1), nn.Conv2d(width, 8, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.body(self.stem(images))
        return self.boxes(x).flatten(2).transpose(1, 2), self.scores(x).flatten(2).mean(1)


def box_loss(boxes: torch.Tensor, targets: torch.Tensor, matched: torch.Tensor) -> torch.Tensor:
    """boxes, targets: (images, anchors, 8); matched: (images, anchors), index of the object or -1."""
    total = boxes.new_zeros(())
    for box, target, match in zip(boxes, targets, matched):
        positive = torch.nonzero(match >= 0).squeeze(1)  # finds: hidden-sync # may: small-kernels
        # mend: positive = (match >= 0).to(boxes.dtype)
        picked, wanted = box.index_select(0, positive), target.index_select(0, positive)  # may: small-kernels
        # mend: picked, wanted = box * positive[:, None], target * positive[:, None]
        total = total + F.smooth_l1_loss(picked, wanted, reduction="sum")  # may: small-kernels
    return total / boxes.shape[0]


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Detector().to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    images = torch.randn(24, 8, 384, 384, device=device, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    targets = torch.randn(24, 96 * 96, 8, device=device, dtype=torch.bfloat16)
    matched = torch.randint(-60, 4, (24, 96 * 96), device=device)
    for _ in range(steps):
        boxes, scores = model(images)
        loss = box_loss(boxes, targets, matched)
        loss = loss + F.binary_cross_entropy_with_logits(scores, (matched >= 0).to(scores.dtype))
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
