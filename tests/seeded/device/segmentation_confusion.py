"""Segmentation with a confusion matrix over the training images, kept by NumPy."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
CLASSES = 19


class Confusion:
    def __init__(self) -> None:
        self.counts = np.zeros(CLASSES * CLASSES, dtype=np.int64)
        # mend: self.counts = torch.zeros(CLASSES * CLASSES, dtype=torch.int64, device=device)

    def update(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        predicted, truth = logits.argmax(1).cpu().numpy(), labels.cpu().numpy()  # finds: host-round-trip
        # mend: predicted, truth = logits.argmax(1), labels
        pairs = (CLASSES * truth + predicted).ravel()
        self.counts += np.bincount(pairs, minlength=CLASSES * CLASSES)
        # mend: self.counts.scatter_add_(0, pairs, torch.ones_like(pairs))

    def mean_iou(self) -> float:
        table = np.asarray(self.counts.tolist(), dtype=float).reshape(CLASSES, CLASSES)
        hit = np.diag(table)
        return float(np.mean(hit / np.maximum(1.0, table.sum(0) + table.sum(1) - hit)))


class Segmenter(nn.Module):
    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.stem = nn.Conv2d(8, width, 4, stride=2, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.stem(x))
        for conv in self.body:
            h = h + F.relu(conv(h))
        return F.interpolate(self.head(h), scale_factor=2, mode="bilinear")


def main(steps: int = 32) -> None:
    torch.manual_seed(0)
    model = Segmenter().to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    images = torch.randn(8, 8, 384, 384, device=device, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (8, 384, 384), device=device)
    confusion = Confusion()
    for _ in range(steps):
        logits = model(images)
        loss = F.cross_entropy(logits, labels)  # may: unasked-copy
        opt.zero_grad()
        loss.backward()
        opt.step()
        confusion.update(logits.detach(), labels)
    print(f"mean IoU {confusion.mean_iou():.3f}")


if __name__ == "__main__":
    main()
