"""Finds the steady part of a program from its step markers. Pure: it sees kinds, keys and times, and does no I/O.

A *marker* is an event that comes once a step: the user's ``profiler.step()``, the end of an optimizer step, the entry
of a compiled forward region, the fetch of a batch. Several kinds come at once in most programs; the one nearest to
what a person calls a step leads (``PRIORITY``), and of one kind the one seen first.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from statistics import median

PRIORITY = {"profiler_step": 0, "optimizer": 1, "region": 2, "loader": 3}

SETTLE = 3
"""Clean intervals in a row that must look alike."""
SPREAD = 1.5
"""Longest over shortest of them."""
SETTLE_NS = 200_000_000
"""Fast steps are watched at least this long, or ``SETTLE_MOST`` steps: three of 1 ms say little, and many programs that
a person tries out take a dozen steps in all."""
SETTLE_MOST = 5
GIVE_UP = 50
GIVE_UP_NS = 20_000_000_000
SLOW_NS = 5_000_000_000
"""A marker with longer steps gives way to a faster one: its window would not close in reasonable time."""


@dataclass
class Track:
    """One marker: its kind, its key (which optimizer, which region) and its clean intervals since the last disturbance."""

    kind: str
    key: Hashable
    order: int
    count: int = 0
    last_ns: int | None = None
    """Start of the running interval, None after a disturbance."""
    seen_ns: int = 0
    """The last mark, whatever came after it."""
    clean: list[int] = field(default_factory=list)
    """Nanoseconds between neighbouring marks with no compilation and no work of ours in between."""


class Steady:
    """Feed it every marker; it says which track leads and whether the program has settled."""

    def __init__(self, warmup: int | None = None) -> None:
        self.tracks: dict[tuple[str, Hashable], Track] = {}
        self._warmup = warmup

    def mark(self, kind: str, key: Hashable, now_ns: int) -> tuple[Track, int | None]:
        """Count one marker; returns its track and the length of the clean interval that it ends, if it ends one."""
        track = self.tracks.get((kind, key))
        if track is None:
            track = self.tracks[kind, key] = Track(kind, key, len(self.tracks))
        track.count += 1
        interval = None
        if track.last_ns is not None:
            interval = now_ns - track.last_ns
            track.clean.append(interval)
        track.last_ns = track.seen_ns = now_ns
        return track, interval

    def active(self, now_ns: int, quiet_ns: int) -> bool:
        """Whether steps are coming: the last mark is no older than ``quiet_ns`` or four intervals."""
        for track in self.tracks.values():
            usual = max(track.clean[-3:], default=0)
            if track.count > 1 and now_ns - track.seen_ns < max(quiet_ns, 4 * usual):
                return True
        return False

    def disturb(self) -> None:
        """A compilation, or work of ours: intervals that span it mean nothing, and settling starts again."""
        for track in self.tracks.values():
            track.clean.clear()
            track.last_ns = None

    def restamp(self, now_ns: int) -> None:
        """Start the running intervals anew at ``now_ns`` (after work of ours), keeping what was learnt."""
        for track in self.tracks.values():
            if track.last_ns is not None:
                track.last_ns = now_ns

    def leader(self) -> Track | None:
        """The track that counts as the step, among those with a clean interval; None if there is none."""
        known = [track for track in self.tracks.values() if track.clean]
        if not known:
            return None
        quick = [track for track in known if median(track.clean[-SETTLE:]) <= SLOW_NS]
        return min(quick or known, key=lambda track: (PRIORITY[track.kind], track.order))

    def verdict(self, track: Track) -> str | None:
        """``stable`` or ``gave_up`` when the window may open on ``track``, None while it should wait."""
        clean = track.clean
        if self._warmup is not None:
            return "stable" if track.count > self._warmup else None
        if len(clean) >= SETTLE and (sum(clean) >= SETTLE_NS or len(clean) >= SETTLE_MOST):
            recent = clean[-SETTLE:]
            if max(recent) < SPREAD * max(min(recent), 1):
                return "stable"
        if len(clean) >= GIVE_UP or sum(clean) >= GIVE_UP_NS:
            return "gave_up"
        return None
