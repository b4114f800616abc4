"""What attribution returns: for every unit of device work (a row of ``WorkTable``) where it comes from, how that is
known, and how sure it is. Values are interned; per-row arrays hold indices, -1 for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.profile import Module, SourceRef
from ridgeline.trace.tables import F64, I32, I64, U8

TRIAL = "trial launches of an autotuner"
"""The reason of rows that an autotuner launched only to measure them."""


class PhaseOf(IntEnum):
    UNKNOWN = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3


@dataclass(slots=True, frozen=True, kw_only=True)
class GeneratedSite:
    """A launch's place in generated code."""

    module: str | None
    """The wrapper module."""
    definition_line: int | None
    call_line: int | None
    kernel_file: str | None
    """The single-kernel file, where there is one."""
    kernel_line: int | None = None


class Stays(NamedTuple):
    """Where a thread was in the user's code, in order of time. Each stay lasts to the next one; recording its beginning took the
    thread some time of its own."""

    start: F64
    """Offsets in microseconds. Shape (n,)."""
    node: I32
    """Calling statements and the statement that the thread was at, as a node of ``HostStays``; -1 outside the user's code."""
    calls: I64
    """Of a library's functions since the stay before began, as far as recording slowed each of them; they lie in that stay."""


class HostStays(Protocol):
    """All threads' stays. A node is a statement together with the statements that called it."""

    def of(self, thread: int) -> Stays | None:
        """Those of a native thread id, None where it was not recorded."""

    def frame(self, node: int) -> tuple[int, int]:
        """(node of the calling statement or -1, number of the function)."""

    def ref(self, node: int) -> SourceRef | None:
        """Its statement."""


def _no_text(path: str) -> None:
    """No generated files were given."""


def _no_lines(path: str) -> None:
    """No sources were given."""


@dataclass(slots=True, kw_only=True)
class Attribution:
    sites: list[GeneratedSite]
    site: I32
    sources: list[tuple[SourceRef, ...]]
    """Distinct user statements (library frames kept and marked); an empty tuple never occurs: then the row is -1."""
    source: I32
    symbols: list[str]
    symbol: I32
    """The descriptive name of the unit (the launching op's where the device name is generic)."""
    aten: list[tuple[str, ...]]
    aten_set: I32
    phase: U8
    """``PhaseOf``"""
    reasons: list[str]
    reason: I32
    """Why a row has no source."""
    modules: list[Module]
    host_line: Callable[[int, float], SourceRef | None]
    """(native thread id, offset µs) -> the user statement that thread was in, or None."""
    host_stays: HostStays | None = None
    """All that ``host_line`` knows, where a timeline ran."""
    notes: list[str] = field(default_factory=list)
    """For ``quality.warnings``: hooks that did not fit, stale lines that were rejected…"""
    rejected_us: float = 0.0
    """Device time whose recorded line did not hold its text any more, hence is unattributed."""
    generated_text: Callable[[str], str | None] = _no_text
    """The text of a generated file under any path that a site names, None where it is not at hand."""
    source_lines: Callable[[str], list[str] | None] = _no_lines
    """The lines of a user's or library's file as they were when the program ran, None where they are not at hand."""
    op_lines: tuple[list[SourceRef], I32] | None = None
    """The statement of every op of the trace (distinct statements, index a row of ``Trace.ops``), where a timeline ran."""

    @property
    def trials(self) -> npt.NDArray[np.bool_]:
        """Work rows that an autotuner launched only to measure them: no part of what the program runs, hence of no share."""
        known = self.reasons.index(TRIAL) if TRIAL in self.reasons else -2
        found: npt.NDArray[np.bool_] = self.reason == known
        return found
