"""Eager evaluation of a classifier and of its embeddings, half and single precision: accuracy of the best five, a
confusion matrix by bincount, calibration bins, a histogram and quantiles of the losses, mean average precision by
sorting, nearest neighbours by distance, the area under a curve, correlations."""

from __future__ import annotations

import torch
import torch.nn.functional as F

ROWS, CLASSES, BINS, QUERIES, GALLERY, WIDTH = 50_000, 1000, 15, 2048, 20_000, 256


def accuracy(logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    best = logits.topk(5, dim=1).indices
    return (best == label[:, None]).cumsum(1).bool().float().mean(0)


def confusion(guess: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    table = torch.bincount(label * CLASSES + guess, minlength=CLASSES**2).view(CLASSES, CLASSES)
    hit = table.diagonal().float()
    return 2 * hit / (table.sum(0) + table.sum(1)).clamp(min=1)


def calibration(probability: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    sure, guess = probability.max(1)
    edge = torch.linspace(0, 1, BINS + 1, device=sure.device)[1:-1]
    place = torch.bucketize(sure, edge)
    count, trust, right = (
        sure.new_zeros(BINS).index_add_(0, place, x) for x in (torch.ones_like(sure), sure, (guess == label).float())
    )
    return ((trust - right).abs() / count.clamp(min=1) * count / ROWS).sum()


def average_precision(score: torch.Tensor, relevant: torch.Tensor) -> torch.Tensor:
    """Mean over the rows: (queries, gallery) scores and whether each of the gallery is of the query's class."""
    order = score.argsort(1, descending=True)
    hit = relevant.gather(1, order).float()
    precision = hit.cumsum(1) / torch.arange(1, hit.shape[1] + 1, device=hit.device)
    return ((precision * hit).sum(1) / hit.sum(1).clamp(min=1)).mean()


def area(score: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """Under the curve of true against false positives, by one sort."""
    hit = positive[score.argsort(descending=True)].double()
    right, wrong = hit.cumsum(0), (1 - hit).cumsum(0)
    return torch.trapezoid(right / right[-1], wrong / wrong[-1])


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    label = torch.randint(0, CLASSES, (ROWS,), device="cuda")
    logits = torch.randn(ROWS, CLASSES, device="cuda").half()
    logits.scatter_add_(1, label[:, None], torch.full_like(logits[:, :1], 3.0))
    query, gallery = torch.randn(QUERIES, WIDTH, device="cuda"), torch.randn(GALLERY, WIDTH, device="cuda")
    query_label = torch.randint(0, CLASSES, (QUERIES,), device="cuda")
    gallery_label = torch.randint(0, CLASSES, (GALLERY,), device="cuda")
    flag = torch.rand(40 * ROWS, device="cuda") < 0.1
    flagged = torch.randn(40 * ROWS, device="cuda") + flag

    def step() -> None:
        with torch.no_grad():
            accuracy(logits, label)
            confusion(logits.argmax(1), label)
            probability = logits.float().softmax(1)
            calibration(probability, label)
            loss = F.cross_entropy(logits.float(), label, reduction="none")
            torch.histc(loss, 100, 0.0, 15.0)
            torch.quantile(loss, torch.tensor([0.5, 0.9, 0.99], device="cuda"))
            (probability - F.one_hot(label, CLASSES)).square().sum(1).mean()
            -(probability * probability.clamp(min=1e-12).log()).sum(1).mean()
            torch.cdist(query, gallery).topk(10, dim=1, largest=False)
            score = F.normalize(query, dim=1).half() @ F.normalize(gallery, dim=1).half().T
            average_precision(score, query_label[:, None] == gallery_label)
            area(flagged, flag)
            torch.corrcoef(gallery.T)

    return step
