"""Tensors that a thread allocated just before it launched a kernel: mostly what that kernel fills."""

from __future__ import annotations

import ast
import math

import numpy as np

from ridgeline.trace.tables import F64, I32, Trace

MAKES = ("aten::empty", "aten::empty_strided")
"""What ``empty_like``, ``zeros``, ``new_empty``… come down to."""
TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool", 15: "bfloat16",
    23: "float8_e5m2", 24: "float8_e4m3fn",
}  # fmt: skip
"""c10/core/ScalarType.h"""
DEFAULT_TYPE = 6
PLACE = {"aten::empty": 1, "aten::empty_strided": 2}
"""Position of the type among the op's arguments."""


class Allocations:
    """What each launch found newly allocated; tables are made at the first question."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._launches: dict[int, F64] = {}
        """Thread -> starts of its launches, sorted."""
        self._makes: dict[int, tuple[F64, I32]] = {}
        """Thread -> starts of its allocations, sorted, and their rows."""
        self._ready = False

    def before(self, call: int) -> tuple[tuple[tuple[int, ...], str], ...]:
        """(shape, type) of the tensors allocated between the launch ``call`` and the one before it in its thread; of a graph
        that is replayed nothing is known."""
        trace = self._trace
        if call < 0 or "Graph" in trace.strings[int(trace.calls.name[call])]:
            return ()
        if not self._ready:
            self._prepare()
        at, thread = float(trace.calls.start[call]), int(trace.calls.tid[call])
        launches = self._launches.get(thread)
        if launches is None or thread not in self._makes:
            return ()
        place = int(np.searchsorted(launches, at))
        since = float(launches[place - 1]) if place > 0 else -math.inf
        starts, rows = self._makes[thread]
        first, last = (int(n) for n in np.searchsorted(starts, (since, at)))
        found = []
        for row in rows[first:last]:
            made = _made(trace, int(trace.ops.args[row]), trace.strings[int(trace.ops.name[row])])
            if made is not None:
                found.append(made)
        return tuple(found)

    def _prepare(self) -> None:
        calls, ops, strings = self._trace.calls, self._trace.ops, self._trace.strings
        launches = np.isin(calls.name, [i for i, name in enumerate(strings) if "Launch" in name])
        makes = np.flatnonzero(np.isin(ops.name, [i for i, name in enumerate(strings) if name in MAKES]))
        for thread in np.unique(calls.tid[launches]):
            self._launches[int(thread)] = np.sort(calls.start[launches & (calls.tid == thread)])
        for thread in np.unique(ops.tid[makes]):
            rows = makes[ops.tid[makes] == thread]
            rows = rows[np.argsort(ops.start[rows], kind="stable")].astype(np.int32)
            self._makes[int(thread)] = (ops.start[rows], rows)
        self._ready = True


def _made(trace: Trace, args: int, name: str) -> tuple[tuple[int, ...], str] | None:
    given = trace.op_args.concrete_inputs[args] if args >= 0 else None
    if not given:
        return None
    try:
        sizes = ast.literal_eval(str(given[0]))
        code = int(given[PLACE[name]]) if len(given) > PLACE[name] and str(given[PLACE[name]]) else DEFAULT_TYPE
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(sizes, list) or not all(isinstance(n, int) for n in sizes) or code not in TYPES:
        return None
    return tuple(sizes), TYPES[code]
