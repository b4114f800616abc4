"""What padding wastes, and what other plans would save.

For lengths L_i of a batch of B padded to P the useful part is Σ L_i / (B·P) of linear layers and Σ L_i² / (B·P²) of
attention. Several batches are weighed by their padded work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Batch = tuple[Sequence[int], int]
"""Real lengths, and what the batch is padded to (its longest, or the model's maximum)."""
BUCKETS = (2, 4, 8)
ALIGN = 8
"""Bucket bounds are multiples of this: tensor cores want it, and it keeps their number small."""


@dataclass(slots=True, frozen=True)
class Useful:
    linear: float
    attention: float
    """Shares in 0..1."""


def useful(batches: Sequence[Batch]) -> Useful:
    """Share of the padded work that is done on real tokens."""
    linear = sum(len(lengths) * padded for lengths, padded in batches)
    attention = sum(len(lengths) * padded**2 for lengths, padded in batches)
    if linear <= 0:
        raise ValueError("no lengths, or padded to nothing")
    return Useful(
        sum(sum(lengths) for lengths, _ in batches) / linear,
        sum(sum(n * n for n in lengths) for lengths, _ in batches) / attention,
    )


def bounds(lengths: Sequence[int], count: int) -> list[int]:
    """Upper bounds of ``count`` buckets that waste the least padding, multiples of ``ALIGN``, ascending.

    Exact, by dynamic programming over the distinct aligned lengths: cost of a bucket = (members) * (its bound).
    """
    aligned = sorted(-(-n // ALIGN) * ALIGN for n in lengths)
    sizes = sorted(set(aligned))
    number = [sum(1 for n in aligned if n <= s) for s in sizes]
    count = min(count, len(sizes))
    best = [[0.0] * len(sizes) for _ in range(count)]
    cut = [[-1] * len(sizes) for _ in range(count)]
    for j, size in enumerate(sizes):
        best[0][j] = number[j] * size
    for k in range(1, count):
        for j, size in enumerate(sizes):
            options = [(best[k - 1][i] + (number[j] - number[i]) * size, i) for i in range(j)]
            best[k][j], cut[k][j] = min([*options, (best[k - 1][j], cut[k - 1][j])])
    found, j = [sizes[-1]], len(sizes) - 1
    for k in range(count - 1, 0, -1):
        i = cut[k][j]
        if i < 0:
            break
        found.append(sizes[i])
        j = i
    return sorted(set(found))


def bucketed(batches: Sequence[Batch], tops: Sequence[int]) -> Useful:
    """What the same sequences would use if every one were padded to its bucket's bound only (batches drawn by bucket)."""
    every = [n for lengths, _ in batches for n in lengths]
    to = [next((t for t in tops if t >= n), tops[-1]) for n in every]
    return Useful(
        sum(to) / sum(len(lengths) * padded for lengths, padded in batches),
        sum(t * t for t in to) / sum(len(lengths) * padded**2 for lengths, padded in batches),
    )


def to_longest(batches: Sequence[Batch]) -> Useful:
    """What the batches would use if each were padded to its own longest sequence, aligned."""
    own = [(len(lengths), min(size, -(-max(lengths) // ALIGN) * ALIGN), size) for lengths, size in batches]
    return Useful(
        sum(rows * top for rows, top, _ in own) / sum(rows * size for rows, _, size in own),
        sum(rows * top**2 for rows, top, _ in own) / sum(rows * size**2 for rows, _, size in own),
    )


def packed_attention(batches: Sequence[Batch]) -> float:
    """Attention of sequences packed into one *without* a varlen kernel, (Σ L)², over the padded B·P²: more than 1 is a loss."""
    padded = sum(len(lengths) * size**2 for lengths, size in batches)
    return sum(sum(lengths) ** 2 for lengths, _ in batches) / padded
