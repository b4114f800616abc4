"""A CPU's steps where no operator runs: the stretches, how long they are without a recorder, and the statements that fill them.

On a CPU the program's own Python and its operators take turns on one thread. Between two operators lies some Python in any case:
the modules that lead from one to the other. Longer stretches are work of the program's own (``host-work``).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ridgeline.attribution.model import Stays
from ridgeline.findings import spans
from ridgeline.findings.bare import Bare, gaps
from ridgeline.findings.facts import Facts
from ridgeline.findings.host import COMPILED, PYTHON_FUNCTION
from ridgeline.findings.spans import Spans
from ridgeline.trace.tables import F64, I64

QUIET_US = 200.0
"""Recorded. Between two operators lie 10 to 60 µs of modules and functions that call one another, recorder included."""
LINE_US = 0.35
"""What writing down one line event takes the thread, on a quiet machine."""
LINE_LIMITS_US = (0.2, 1.5)
"""Within which it is read from the recording, for a machine may be busy; from so many events on..."""
LINES_KNOWN, LINES_QUICK = 200, 0.05
"""...as what one in twenty of the distances from one to the next stays below: entering a function takes no tenth of it."""
CALL_US = 0.7
"""What a tracer's look at a call of a library's function takes where a line takes ``LINE_US``."""
OP_US = 1.5
"""What writing down one operator with its shapes takes where a line takes ``LINE_US``."""
MOST_LINES, MOST_OPS = 0.95, 0.5
"""Of the time without operators, and of theirs, that writing down can have taken."""
WRITTEN = (0.5, 3.0)
"""Within which what writing down takes is of its usual cost: machines differ, and a busy one is several times slower."""
CACHES = 0.15
"""Of the operators' time, that they can be slower by where a recorder has put its own data into the caches between them."""
FAULT_US = 6.0
"""What a page takes at most that a recorded step asks the system for and an unprofiled one does not: what a recorder keeps lies at the
end of the heap, which is then given back and asked for in each step (768 pages a step instead of none, 2.6 to 4.4 ms)."""
LEAST_RUNNING = 0.1
"""A thread that computes less waits for more than a core."""
OTHERS = ("ProfilerStep", "Optimizer.", "enumerate(DataLoader)")
"""Rows that enclose what runs, and nothing that computes by itself."""
ENGINE = "autograd::engine::evaluate_function: "
GROUPS = ("gloo:", "mpi:", "nccl:", "c10d::")
"""Ranges of communication."""


