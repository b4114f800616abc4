"""One run of records, decoded: strictly and fast, else leniently, else with the place where it failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import msgspec

from ridgeline.trace.schema import Event, ExactEvent, event_of

EXACT_ABOVE = 2.0**43
"""Microseconds above which a float64 cannot hold every nanosecond."""

_PLACE = re.compile(r"\(byte (\d+)\)")

Records = list[Event] | list[ExactEvent]


@dataclass(slots=True, frozen=True)
class Failure:
    """Why a run is no list of records. ``at`` is the offset at which the parser gave up, where it says."""

    at: int | None


class RecordDecoder:
    """Decodes runs of objects separated by commas."""

    def __init__(self) -> None:
        self.exact = False
        """Whether timestamps are read as text from here on: once one is too large for a float64."""
        self._fast = msgspec.json.Decoder(list[Event])
        self._precise = msgspec.json.Decoder(list[ExactEvent])
        self._untyped = msgspec.json.Decoder(float_hook=Decimal)

    def parse(self, text: bytes | memoryview) -> Records | Failure:
        """The records of ``text``, or where it fails."""
        wrapped = b"".join((b"[", text, b"]"))
        try:
            if self.exact:
                return self._precise.decode(wrapped)
            records = self._fast.decode(wrapped)
            stride = len(records) // 64 + 1
            if any(type(record.ts) is float and abs(record.ts) >= EXACT_ABOVE for record in records[::stride]):
                self.exact = True
                return self._precise.decode(wrapped)
            return records
        except msgspec.ValidationError:
            return self._lenient(wrapped)
        except msgspec.DecodeError as error:
            place = _PLACE.search(str(error))
            return Failure(max(int(place[1]) - 1, 0) if place else None)
        except RecursionError:
            return Failure(None)

    def _lenient(self, wrapped: bytes) -> Records | Failure:
        try:
            values = self._untyped.decode(wrapped)
        except (msgspec.DecodeError, RecursionError):
            return Failure(None)
        return [event for value in values if (event := event_of(value)) is not None]
