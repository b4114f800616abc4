"""The result while it is filled: interned values, one array a column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.attribution.model import GeneratedSite, PhaseOf
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import I32, U8


class Builder:
    """Rows are work rows; an index of -1 means none."""

    def __init__(self, rows: int) -> None:
        self.site: I32 = np.full(rows, -1, dtype=np.int32)
        self.source: I32 = np.full(rows, -1, dtype=np.int32)
        self.symbol: I32 = np.full(rows, -1, dtype=np.int32)
        self.aten_set: I32 = np.full(rows, -1, dtype=np.int32)
        self.reason: I32 = np.full(rows, -1, dtype=np.int32)
        self.phase: U8 = np.full(rows, int(PhaseOf.UNKNOWN), dtype=np.uint8)
        self.sites: list[GeneratedSite] = []
        self.sources: list[tuple[SourceRef, ...]] = []
        self.symbols: list[str] = []
        self.aten: list[tuple[str, ...]] = []
        self.reasons: list[str] = []
        self.notes: dict[str, int] = {}
        self.rejected_us = 0.0
        self._site_ids: dict[GeneratedSite, int] = {}
        self._source_ids: dict[tuple[int, ...], int] = {}
        self._symbol_ids: dict[str, int] = {}
        self._aten_ids: dict[tuple[str, ...], int] = {}
        self._reason_ids: dict[str, int] = {}

    def site_id(self, site: GeneratedSite) -> int:
        found = self._site_ids.get(site)
        if found is None:
            found = self._site_ids[site] = len(self.sites)
            self.sites.append(site)
        return found

    def source_id(self, refs: Sequence[SourceRef]) -> int:
        """-1 for no statements. Refs are told apart by identity: whoever makes them keeps one a statement."""
        if not refs:
            return -1
        key = tuple(id(ref) for ref in refs)
        found = self._source_ids.get(key)
        if found is None:
            found = self._source_ids[key] = len(self.sources)
            self.sources.append(tuple(refs))
        return found

    def symbol_id(self, text: str) -> int:
        found = self._symbol_ids.get(text)
        if found is None:
            found = self._symbol_ids[text] = len(self.symbols)
            self.symbols.append(text)
        return found

    def aten_id(self, names: Sequence[str]) -> int:
        if not names:
            return -1
        key = tuple(names)
        found = self._aten_ids.get(key)
        if found is None:
            found = self._aten_ids[key] = len(self.aten)
            self.aten.append(key)
        return found

    def reason_id(self, text: str) -> int:
        found = self._reason_ids.get(text)
        if found is None:
            found = self._reason_ids[text] = len(self.reasons)
            self.reasons.append(text)
        return found

    def note(self, text: str) -> None:
        self.notes[text] = self.notes.get(text, 0) + 1
