"""How findings write quantities: short, with a unit, never more digits than were measured."""

from __future__ import annotations


def time(us: float) -> str:
    """``1.5 ms``, ``84 µs``, ``2 h``: never in powers of ten."""
    if us >= 7.2e9:
        return f"{count(us / 3.6e9)} h"
    if us >= 6e8:
        return f"{us / 6e7:.3g} min"
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    return f"{us / 1e3:.3g} ms" if us >= 1000 else f"{us:.3g} µs"


def size(count: float) -> str:
    """``33.6 MB``: decimal, as bandwidths are."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def percent(share: float) -> str:
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def count(number: float) -> str:
    """``4,160``, ``12.5``, ``0.917``: never in powers of ten."""
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"


def things(number: float, noun: str) -> str:
    """``1 convolution``, ``2.5 convolutions``."""
    text = count(number)
    return f"{text} {noun if text == '1' else 'copies' if noun == 'copy' else noun + 's'}"


def times(number: float) -> str:
    """``once``, ``3 times``, ``0.5 times``."""
    return "once" if abs(number - 1) < 0.05 else f"{count(number)} times"
