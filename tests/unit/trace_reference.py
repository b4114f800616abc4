"""A slow reader in plain Python over ``json``, written apart from the product: what its sums are checked against.

Exact by construction: numbers are Decimals. One dict an event, one loop a question.
"""

from __future__ import annotations

import bz2
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

KERNELS = {"kernel", "Kernel", "mtia_ccp_events"}
COPIES = {"gpu_memcpy", "Memcpy"}
SETS = {"gpu_memset", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime", "xpu_runtime", "xpu_driver"}
OPS = {"cpu_op", "Operator"}


@dataclass
class Reference:
    kernel_total: dict[int, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    copy_total: dict[int, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    busy: dict[int, Decimal] = field(default_factory=dict)
    span: dict[int, Decimal] = field(default_factory=dict)
    by_name: dict[str, tuple[int, Decimal]] = field(default_factory=dict)
    linked: int = 0
    """Device events whose correlation some call has."""
    ops: int = 0
    self_total: Decimal = Decimal(0)
    self_by_name: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    frames: int = 0
    memory: int = 0


def load(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:3] == b"BZh":
        data = bz2.decompress(data)
    top = json.loads(data, parse_float=Decimal)
    while isinstance(top, dict):
        top = top["traceEvents"]
    return [event for event in top if isinstance(event, dict)]


def _number(value: Any) -> int:
    return int(str(value).rsplit(" ", 1)[-1])


def reference(path: Path) -> Reference:
    out = Reference()
    spans: dict[int, list[tuple[Decimal, Decimal]]] = defaultdict(list)
    correlations, wanted = set(), []
    by_name: dict[str, list[Decimal]] = defaultdict(list)
    threads: dict[tuple[Any, Any], list[tuple[Decimal, Decimal, str]]] = defaultdict(list)
    for event in load(path):
        category, args = event.get("cat"), event.get("args") or {}
        if event.get("ph") == "i" and event.get("name") == "[memory]":
            out.memory += 1
        if event.get("ph") != "X":
            continue
        start, dur, name = Decimal(event["ts"]), Decimal(event["dur"]), event["name"]
        if category in KERNELS | COPIES | SETS:
            device = args["device"] if "device" in args else _number(event["pid"])
            spans[device].append((start, start + dur))
            is_kernel = category in KERNELS and name != "dma_request"
            (out.kernel_total if is_kernel else out.copy_total)[device] += dur
            by_name[name].append(dur)
            wanted.append(args.get("correlation"))
        elif category in CALLS:
            if "correlation" in args:
                correlations.add(args["correlation"])
        elif category in OPS and not name.startswith("ProfilerStep#"):
            out.ops += 1
            threads[_number(event["pid"]), _number(event["tid"])].append((start, start + dur, name))
        elif category == "python_function":
            out.frames += 1
    for device, pieces in spans.items():
        pieces.sort()
        busy, reach = Decimal(0), pieces[0][0]
        for start, end in pieces:
            if end > reach:
                busy += end - max(start, reach)
                reach = end
        out.busy[device] = busy
        out.span[device] = max(end for _, end in pieces) - pieces[0][0]
    out.by_name = {name: (len(durs), sum(durs, Decimal(0))) for name, durs in by_name.items()}
    out.linked = sum(correlation in correlations for correlation in wanted)
    for pieces in threads.values():
        _self_times(pieces, out)
    return out


def _self_times(pieces: list[tuple[Decimal, Decimal, str]], out: Reference) -> None:
    """Sweeps the moments at which something begins or ends; between two, the time is the latest begun open op's."""
    pieces.sort(key=lambda piece: (piece[0], -(piece[1] - piece[0])))
    moments: list[tuple[Decimal, int, int]] = []
    for row, (start, end, _) in enumerate(pieces):
        if end > start:
            moments += [(start, 1, row), (end, 0, row)]
    moments.sort()
    open_rows: list[int] = []
    last = Decimal(0)
    for moment, begins, row in moments:
        if open_rows and moment > last:
            owner = max(open_rows)
            out.self_by_name[pieces[owner][2]] += moment - last
            out.self_total += moment - last
        last = moment
        if begins:
            open_rows.append(row)
        else:
            open_rows.remove(row)
