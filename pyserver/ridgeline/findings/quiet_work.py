"""Which statements of a program fill the stretches of its steps in which no operator runs (``quiet``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.findings import spans
from ridgeline.findings.quiet import Quiet
from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import F64, I64

MANY = 8.0
"""Times a stretch that a statement is come to, from which it is a loop's, or calls something in one."""
MOST = 0.5
"""Part of a statement's time that known statements within it must have for them to be named in its place."""
STEPS = 0.5
"""Part of the steps in which it must be. Less often is an evaluation or a checkpoint now and then."""
USUALLY = 0.5
"""Part of the times that the program comes to a statement, in which no operator must run for long. A thread that another program
takes the core from for a while is anywhere."""
UNUSUAL = 3.0
"""Times what a statement takes in the middle one of its steps, that it takes in any."""
CONVERTS = "aten::lift_fresh"
"""What ``torch.tensor`` of Python's numbers ends with (``tensor_new.cpp``): it asks for their type, has memory, stores one after another..."""
CONVERTING = ("aten::empty", "aten::to", "aten::_to_copy", "aten::empty_strided", "aten::copy_", CONVERTS)
"""...and changes type or device: the operators between which it is at that."""
BEFORE_US = 1500.0
"""Unprofiled. Of a statement that runs operators itself only what lies before its first one is looked at, and from here on: modules and functions
of torch's walk over parameters there, and after the last one a graph is given back."""


class Work(NamedTuple):
    """What a statement of the program does while no operator runs."""

    at: SourceRef
    us: float
    """Over the recorded steps, as it is without a recorder."""
    claims: Spans
    """Recorded stretches in which it is."""
    times: float
    """A step, that the program comes to it."""
    looped: bool = False
    """Whether the program comes to it many times in one stretch."""
    operating: bool = False
    """Whether it runs operators as well, or calls what does."""
    others: tuple[SourceRef, ...] = ()
    """More statements of the same loop."""

    def plus(self, other: Work) -> Work:
        """The same statement, come to from elsewhere."""
        return self._replace(
            us=self.us + other.us,
            claims=spans.together(self.claims, other.claims),
            times=self.times + other.times,
            looped=self.looped or other.looped,
            operating=self.operating and other.operating,
            others=self.others or other.others,
        )


