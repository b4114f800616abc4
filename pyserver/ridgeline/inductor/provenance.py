"""Reading a ``TORCH_TRACE`` log (``dedicated_log_torch_trace_*.log``): what Inductor itself says of its kernels.

A record is one line, ``V1129 12:29:22.345000 455 torch/_inductor/graph.py:2575] {json}``, followed by its payload, every
line of which begins with a tab. Records that belong to one graph carry the same compile id and follow one another:
``inductor_output_code`` (the wrapper module, with its text as payload), the artifacts
``inductor_provenance_tracking_node_mappings`` and ``…_kernel_stack_traces``, and ``fx_graph_cache_miss`` or ``_hit``
(whose ``key`` is the one in the trace's ``## Call CompiledFxGraph KEY ##``). A record or a payload that cannot be read is
skipped and counted, never fatal: logs of killed jobs end in the middle.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.inductor.module import WrapperModule, parse_wrapper

MAX_LOG_BYTES = 2_000_000_000
"""Uncompressed, per log file."""

MOST_NAMED = 20
"""Damaged payloads that are named."""

_HEADER = re.compile(r"^[VDIWECF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+\] (?P<json>\{.*)$")
_STACKS = "inductor_provenance_tracking_kernel_stack_traces"
_MAPPINGS = "inductor_provenance_tracking_node_mappings"
_CACHE = frozenset({"fx_graph_cache_miss", "fx_graph_cache_hit", "fx_graph_cache_bypass"})


@dataclass(slots=True, frozen=True, kw_only=True)
class LogFrame:
    file: str
    line: int
    function: str
    text: str | None
    """None on the entry that stands for the compiled code itself."""


@dataclass(slots=True, kw_only=True)
class GraphLog:
    """One compiled graph."""

    compile_id: str | None
    path: str
    source: str | None = None
    fx_key: str | None = None
    kernel_stacks: dict[str, list[str]] = field(default_factory=dict)
    post_grad_nodes: dict[str, list[str]] = field(default_factory=dict)
    """``kernel:handle`` -> names of the FX nodes that it computes (forward and inference graphs only)."""
    module: WrapperModule | None = None


@dataclass(slots=True, kw_only=True)
class ProvenanceLog:
    graphs: list[GraphLog] = field(default_factory=list)
    regions: dict[str, list[LogFrame]] = field(default_factory=dict)
    """Compile id -> the Python stack at ``dynamo_start``, outermost first; the last entry is the compiled code."""
    skipped: int = 0
    """Records or payloads that could not be read."""
    damaged: list[tuple[str, int]] = field(default_factory=list)
    """(name of the payload, line of its record) of payloads that are no JSON though they should be; of the first 20."""
    events: int = 0
    """The compiler's own events (``chromium_event``) that can be read: nothing is taken from them."""
    truncated: bool = False


@dataclass(slots=True, kw_only=True)
class _Record:
    head: dict[str, Any]
    payload: str | None
    line: int
    """Of its head in the log, from 1."""

    @property
    def compile_id(self) -> str | None:
        if isinstance(given := self.head.get("compile_id"), str):
            return given
        frame, number = self.head.get("frame_id"), self.head.get("frame_compile_id")
        if not isinstance(frame, int) or not isinstance(number, int):
            return None
        autograd = self.head.get("compiled_autograd_id")
        return f"!{autograd}/{frame}/{number}" if isinstance(autograd, int) else f"{frame}/{number}"


def read_provenance(path: Path) -> ProvenanceLog:
    """A log (``.log`` or ``.log.gz``), or a folder of them (one a process), as one.

    Raises OSError when ``path`` cannot be read at all.
    """
    log = ProvenanceLog()
    files = sorted(p for p in path.rglob("*") if p.is_file() and ".log" in p.name) if path.is_dir() else [path]
    for file in files:
        _read_into(log, _rows(file, log))
    return log


def parse_provenance(text: str) -> ProvenanceLog:
    """The log of ``text``."""
    log = ProvenanceLog()
    _read_into(log, text.splitlines())
    return log


def _rows(path: Path, log: ProvenanceLog) -> Iterator[str]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    total = 0
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as stream:
            for row in stream:
                total += len(row)
                if total > MAX_LOG_BYTES:
                    log.truncated = True
                    return
                yield row.decode("utf-8", "replace").rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        log.truncated = True


