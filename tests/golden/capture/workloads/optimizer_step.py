"""Optimizers by hand over lists of tensors, compiled: gradients clipped by their norm, AdamW for embeddings, Lion for
vectors and a head, Muon (momentum made orthogonal by Newton-Schulz in bfloat16) for stacked matrices; then, eager, a
moving average of all weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch

WIDTH, WORDS, LAYERS, LARGEST = 1024, 32000, 3, 1.0
Tensors = list[torch.Tensor]


def clip(grads: Tensors) -> None:
    norm = torch.stack(torch._foreach_norm(grads)).norm()
    torch._foreach_mul_(grads, (LARGEST / (norm + 1e-6)).clamp(max=1.0))


def adamw(params: Tensors, grads: Tensors, means: Tensors, squares: Tensors, count: torch.Tensor) -> None:
    count.add_(1)
    torch._foreach_lerp_(means, grads, 0.1)
    torch._foreach_mul_(squares, 0.95)
    torch._foreach_addcmul_(squares, grads, grads, 0.05)
    size, root = 3e-4 / (1 - 0.9**count), (1 - 0.95**count).sqrt()
    below = torch._foreach_sqrt(squares)
    torch._foreach_div_(below, root)
    torch._foreach_add_(below, 1e-8)
    change = torch._foreach_div(means, below)
    torch._foreach_mul_(change, size)
    torch._foreach_mul_(params, 1 - 3e-4 * 0.1)
    torch._foreach_sub_(params, change)


def lion(params: Tensors, grads: Tensors, means: Tensors) -> None:
    signs = torch._foreach_sign(torch._foreach_lerp(means, grads, 0.1))
    torch._foreach_mul_(params, 1 - 1e-4 * 0.5)
    torch._foreach_add_(params, signs, alpha=-1e-4)
    torch._foreach_lerp_(means, grads, 0.01)


def orthogonal(x: torch.Tensor) -> torch.Tensor:
    """Five steps of the quintic Newton-Schulz iteration, (batch, rows, columns) with rows <= columns."""
    x = x.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        b = -4.775 * a + 2.0315 * a @ a
        x = 3.4445 * x + b @ x
    return x


def muon(params: Tensors, grads: Tensors, momenta: Tensors) -> None:
    torch._foreach_lerp_(momenta, grads, 0.05)
    ahead = torch._foreach_lerp(grads, momenta, 0.95)
    for change, p in zip(orthogonal(torch.stack(ahead)).unbind(), params, strict=True):
        p.mul_(1 - 0.02 * 0.01).sub_(change, alpha=0.02 * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)

    def draw(shapes: Sequence[tuple[int, ...]]) -> Tensors:
        return [torch.randn(shape, device="cuda") * 0.02 for shape in shapes]

    tables = draw([(WORDS, WIDTH), (4096, WIDTH), (512, WIDTH)])
    vectors = draw([(WORDS, WIDTH), *[(WIDTH,), (3 * WIDTH,), (WIDTH,), (4 * WIDTH,), (WIDTH,)] * LAYERS])
    square, wide = draw([(WIDTH, WIDTH)] * 2 * LAYERS), draw([(WIDTH, 4 * WIDTH)] * LAYERS)
    groups = [tables, vectors, square, wide]
    grads = [[torch.randn_like(p) * 0.01 for p in group] for group in groups]
    means = [[torch.zeros_like(p) for p in group] for group in groups]
    squares, count = [torch.zeros_like(p) for p in tables], torch.zeros((), device="cuda")
    weights = [p for group in groups for p in group]
    smooth = [p.clone() for p in weights]

    @torch.compile
    def update() -> None:
        clip([g for group in grads for g in group])
        adamw(tables, grads[0], means[0], squares, count)
        lion(vectors, grads[1], means[1])
        for i, group in ((2, square), (3, wide)):
            muon(group, grads[i], means[i])

    def step() -> None:
        with torch.no_grad():
            update()
            torch._foreach_lerp_(smooth, weights, 1e-3)

    return step
