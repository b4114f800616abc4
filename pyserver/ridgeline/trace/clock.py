"""Timestamps as offsets that keep the trace's own precision.

A timestamp of 5e12 µs in a float64 is off by up to half a nanosecond, one of the Unix epoch by a quarter of a
microsecond. So offsets are counted in nanoseconds from the first timestamp seen: whole and fractional microseconds are
split before anything is subtracted, and a fraction within the representation's own error of a whole nanosecond is that
nanosecond. Above 2**43 µs the text of the number is used.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from decimal import Decimal, DecimalException
from typing import cast

import numpy as np
from msgspec import Raw

from ridgeline.trace.tables import F64

_LARGEST_EXPONENT = 18
"""Larger stamps are no times, and their integers no int64."""

Stamp = float | str | Raw | None


class Clock:
    """Turns stamps (µs) into float64 nanoseconds since ``origin_us``; NaN for what is no time."""

    def __init__(self) -> None:
        self.origin_us: int | None = None

    def offsets_ns(self, stamps: Sequence[Stamp]) -> F64:
        if not stamps:
            return np.empty(0)
        try:
            values = np.frombuffer(array("d", cast("list[float]", stamps)), dtype=np.float64)
        except TypeError:
            return np.array([self._exactly(stamp) for stamp in stamps], dtype=np.float64)
        whole = np.floor(values)
        with np.errstate(invalid="ignore", over="ignore"):
            fraction = (values - whole) * 1000.0
            nearest = np.rint(fraction)
            # Half a unit in the last place of the stamp, in nanoseconds, and a little for the product's own rounding.
            slack = np.spacing(np.abs(values)) * 500.5 + 1e-9
            fraction = np.where(np.abs(fraction - nearest) <= slack, nearest, fraction)
            out: F64 = (whole - self._origin(whole)) * 1000.0 + fraction
        out[~np.isfinite(out)] = np.nan
        return out

    def _origin(self, whole: F64) -> float:
        if self.origin_us is None:
            finite = whole[np.isfinite(whole)]
            if not len(finite) or abs(finite[0]) > 2**62:
                return 0.0
            self.origin_us = int(finite[0])
        return float(self.origin_us)

    def _exactly(self, stamp: Stamp) -> float:
        text = bytes(stamp).decode("ascii", "replace") if isinstance(stamp, Raw) else str(stamp)
        try:
            value = Decimal(text.strip().strip('"'))
        except DecimalException:
            return float("nan")
        if not value.is_finite() or value.adjusted() > _LARGEST_EXPONENT or abs(value) > 2**62:
            return float("nan")
        whole = int(value)
        if self.origin_us is None:
            self.origin_us = whole
        return (whole - self.origin_us) * 1000.0 + float((value - whole) * 1000)


def durations_us(values: Sequence[float | str | None]) -> F64:
    """Durations as given, in µs; NaN for what is missing or no number."""
    try:
        return np.array(array("d", cast("list[float]", values)), dtype=np.float64)
    except TypeError:
        out = np.full(len(values), np.nan)
        for row, value in enumerate(values):
            try:
                out[row] = np.nan if value is None else float(value)
            except (ValueError, OverflowError):
                continue
        return out