def _records(rows: Iterable[str], log: ProvenanceLog) -> Iterator[_Record]:
    head: dict[str, Any] | None = None
    payload: list[str] = []
    at = 0
    for number, row in enumerate(rows, 1):
        if row.startswith("\t"):
            payload.append(row[1:])
            continue
        if head is not None:
            yield _Record(head=head, payload="\n".join(payload) if payload else None, line=at)
        head, payload, at = None, [], number
        match = _HEADER.match(row)
        if match is None:
            continue
        value = _json(match["json"])
        if isinstance(value, dict):
            head = value
        else:
            log.skipped += 1
    if head is not None:
        yield _Record(head=head, payload="\n".join(payload) if payload else None, line=at)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_into(log: ProvenanceLog, rows: Iterable[str]) -> None:
    names: dict[int, str] = {}
    current: dict[str | None, GraphLog] = {}
    """Compile id -> its latest graph: artifacts follow the output code that they belong to."""
    early: dict[str | None, dict[str, list[str]]] = {}
    for record in _records(rows, log):
        head = record.head
        if isinstance(interned := head.get("str"), list) and len(interned) == 2 and isinstance(interned[1], int):
            names[interned[1]] = str(interned[0])
        elif isinstance(code := head.get("inductor_output_code"), dict):
            graph = _graph(code, record)
            if graph is not None:
                graph.kernel_stacks = early.pop(record.compile_id, {})
                current[record.compile_id] = graph
                log.graphs.append(graph)
        elif isinstance(artifact := head.get("artifact"), dict):
            _artifact(log, str(artifact.get("name")), record, current, early)
        elif isinstance(head.get("chromium_event"), dict) and record.payload:
            if _json(record.payload) is None:
                _skip(log, record)
            else:
                log.events += 1
        elif isinstance(start := head.get("dynamo_start"), dict) and record.compile_id is not None:
            log.regions.setdefault(record.compile_id, _frames(start.get("stack"), names))


def _graph(code: dict[str, Any], record: _Record) -> GraphLog | None:
    path = code.get("file_path") or code.get("filename")
    if not isinstance(path, str):
        return None
    module = parse_wrapper(record.payload, path) if record.payload else None
    return GraphLog(compile_id=record.compile_id, path=path, source=record.payload, module=module)


def _skip(log: ProvenanceLog, record: _Record) -> None:
    log.skipped += 1
    if len(log.damaged) < MOST_NAMED:
        log.damaged.append((str(record.head.get("has_payload") or "without a name"), record.line))


def _artifact(
    log: ProvenanceLog,
    name: str,
    record: _Record,
    current: dict[str | None, GraphLog],
    early: dict[str | None, dict[str, list[str]]],
) -> None:
    if name not in (_STACKS, _MAPPINGS) and name not in _CACHE:
        return
    value = _json(record.payload) if record.payload else None
    if not isinstance(value, dict):
        _skip(log, record)
        return
    graph = current.get(record.compile_id)
    if name == _STACKS:
        stacks = _string_lists(value)
        graph = _owner(log, record.compile_id, stacks) or graph
        if graph is None:
            early[record.compile_id] = stacks
        else:
            graph.kernel_stacks.update(stacks)
    elif graph is None:
        return
    elif name == _MAPPINGS:
        graph.post_grad_nodes.update(_string_lists(value.get("cppCodeToPost")))
    elif isinstance(key := value.get("key"), str) and graph.fx_key is None:
        graph.fx_key = key


def _owner(log: ProvenanceLog, compile_id: str | None, stacks: dict[str, list[str]]) -> GraphLog | None:
    """The graph of this compile id whose module prints these very handles: sure, whatever the order of the records."""
    for graph in reversed(log.graphs):
        if graph.compile_id != compile_id or graph.module is None or graph.kernel_stacks:
            continue
        handles = {call.handle for call in graph.module.calls if call.handle}
        if stacks and handles and handles >= stacks.keys():
            return graph
    return None


def _string_lists(value: object) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        return {}
    return {
        key: [item for item in items if isinstance(item, str)]
        for key, items in value.items()
        if isinstance(key, str) and isinstance(items, list)
    }


def _frames(stack: object, names: dict[int, str]) -> list[LogFrame]:
    frames: list[LogFrame] = []
    for item in stack if isinstance(stack, list) else []:
        if not isinstance(item, dict) or not isinstance(item.get("line"), int):
            continue
        file = item.get("filename")
        text = item.get("loc")
        frames.append(
            LogFrame(
                file=names.get(file, "") if isinstance(file, int) else str(file),
                line=item["line"],
                function=str(item.get("name", "")),
                text=text if isinstance(text, str) else None,
            )
        )
    return frames
