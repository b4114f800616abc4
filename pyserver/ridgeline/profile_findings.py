"""What the profile document says beyond measurements: findings, padding, and what torch's compiler reported.

Part of :mod:`ridgeline.profile`, which names all of the document's types and its units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ridgeline.vocabulary import Severity


@dataclass(slots=True, kw_only=True)
class CompileEvent:
    kind: Literal["break", "recompile", "cudagraph_skip", "fallback"]
    reason: str
    file: str | None = None
    line: int | None = None
    time_us: float | None = None


@dataclass(slots=True, kw_only=True)
class PaddingPlan:
    name: str
    saving_us: float | None = None
    """Per step."""
    detail: str | None = None
    bounds: list[int] = field(default_factory=list)
    """What the sequences are padded to; empty where every batch has its own."""
    once_us: float | None = None
    """What its shapes cost once, in compilations; None where nothing is compiled or their number is not known."""
    saving_s_per_day: float | None = None
    """At ``Padding.steps_per_day``, without what it costs once."""


@dataclass(slots=True, kw_only=True)
class Padding:
    batches: int
    linear_useful_pct: float
    attention_useful_pct: float
    steps_per_day: float | None = None
    """The rate by which a day's saving is counted: as given, else that of steps one after another."""
    plans: list[PaddingPlan] = field(default_factory=list)
    file: str | None = None
    line: int | None = None


@dataclass(slots=True, kw_only=True)
class Finding:
    code: str
    title: str
    severity: Severity
    message: str
    file: str | None = None
    line: int | None = None
    time_us: float | None = None
    """What it costs, per step."""
    saving_us: float | None = None
    saving_bound_us: float | None = None
    step_gain_pct: float | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    doc: str | None = None
