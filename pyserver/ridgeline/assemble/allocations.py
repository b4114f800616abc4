"""Tensors that a thread allocated just before it launched a kernel: mostly what that kernel fills."""

from __future__ import annotations

import ast
import math

import numpy as np

from ridgeline.trace.tables import Trace

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


def made_before(trace: Trace, call: int) -> tuple[tuple[tuple[int, ...], str], ...]:
    """(shape, type) of the tensors allocated between the launch ``call`` and the one before it in its thread."""
    calls, ops = trace.calls, trace.ops
    if call < 0:
        return ()
    at, thread = float(calls.start[call]), calls.tid[call]
    launches = [i for i, name in enumerate(trace.strings) if "Launch" in name]
    earlier = calls.start[(calls.tid == thread) & (calls.start < at) & np.isin(calls.name, launches)]
    since = float(earlier.max()) if len(earlier) else -math.inf
    names = {i: text for i, text in enumerate(trace.strings) if text in MAKES}
    inside = (ops.tid == thread) & (ops.start > since) & (ops.start < at) & np.isin(ops.name, list(names))
    found = []
    for row in np.flatnonzero(inside):
        made = _made(trace, int(ops.args[row]), names[int(ops.name[row])])
        if made is not None:
            found.append(made)
    return tuple(found)


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
