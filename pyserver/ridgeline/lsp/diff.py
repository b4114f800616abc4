"""Which line of an old text is which line of a new one.

Patience matching: equal ends first, then lines that are unique in both texts and stand in the same order, then the same
again between those. Lines are compared without their indentation, so that code moved into a ``with`` block stays matched.
Time is O(n log n) for n lines; ten thousand lines take some tens of milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence


def match_lines(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each old line the index of the new line that it became, or ``None``. The indices grow."""
    a = [line.strip() for line in old]
    b = [line.strip() for line in new]
    result: list[int | None] = [None] * len(a)
    regions = [(0, len(a), 0, len(b))]
    while regions:
        a_low, a_high, b_low, b_high = regions.pop()
        while a_low < a_high and b_low < b_high and a[a_low] == b[b_low]:
            result[a_low] = b_low
            a_low, b_low = a_low + 1, b_low + 1
        while a_low < a_high and b_low < b_high and a[a_high - 1] == b[b_high - 1]:
            a_high, b_high = a_high - 1, b_high - 1
            result[a_high] = b_high
        if a_low == a_high or b_low == b_high:
            continue
        pairs = _unique_pairs(a, b, (a_low, a_high, b_low, b_high))
        a_at, b_at = a_low, b_low
        for i, j in pairs:
            regions.append((a_at, i, b_at, j))
            result[i] = j
            a_at, b_at = i + 1, j + 1
        if pairs:
            regions.append((a_at, a_high, b_at, b_high))
    return result


def _unique_pairs(a: Sequence[str], b: Sequence[str], region: tuple[int, int, int, int]) -> list[tuple[int, int]]:
    """Lines that are unique on both sides of a region, as a longest chain that grows on both sides."""
    a_low, a_high, b_low, b_high = region
    counts_a, counts_b = Counter(a[a_low:a_high]), Counter(b[b_low:b_high])
    where = {b[j]: j for j in range(b_low, b_high)}
    pairs = [(i, where[a[i]]) for i in range(a_low, a_high) if a[i] and counts_a[a[i]] == 1 and counts_b.get(a[i]) == 1]
    # Longest increasing subsequence of the second members, by patience sorting.
    tails: list[int] = []
    tail_pair: list[int] = []
    before: list[int | None] = []
    for at, (_, j) in enumerate(pairs):
        pile = bisect_left(tails, j)
        before.append(tail_pair[pile - 1] if pile else None)
        if pile == len(tails):
            tails.append(j)
            tail_pair.append(at)
        else:
            tails[pile], tail_pair[pile] = j, at
    chain: list[tuple[int, int]] = []
    step = tail_pair[-1] if tail_pair else None
    while step is not None:
        chain.append(pairs[step])
        step = before[step]
    chain.reverse()
    return chain
