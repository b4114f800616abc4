"""Views over several kernels: the bound of a line, the last line of its statement, and the functions that hold several rows."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.index import Json

AGREEMENT = 0.8
"""Part of a line's kernel time that must share one bound before the line is said to have it."""


def bound_of(kernels: Iterable[Mapping[str, Any]]) -> Json:
    """``bound`` (a bound, ``mixed`` or ``None``), ``estimated``, ``agreement`` (0..1) of several kernels by their time.

    A kernel's whole time weighs, also where other lines share it: the document has no time per kernel and line.
    """
    time: dict[str, float] = defaultdict(float)
    estimated = False
    for kernel in kernels:
        bound = kernel.get("bound") or "unknown"
        time[bound] += float(kernel["total_us"])
        estimated = estimated or (bound != "unknown" and kernel.get("bound_source") != "counters")
    total = sum(time.values())
    known = {bound: value for bound, value in time.items() if bound != "unknown"}
    if not total or sum(known.values()) < AGREEMENT * total:
        return {"bound": None, "estimated": False, "agreement": None}
    best = max(known, key=lambda bound: known[bound])
    agreement = known[best] / total
    return {
        "bound": best if agreement >= AGREEMENT else "mixed",
        "estimated": estimated,
        "agreement": round(agreement, 3),
    }


def functions_of(rows: list[Json], text: str | None) -> list[Json]:
    """Gives every row the last line of its statement (``end``), and returns the functions that hold several rows.

    A function's time is the sum of its rows' split times, which are disjoint; lines of nested functions count for both.
    """
    if text is None:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    ends: dict[int, int] = {}
    functions: list[tuple[int, int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append((node.lineno, node.end_lineno or node.lineno, node.name))
        elif isinstance(
            node, (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
        ):
            continue
        elif isinstance(node, ast.stmt):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                ends[line] = max(ends.get(line, 0), node.end_lineno or node.lineno)
    for row in rows:
        end = ends.get(row["line"])
        if end and end > row["line"]:
            row["end"] = end
    found: list[Json] = []
    for first, last, name in sorted(functions):
        inside = [row for row in rows if first <= row["line"] <= last and row.get("granularity") != "function"]
        if len(inside) < 2:
            continue
        split = sum(row.get("device_us") or 0.0 for row in inside)
        share = sum(_split_share(row) for row in inside)
        found.append(
            {
                "line": first,
                "end": last,
                "name": name,
                "device_us": split,
                "step_share_pct": min(share, 100.0)
                if any(row.get("step_share_pct") is not None for row in inside)
                else None,
                "share_pct": sum(row.get("share_pct") or 0.0 for row in inside),
                "count": sum(row.get("count") or 0 for row in inside),
                "rows": len(inside),
                **_function_bound(inside),
            }
        )
    return found


def _split_share(row: Mapping[str, Any]) -> float:
    """A row's part of the step when shared launches are split, so that a function's rows add up."""
    share, split, whole = row.get("step_share_pct"), row.get("device_us") or 0.0, row.get("unsplit_us") or 0.0
    return float(share) * (split / whole if whole else 1.0) if share is not None else 0.0


def _function_bound(rows: Iterable[Mapping[str, Any]]) -> Json:
    as_kernels = [
        {
            "bound": row["bound"]
            if row["bound"] in ("memory", "compute", "latency")
            else "unknown"
            if row["bound"] is None
            else "mixed",
            "total_us": row.get("device_us") or 0.0,
            "bound_source": "estimated" if row.get("estimated") else "counters",
        }
        for row in rows
    ]
    return bound_of(as_kernels)