class Quiet:
    """The thread of the steps, where no operator runs on any thread and nothing is loaded or compiled."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    # -- stretches --------------------------------------------------------------------------------------------------

    @cached_property
    def operators(self) -> I64:
        """Rows of ``Trace.ops`` that are at work themselves."""
        names = self.facts.names
        around = np.array([_encloses(text, self._functions) for text in names], dtype=bool)
        return np.flatnonzero(~around[self.facts.trace.ops.name]) if len(names) else np.zeros(0, dtype=np.int64)

    @cached_property
    def _functions(self) -> set[str]:
        """The program's own, as far as they are rows."""
        return {text for text in self.facts.names if PYTHON_FUNCTION.fullmatch(text)}

    @cached_property
    def busy(self) -> Spans:
        """Operators on any thread, compiled code with its guards, and communication."""
        (start, end), (begins, ends) = self._working
        return spans.together(self.facts.clip(spans.union(start, end)), self.facts.clip(spans.union(begins, ends)))

    @cached_property
    def _working(self) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
        """(start, end) of the rows of both kinds that are at work."""
        facts, names, rows = self.facts, self.facts.names, self.operators
        ops, ranges = facts.trace.ops, facts.trace.ranges
        working = np.array([text.startswith((*COMPILED, *GROUPS)) for text in names], dtype=bool)
        at = np.flatnonzero(working[ranges.name]) if len(ranges.name) else np.zeros(0, dtype=np.int64)
        return (
            (ops.start[rows], ops.start[rows] + ops.dur[rows]),
            (ranges.start[at], ranges.start[at] + ranges.dur[at]),
        )

    @cached_property
    def python(self) -> Spans:
        """All time outside of operators, loading and compilation."""
        facts = self.facts
        return spans.subtract(facts.recorded, spans.together(self.busy, facts.loader_spans, facts.compile_spans))

    @cached_property
    def stretches(self) -> Spans:
        """Those of it that are too long to be what lies between two operators."""
        long = self.python.end - self.python.start > QUIET_US
        return Spans(self.python.start[long], self.python.end[long])

    # -- how long they are without a recorder -----------------------------------------------------------------------

    @cached_property
    def stays(self) -> Stays | None:
        """Of the thread of the steps; None where its lines were not recorded."""
        known = self.facts.context.attribution.host_stays
        found = known.of(self.facts.host_thread) if known is not None else None
        return found if found is not None and len(found.start) else None

    @cached_property
    def _line_us(self) -> float:
        """What writing down one line event took in this recording."""
        apart = np.diff(self.stays.start)[self.stays.calls[1:] == 0] if self.stays is not None else np.zeros(0)
        if len(apart) < LINES_KNOWN:
            return LINE_US
        alone = float(np.clip(np.quantile(apart, LINES_QUICK), *LINE_LIMITS_US))
        return alone / (self._running[0] if self._running is not None else 1.0)

    def looks(self, start: F64, end: F64) -> F64:
        """What was written down in these parts of stays, in line events: the event that begins it, and a share of its calls of a
        library's functions, which lie where no operator runs. Shape (n,)."""
        if self.stays is None:
            return np.zeros(len(start))
        times, calls = self.stays.start, self.stays.calls
        until = np.append(times, np.inf)
        passed = self._passed(np.append(times, self.facts.recorded.end[-1:]))
        within = np.append(0.0, np.maximum(np.diff(passed), 0.0))
        rate: F64 = np.zeros(len(times) + 1)
        of = np.append(0, np.append(calls[1:], 0))
        np.divide(of, within, out=rate, where=within > 0)
        at = np.searchsorted(times, start, side="right")
        begun = np.where((at > 0) & (until[np.maximum(at - 1, 0)] == start), 1.0, 0.0)
        return begun + CALL_US / LINE_US * rate[at] * (self._passed(end) - self._passed(start))

    def _passed(self, moments: F64) -> F64:
        """How much of the time without operators lies before each moment."""
        start, end = self.python.start, self.python.end
        if not len(start):
            return np.zeros(len(moments))
        whole = np.append(0.0, np.cumsum(end - start))
        at = np.searchsorted(start, moments, side="right")
        last = np.maximum(at - 1, 0)
        found: F64 = np.where(at > 0, whole[last] + np.minimum(moments, end[last]) - start[last], 0.0)
        return found

    @cached_property
    def _written(self) -> tuple[float, float]:
        """What writing down took at its usual cost: of lines and calls, and of operators."""
        lines = 0.0
        if self.stays is not None:
            inside = spans.within(self.facts.recorded, self.stays.start)
            lines = float(inside.sum()) + CALL_US / LINE_US * float(self.stays.calls[inside].sum())
        return lines * self._line_us, self._ops * OP_US / LINE_US * self._line_us

    @cached_property
    def _ops(self) -> int:
        """How many operators were written down."""
        return int(self.facts.all_within(self.facts.trace.ops.start).sum())

    @cached_property
    def _running(self) -> tuple[float, float] | None:
        """What part of the recorded and of the unprofiled steps their thread computed; None where it was not measured."""
        sidecar = self.facts.sidecar
        window = sidecar.windows[0] if sidecar is not None and sidecar.windows else None
        if window is None or not window.running or not window.plain_running:
            return None
        return max(window.running, LEAST_RUNNING), max(window.plain_running, LEAST_RUNNING)

    @cached_property
    def bare(self) -> Bare | None:
        """The steps that were recorded without their lines; None where there were none."""
        sidecar = self.facts.sidecar
        window = sidecar.windows[0] if sidecar is not None and sidecar.windows else None
        if window is None or window.bare is None or not self.facts.steps:
            return None
        names, bare = window.bare.names, window.bare
        works = (
            np.array([not _encloses(text, self._functions) for text in names], dtype=bool),
            np.array([text.startswith((*COMPILED, *GROUPS)) for text in names], dtype=bool),
        )
        rows = [(a, a + length) for kind, name, a, length in bare.rows if works[kind][name]]
        if not rows or not bare.steps:
            return None
        at = np.array(rows, dtype=np.int64)
        zero = bare.steps[0].start_ns
        start, end = (at[:, 0] - zero) / 1000.0, (at[:, 1] - zero) / 1000.0
        (opens, closes), (begins, ends) = self._working
        return Bare(
            [gaps(np.append(opens, begins), np.append(closes, ends), lo, hi) for lo, hi in self.facts.steps],
            [gaps(start, end, (s.start_ns - zero) / 1000.0, (s.end_ns - zero) / 1000.0) for s in bare.steps],
            float(np.median(bare.plain_ns)) / 1000.0 if bare.plain_ns else self.facts.document.totals.plain_step_us,
            max(0.0, float(np.median(bare.faults) - np.median(bare.plain_faults)))
            if bare.faults and bare.plain_faults
            else 0.0,
        )

    def unprofiled(self, start: F64, end: F64) -> F64:
        """What these parts of stays, within the stretches, take without a recorder. Microseconds over all steps. Shape (n,)."""
        looks = self.looks(start, end)
        if self.bare is not None:
            return self.bare.unprofiled(start, end, looks, spans.measure(self.python))
        line, part = self.pace
        found: F64 = (end - start - line * looks) * part
        return found

    @cached_property
    def plain_us(self) -> float:
        """The recorded steps as long as they are unprofiled on a machine as busy, and no longer than recorded, which would be
        others' doing. What writing down takes is taken off where no such step was measured."""
        if self.bare is not None:
            return self._plain_of(self.bare) * self.facts.n
        plain, recorded = self.facts.document.totals.plain_step_us, self.facts.recorded_us
        if not plain:
            return max(0.0, recorded - sum(self._written))
        busier = self._running[1] / self._running[0] if self._running is not None else 1.0
        return min(plain * busier * self.facts.n, recorded)

    def _plain_of(self, bare: Bare) -> float:
        """A step without lines, less what its operators' being written down takes: what the unprofiled step is shorter by, within what
        that can be, for the two were not measured at the same time."""
        ops = self._ops * OP_US / self.facts.n
        step = bare.python_us + bare.operators_us
        longer = step - bare.plain_us if bare.plain_us else ops
        written = float(
            np.clip(longer, WRITTEN[0] * ops, WRITTEN[1] * ops + CACHES * bare.operators_us + bare.pages * FAULT_US)
        )
        return step - min(written, MOST_OPS * bare.operators_us)

    @cached_property
    def pace(self) -> tuple[float, float]:
        """(what a line event took, how much of a microsecond of the Python's other time there is in an unprofiled step).

        Recorded steps are longer than unprofiled ones because their operators are somewhat slower and because of what was written
        down, which is taken off at what it must have cost for that, within limits. What they are then still longer is put down
        to Python as well: no work is promised that was not there.
        """
        if self.bare is not None:
            return 0.0, 1.0
        lines, ops = self._written
        busy, python = spans.measure(self.busy), spans.measure(self.python)
        longer = self.facts.recorded_us - self.plain_us
        slower = float(np.clip(longer, 0.0, CACHES * busy))
        scale = float(np.clip((longer - slower) / (lines + ops), *WRITTEN)) if lines + ops > 0 else 1.0
        most = min(scale, MOST_LINES * python / lines) if lines > 0 else scale
        lines, ops = lines * most, min(ops * scale, MOST_OPS * busy)
        rest, python = self.facts.recorded_us - lines - ops - slower, python - lines
        if python <= 0 or rest <= 0:
            return self._line_us * most, 0.0
        over = rest - self.plain_us
        return self._line_us * most, max(0.0, 1.0 - over / python) if over > 0 else self.plain_us / rest

    # -- the statements ---------------------------------------------------------------------------------------------

    @cached_property
    def asleep_us(self) -> float:
        """Of the recorded steps, the time in which their thread neither ran nor was ready to, less what it is known to have waited
        for. Whatever of the stretches that is, is no work."""
        facts, sidecar = self.facts, self.facts.sidecar
        window = sidecar.windows[0] if sidecar is not None and sidecar.windows else None
        if sidecar is None or window is None or window.asleep_ns is None or facts.host_thread != sidecar.pid:
            return 0.0
        length = window.end_ns - window.start_ns
        asleep = window.asleep_ns / length * facts.recorded_us if length > 0 else 0.0
        return max(0.0, asleep - spans.measure(facts.loader_spans))


def _encloses(name: str, functions: set[str]) -> bool:
    """Whether an operator's row stands around the program's own Python: a function of its own, its backward pass, a place."""
    name = name.removeprefix(ENGINE)
    return name.startswith(OTHERS) or name in functions or name.removesuffix("Backward") in functions
