"""What a rule may look at, and nothing else. A rule is a pure function ``rule(facts: Facts) -> list[Candidate]``;
``Facts`` (``facts.py``) is this context with what several rules derive from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.attribution.model import Attribution
from ridgeline.profile import ProfileDocument
from ridgeline.sidecar import Sidecar
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import WorkTable


@dataclass(slots=True, kw_only=True)
class Context:
    trace: Trace
    work: WorkTable
    attribution: Attribution
    document: ProfileDocument
    """Filled up to, and without, its findings."""
    sidecar: Sidecar | None = None
    work_kernel: dict[int, int] = field(default_factory=dict)
    """Work row -> index in ``document.kernels``."""
    generated: dict[str, str] = field(default_factory=dict)
    """The same of Inductor's modules and kernels. May be empty where modules ran: then the recording alone counts."""
    timed: dict[str, float] = field(default_factory=dict)
    """Statement -> microseconds, of what ``ridgeline time --of RUN`` timed on the machine of the run."""
    steps_per_day: float | None = None
    """How many steps the program makes a day, where the user says so."""
    sources: dict[str, str] = field(default_factory=dict)
    """Text of the user's files by path, as they ran (from the run folder's snapshots), for the rules that read code.
    Parsed, never run. May be empty: those rules then say nothing."""
