"""What a rule returns: a finding before it has gone through the funnel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef


@dataclass(slots=True, kw_only=True)
class Candidate:
    code: str
    title: str
    fact: str
    """What was measured, in one or two sentences, with numbers."""
    advice: str = ""
    """What to do. Left out by the funnel where the gain is too small to suggest anything."""
    at: SourceRef | None = None
    cost_us: float | None = None
    """Over the recorded time: what the thing costs now."""
    known_us: float | None = None
    """Where the cost cannot be judged, over the recorded time: what the thing surely takes of it (the device's work, the host's wait). By
    that it is weighed, and where it is too little to show it is a hint at most."""
    saving_us: float | None = None
    """Over the recorded time: what mending it probably saves, s being the expected speed-up of the part:
    exposed time * (1 - 1/s). None: no estimate, hence no promise."""
    claims: Spans | None = None
    """The spans of recorded time out of which the saving comes; nothing is saved that is not in them."""
    stands_for: float = 1.0
    """How much of the step a microsecond of ``claims`` is without a recorder, where that slowed them more or less than the rest."""
    bound_us: float | None = None
    """A bound tighter than the measure of ``claims``, over the recorded time."""
    general: bool = False
    """Explains what is left over by findings with a narrower cause: it claims after them."""
    min_gain_pct: float | None = None
    """With ``general``: what must be left over of it, in per cent of the step, for it to be named at all."""
    noted: bool = False
    """A fact worth a hint even where it costs little today: it is kept, without advice."""
    hint: bool = False
    """Never more than a hint, whatever it costs."""
    evidence: dict[str, Any] = field(default_factory=dict)