class QuietWork:
    """Statements and the statements that they call, with the time that each is at while no operator runs."""

    def __init__(self, quiet: Quiet) -> None:
        facts = quiet.facts
        self.facts, self.quiet = facts, quiet
        stays, lines = facts.context.attribution.host_stays, quiet.stays
        assert stays is not None
        assert lines is not None
        self.stays, self.lines = stays, lines
        times, nodes = lines.start, lines.node
        gaps = quiet.stretches
        inside = spans.within(gaps, times)
        start = np.concatenate([gaps.start, times[inside]])
        order = np.argsort(start, kind="stable")
        self.start: F64 = start[order]
        node = np.concatenate([self._at(gaps.start), nodes[inside]])[order]
        self.begun = order >= len(gaps.start)
        """Segments that the program comes to, rather than that an operator leaves."""
        self.gap: I64 = np.searchsorted(gaps.start, self.start, side="right") - 1
        ends = gaps.end[self.gap] if len(gaps.end) else self.start
        self.end: F64 = np.minimum(np.append(self.start[1:], np.inf), ends)
        kinds, self.at = np.unique(node, return_inverse=True)
        self.kinds: list[int] = kinds.tolist()
        ops, rows = facts.trace.ops, quiet.operators
        self.operating = self._callers(np.unique(self._at(ops.start[rows[ops.tid[rows] == facts.host_thread]])))
        """Nodes at which or within which operators begin."""
        self.converts = self._converts()
        """Segments in which a list becomes a tensor."""
        took = quiet.unprofiled(self.start, self.end)
        counted = self._ours(node) & ~self._operating(node, took)
        took = np.where(counted & self._usual(node, counted), took, 0.0)
        # A line that is quicker than what was taken off of it gives to the others of its loop.
        own = np.bincount(self.at, weights=took, minlength=len(self.kinds)).tolist()
        self.around = self._around()
        listed = np.bincount(self.at, weights=took * self.converts, minlength=len(self.kinds)).tolist()
        self.listing = {k for k, spent, of in zip(self.kinds, listed, own) if 0.0 < MOST * of <= spent}
        """Nodes that are at that most of their own time."""
        self.own: dict[int, float] = dict(zip(self.kinds, own))
        self.total: dict[int, float] = {}
        self.paths: dict[int, list[int]] = {}
        """Of every node that was stayed at: it and its callers, innermost first."""
        for kind, spent in zip(self.kinds, own):
            path, at = [], kind
            while at >= 0:
                path.append(at)
                at = stays.frame(at)[0]
            self.paths[kind] = path
            for each in path:
                self.total[each] = self.total.get(each, 0.0) + spent

    def _callers(self, nodes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """These nodes and all that call them."""
        found: set[int] = set()
        for node in nodes.tolist():
            while node >= 0 and node not in found:
                found.add(node)
                node = self.stays.frame(node)[0]
        return np.array(sorted(found), dtype=np.int32)

    def _around(self) -> set[int]:
        """Statements from which the steps are called: ``main()`` is no work of a step's, but all of it."""
        starts = self._at(np.array([lo for lo, _ in self.facts.steps], dtype=np.float64))
        found = set()
        for node in {int(n) for n in starts if n >= 0}:
            caller = self.stays.frame(node)[0]
            while caller >= 0:
                found.add(caller)
                caller = self.stays.frame(caller)[0]
        return found

    def _ours(self, node: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Segments that are the program's own work: not a loader that starts, not within an optimizer or the backward pass unless
        they call the program's own code."""
        facts = self.facts
        known = node >= 0
        loaders = {(x.file, x.line) for x in facts.sidecar.loaders} if facts.sidecar is not None else set()
        for k, kind in enumerate(self.kinds):
            ref = self.stays.ref(kind) if kind >= 0 else None
            if ref is None or ref.library or (ref.file, ref.line) in loaders or ".backward(" in (ref.text or ""):
                known &= self.at != k
        calls = np.array([lo for lo, _, _ in facts.optimizer_spans.get(facts.host_thread, [])], dtype=np.float64)
        return known & ~np.isin(node, self._at(calls))

    def _operating(self, node: npt.NDArray[np.int32], took: F64) -> npt.NDArray[np.bool_]:
        """Segments at statements that run operators themselves, but for long ones with which the program comes to them."""
        callers = np.array([self.stays.frame(k)[0] if k >= 0 else -1 for k in self.kinds], dtype=np.int64)
        comes = self.begun.copy()
        comes[1:] &= node[1:] != callers[self.at[:-1]]  # not back from what it called
        return np.isin(node, self.operating) & ~(comes & (took >= BEFORE_US)) & ~self.converts

    def _converts(self) -> npt.NDArray[np.bool_]:
        """Segments that an operator ends with which a list of Python's numbers becomes a tensor."""
        facts, ops = self.facts, self.facts.trace.ops
        rows = np.flatnonzero(ops.tid == facts.host_thread)
        rows = rows[np.argsort(ops.start[rows], kind="stable")]
        known = {text: at for at, text in enumerate(facts.names)}
        parts = np.isin(ops.name[rows], [known[text] for text in CONVERTING if text in known])
        ends: set[float] = set()
        for last in np.flatnonzero(ops.name[rows] == known.get(CONVERTS, -1)).tolist():
            while last >= 0 and parts[last]:
                ends.add(float(ops.start[rows[last]]))
                last -= 1
        found: npt.NDArray[np.bool_] = np.isin(self.end, np.array(sorted(ends)))
        return found

    def _usual(self, node: npt.NDArray[np.int32], counted: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Segments at statements that are part of a stretch most times that the program comes to them."""
        inside = self.lines.node[spans.within(self.facts.recorded, self.lines.start)]
        kinds, comes = np.unique(inside, return_counts=True)
        size = int(max(kinds.max(initial=-1), node.max(initial=-1))) + 2  # -1 is the last
        every, mine = np.zeros(size), np.zeros(size)
        every[kinds] = comes
        np.add.at(mine, node[counted & self.begun], 1)
        found: npt.NDArray[np.bool_] = mine[node] >= USUALLY * every[node]
        return found

    def _at(self, moments: F64) -> npt.NDArray[np.int32]:
        """The node at each moment, -1 before the first that is known."""
        times, nodes = self.lines.start, self.lines.node
        before = np.searchsorted(times, moments, side="right") - 1
        found: npt.NDArray[np.int32] = np.where(before >= 0, nodes[np.maximum(before, 0)], -1)
        return found

    def _mask(self, inside: set[int]) -> npt.NDArray[np.bool_]:
        """Segments that are at any of these nodes."""
        flags = np.array([k in inside for k in self.kinds], dtype=bool)
        found: npt.NDArray[np.bool_] = flags[self.at]
        return found

    def _within(self, node: int, *, own: bool = True) -> set[int]:
        """Nodes stayed at that are the node or within it."""
        return {k for k, path in self.paths.items() if node in path and (own or k != node)}

    def _comes(self, mask: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """(how often the program comes to these segments from others, in how many stretches)."""
        begins = mask.copy()
        begins[1:] &= ~mask[:-1] | (self.gap[1:] != self.gap[:-1])
        return int(begins.sum()), len(np.unique(self.gap[mask]))

    def work(self, least_us: float) -> list[Work]:
        """Statements with at least so much of it, of each stretch the innermost that explain it. Microseconds over the recorded
        steps, as they are without a recorder."""
        merged: dict[tuple[str, int], Work] = {}
        for found in self._split(-1, least_us):
            key = (found.at.file, found.at.line)
            have = merged.get(key)
            merged[key] = found if have is None else have.plus(found)
        # Whatever the thread slept may have been in any of them.
        awake = (w._replace(us=w.us - self.quiet.asleep_us * self.quiet.pace[1]) for w in merged.values())
        return sorted((w for w in awake if w.us >= least_us), key=lambda w: -w.us)

    def _split(self, caller: int, least_us: float) -> list[Work]:
        """Of the statements that a statement calls (-1: the outermost) those with the time, each as deep as it is explained."""
        by_code: dict[int, list[int]] = {}
        for node in self.total:
            parent, code = self.stays.frame(node)
            if parent == caller:
                by_code.setdefault(code, []).append(node)
        found: list[Work] = []
        for nodes in by_code.values():
            looped: list[int] = []
            for node in nodes:
                visits, gaps = self._comes(self._mask(self._within(node)))
                if visits >= MANY * gaps:
                    looped.append(node)
                elif self.total[node] >= least_us:
                    found += self._single(node, visits, least_us)
            if sum(self.total[n] for n in looped) >= least_us:
                found += self._emit(sorted(looped, key=lambda n: -self.total[n]), looped=True)
        return found

    def _single(self, node: int, visits: int, least_us: float) -> list[Work]:
        entries, _ = self._comes(self._mask(self._within(node, own=False)))
        if entries < MANY * visits:
            inner = self._split(node, least_us)
            if sum(w.us for w in inner) >= MOST * self.total[node]:
                alone = self.own.get(node, 0.0) >= least_us and node not in self.around
                return inner + (self._emit([node], looped=False, inner=False) if alone else [])
            if node in self.around:
                return inner
        return self._emit([node], looped=False)

    def _emit(self, nodes: list[int], *, looped: bool, inner: bool = True) -> list[Work]:
        """One piece of work of these statements, the first of which speaks; ``inner``: with what they call."""
        facts = self.facts
        ref = self.stays.ref(nodes[0])
        mask = self._mask({k for n in nodes for k in self._within(n)} if inner else set(nodes))
        claims = spans.union(self.start[mask], self.end[mask])
        steps = np.array([lo for lo, _ in facts.steps] or [facts.recorded.start[0]])
        where = np.searchsorted(steps, self.start[mask], side="right")
        each = np.bincount(where, weights=(self.end - self.start)[mask], minlength=len(steps) + 1)
        seen = np.unique(where)
        if ref is None or len(seen) < STEPS * len(steps):
            return []
        # What is far longer in a single step is the machine's or the garbage collector's; steps without lines have their medians.
        usual = float(np.minimum(each, UNUSUAL * float(np.median(each[seen]))).sum() / max(each.sum(), 1e-9))
        usual = 1.0 if self.quiet.bare is not None else usual
        others = [
            r for n in nodes[1:] if (r := self.stays.ref(n)) is not None and (r.file, r.line) != (ref.file, ref.line)
        ]
        visits, _ = self._comes(mask)
        return [
            Work(
                ref,
                usual * sum((self.total if inner else self.own)[n] for n in nodes),
                claims,
                visits / facts.n,
                looped,
                nodes[0] in self.operating and nodes[0] not in self.listing,
                tuple(others),
            )
        ]
