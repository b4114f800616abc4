"""Small traces for tests, in the shorthand of CASES.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace

Json = dict[str, Any]


def kernel(
    ts: Any, dur: Any, name: str = "k", *, stream: int = 7, device: int = 0, corr: int | None = None, ext: int | None = None,
    cat: str = "kernel", **args: Any,
) -> Json:  # fmt: skip
    own: Json = {"device": device, "stream": stream, **args}
    if corr is not None:
        own["correlation"] = corr
    if ext is not None:
        own["External id"] = ext
    return {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur, "args": own}


def call(
    ts: Any, dur: Any = 5, name: str = "cudaLaunchKernel", *, corr: int | None = None, ext: int | None = None,
    cat: str = "cuda_runtime", pid: int = 100, tid: int = 100,
) -> Json:  # fmt: skip
    own: Json = {}
    if corr is not None:
        own["correlation"] = corr
    if ext is not None:
        own["External id"] = ext
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": own}


def op(
    ts: Any, dur: Any, name: str = "aten::add", *, ext: int | None = None, pid: int = 100, tid: int = 100, **args: Any
) -> Json:
    own: Json = dict(args)
    if ext is not None:
        own["External id"] = ext
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": own}


def label(ts: Any, dur: Any, name: str, *, pid: int = 100, tid: int = 100) -> Json:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}


def frame(ts: Any, dur: Any, name: str, *, id: int | None = None, parent: int | None = None, tid: int = 100) -> Json:
    args = {"Python id": id, "Python parent id": parent}
    return {
        "ph": "X",
        "cat": "python_function",
        "name": name,
        "pid": 100,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def write(folder: Path, events: Any, **top: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({**top, "traceEvents": events}))
    return path


def built(folder: Path, *events: Json, **top: Any) -> Trace:
    """Writes the events as a trace and reads it back."""
    return read_trace(write(folder, list(events), **top))


def raw(folder: Path, text: bytes, name: str = "trace.json") -> Trace:
    """Reads these bytes as a trace."""
    path = folder / name
    path.write_bytes(text)
    return read_trace(path)


def codes(trace: Trace) -> dict[str, str]:
    """Warnings by code."""
    return {warning.code: warning.message for warning in trace.quality.warnings}
