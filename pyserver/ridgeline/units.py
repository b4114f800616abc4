"""Numbers as people read them. Standard library only; every view uses these, so that all views agree."""

from __future__ import annotations


def duration(us: float | None) -> str:
    """Three significant digits with the unit that fits: ``812 ns``, ``4.13 µs``, ``27.1 ms``, ``3.2 s``. ``-`` for unknown."""
    if us is None:
        return "-"
    sign, value = ("-", -us) if us < 0 else ("", us)
    for limit, factor, unit in ((1.0, 1e3, "ns"), (1e3, 1.0, "µs"), (1e6, 1e-3, "ms"), (6e7, 1e-6, "s")):
        if value < limit * 0.9995:
            return f"{sign}{_three(value * factor)} {unit}"
    return f"{sign}{_three(value * 1e-6 / 60)} min"


def _three(value: float) -> str:
    if value == 0:
        return "0"
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def percent(value: float | None) -> str:
    """``16 %``, ``4.2 %``, ``0.3 %``, ``<0.1 %``; ``-`` for unknown."""
    if value is None:
        return "-"
    if value and abs(value) < 0.05:
        return "<0.1 %"
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.1f} %"


def size(value: float | None) -> str:
    """Decimal units: ``1.07 GB``."""
    if value is None:
        return "-"
    for limit, factor, unit in ((1e3, 1.0, "B"), (1e6, 1e-3, "kB"), (1e9, 1e-6, "MB"), (1e12, 1e-9, "GB")):
        if value < limit * 0.9995:
            return f"{value:.0f} B" if unit == "B" else f"{_three(value * factor)} {unit}"
    return f"{_three(value * 1e-12)} TB"
