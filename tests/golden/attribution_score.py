"""How much of the compiled kernels' device time gets its line, and how much a wrong one, workload by workload.

The truth is Inductor's own log (``torch_trace.log.gz`` of the corpus), over the kernels that it names. A launch is joined
to the log here by other means than in the product: by the name of its kernel alone, and where a name is launched several
times in one execution of a graph, by its count (the k-th launch of a name is the k-th handle of that name). Replayed CUDA
graphs have no launches; there the same model's recording without graphs gives the order of the device events.

``python tests/golden/attribution_score.py [CORPUS]`` prints a table. Per workload and pass, in percent of the device time of
the kernels that the log names: ``lines`` with a statement at the kernel's own level; ``coarse`` with the user's call of the
region or the function only; ``none`` without; ``wrong`` on a statement that the log does not give for the kernel (a
coarse one is wrong if neither its line nor, for a function, its name is on any stack that the log holds of the graph);
``call`` the share whose line in the generated module is the one of the log's handle.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ridgeline.attribution import Attribution, attribute
from ridgeline.inductor.provenance import GraphLog, ProvenanceLog, read_provenance
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import WorkTable, work_table

WORKLOADS = (
    "mlp_train",
    "encoder_train",
    "encoder_cudagraph",
    "mixnet_train",
    "user_triton",
    "matmul_add_4096_c1",
    "matmul_add_64_c1",
)
GRAPHED = {"encoder_cudagraph": "encoder_train"}
"""Workload with CUDA graphs -> the same model without."""
COARSE = ("region_call", "function")

RECORDED_ROOT = "/home/user/project"
"""Where the corpus was recorded; its sources lie beside each trace."""

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_REGION = re.compile(r"^## Call CompiledFxGraph (\S+) ##$")
_SITE = re.compile(r"(extern_kernels\.\w+|torch\.ops\.[\w.]+|\w+)\.run\(|(extern_kernels\.\w+|torch\.ops\.[\w.]+)\(")

Place = tuple[str, int]


@dataclass(slots=True)
class Truth:
    """Of one work row."""

    handle: str
    graph: GraphLog
    backward: bool

    @property
    def statements(self) -> set[Place]:
        """The innermost frame outside libraries of each stack, else the innermost."""
        places = set()
        for stack in self.graph.kernel_stacks[self.handle]:
            frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(stack)]
            own = [f for f in frames if "site-packages" not in f[0]]
            if frames:
                places.add((own or frames)[-1])
        return places

    def coarse(self, log: ProvenanceLog) -> tuple[set[Place], set[str]]:
        """All lines, and all functions, on stacks that lead to or into the graph."""
        places: set[Place] = set()
        functions: set[str] = set()
        for stacks in self.graph.kernel_stacks.values():
            for stack in stacks:
                for m in _FRAME.finditer(stack):
                    places.add((m["file"], int(m["line"])))
                    functions.add(m["function"])
        for frame in log.regions.get(self.graph.compile_id or "", []):
            places.add((frame.file, frame.line))
            functions.add(frame.function)
        return places, functions

    @property
    def call_line(self) -> int | None:
        """The line after the handle's comment that calls; found in the text, not by the product's parser."""
        lines = (self.graph.source or "").split("\n")
        for i, line in enumerate(lines):
            if line.strip() == f"# [Provenance debug handles] {self.handle}":
                return next((j + 1 for j in range(i + 1, min(i + 6, len(lines))) if _SITE.search(lines[j])), None)
        return None


@dataclass(slots=True)
class Score:
    total: float = 0.0
    lines: float = 0.0
    coarse: float = 0.0
    wrong: float = 0.0
    call: float = 0.0
    examples: list[str] = field(default_factory=list)

    def percent(self, value: float) -> float:
        return 100 * value / self.total if self.total else float("nan")

    @property
    def coverage_pct(self) -> float:
        return self.percent(self.lines)

    @property
    def wrong_pct(self) -> float:
        return self.percent(self.wrong)


def _regions(trace: Trace) -> list[tuple[float, float, int, str]]:
    found = []
    for table in (trace.ranges, trace.ops):
        for row in range(len(table.start)):
            match = _REGION.match(trace.strings[int(table.name[row])])
            if match:
                start = float(table.start[row])
                found.append((start, start + float(table.dur[row]), int(table.tid[row]), match[1]))
    return found


def _by_name(names: list[str], graph: GraphLog) -> list[str | None]:
    """Handles of launches in order, by name and count; ``names`` are ops or device names."""
    queue: dict[str, list[str]] = {}
    for handle in sorted(graph.kernel_stacks, key=lambda h: int(h.rpartition(":")[2])):
        queue.setdefault(_label(handle.rpartition(":")[0]), []).append(handle)
    for name, handles in queue.items():
        if names.count(name) != len(handles):
            queue[name] = []  # not the same number: no truth for this name
    return [queue[name].pop(0) if queue.get(name) else None for name in names]


def _label(name: str) -> str:
    """``extern_kernels.mm`` -> ``aten::mm``, ``torch.ops.aten.convolution_backward.default`` -> ``aten::convolution_backward``."""
    parts = name.split(".")
    if parts[0] == "extern_kernels":
        return f"aten::{parts[1]}"
    return f"{parts[2]}::{parts[3]}" if parts[:2] == ["torch", "ops"] else name


def truths(
    trace: Trace, work: WorkTable, log: ProvenanceLog, twin: list[list[tuple[str, str]]] | None = None
) -> dict[int, Truth]:
    """Work row -> what the log says of it. ``twin``: per graph the (device name, handle) sequence of the run without CUDA graphs."""
    by_key = {graph.fx_key: (i, graph) for i, graph in enumerate(log.graphs)}
    result: dict[int, Truth] = {}
    for start, end, tid, key in _regions(trace):
        if key not in by_key:
            continue
        number, graph = by_key[key]
        backward = "backward" in (graph.source or "")[:60]
        rows = [
            row
            for row in np.argsort(work.start, kind="stable").tolist()
            if work.call[row] >= 0
            and trace.calls.tid[work.call[row]] == tid
            and start <= trace.calls.start[work.call[row]] <= end
        ]
        launched = [trace.strings[int(trace.calls.name[work.call[row]])] for row in rows]
        replayed = [row for row, api in zip(rows, launched) if "GraphLaunch" in api]
        if replayed and twin is not None:
            # The device events that the graph replays, memsets aside, in the order of the run without graphs.
            mine = [row for row in replayed if not trace.strings[int(work.name[row])].startswith("Memset")]
            names = [trace.strings[int(work.name[row])] for row in mine]
            if names == [name for name, _ in twin[number]]:
                for row, (_, handle) in zip(mine, twin[number]):
                    result[row] = Truth(handle, graph, backward)
            continue
        tops: list[int] = []
        for row in rows:
            op = int(work.op[row])
            while op >= 0 and trace.ops.parent[op] >= 0 and trace.ops.start[trace.ops.parent[op]] >= start:
                op = int(trace.ops.parent[op])
            tops.append(op)
        order = sorted({op for op in tops if op >= 0}, key=lambda op: trace.ops.start[op])
        handles = dict(zip(order, _by_name([trace.strings[int(trace.ops.name[op])] for op in order], graph)))
        for row, op in zip(rows, tops):
            if (handle := handles.get(op)) is not None:
                result[row] = Truth(handle, graph, backward)
    return result


def twin_sequences(folder: Path) -> list[list[tuple[str, str]]]:
    """Per graph of the log, the (device name, handle) of one execution without CUDA graphs, memsets aside."""
    trace = read_trace(folder / "trace.json.gz")
    work = work_table(trace)
    log = read_provenance(folder / "torch_trace.log.gz")
    found = truths(trace, work, log)
    sequences: list[list[tuple[str, str]]] = []
    for graph in log.graphs:
        rows = [r for r in np.argsort(work.start, kind="stable").tolist() if r in found and found[r].graph is graph]
        count = sum(1 for _, _, _, key in _regions(trace) if key == graph.fx_key)
        first = rows[: len(rows) // max(count, 1)] if count else []
        names = [(trace.strings[int(work.name[r])], found[r].handle) for r in rows]
        kept = [n for n in names if not n[0].startswith("Memset")]
        sequences.append(kept[: len(kept) // max(count, 1)] if first else [])
    return sequences


def score(
    work: WorkTable,
    attribution: Attribution,
    found: dict[int, Truth],
    log: ProvenanceLog,
    folder: Path,
    *,
    backward: bool,
) -> Score:
    def here(places: set[Place]) -> set[Place]:
        return {(file.replace(RECORDED_ROOT, str(folder), 1), line) for file, line in places}

    result = Score()
    coarse: dict[int, tuple[set[Place], set[str]]] = {}
    calls: dict[tuple[str, int], int | None] = {}
    wanted: dict[tuple[str, int], set[Place]] = {}
    for row, truth in found.items():
        if truth.backward is not backward:
            continue
        key = (truth.handle, id(truth.graph))
        if key not in calls:
            calls[key], wanted[key] = truth.call_line, here(truth.statements)
        time = float(work.time[row])
        result.total += time
        site = attribution.sites[int(attribution.site[row])] if attribution.site[row] >= 0 else None
        if site is not None and site.call_line is not None and site.call_line == calls[key]:
            result.call += time
        refs = attribution.sources[int(attribution.source[row])] if attribution.source[row] >= 0 else ()
        fine = [ref for ref in refs if not ref.method.startswith(COARSE)]
        if fine:
            result.lines += time
            wrong = [ref for ref in fine if (ref.file, ref.line) not in wanted[key]]
            missing = wanted[key] - {(ref.file, ref.line) for ref in fine}
            if wrong or missing:
                result.wrong += time * max(len(wrong) / len(fine), len(missing) / max(len(wanted[key]), 1))
                result.examples.append(
                    f"{truth.handle}: claimed {[(r.file, r.line) for r in fine]}, log {sorted(wanted[key])}"
                )
        elif refs:
            result.coarse += time
            if id(truth.graph) not in coarse:
                places, functions = truth.coarse(log)
                coarse[id(truth.graph)] = here(places), functions
            places, functions = coarse[id(truth.graph)]
            if not all(
                (r.file, r.line) in places or (r.method == "function" and r.function in functions) for r in refs
            ):
                result.wrong += time
                result.examples.append(f"{truth.handle}: coarse {[(r.file, r.line, r.method) for r in refs]}")
    return result


def evaluate(corpus: Path, workload: str, *, with_log: bool) -> dict[str, Score]:
    folder = corpus / workload
    trace = read_trace(folder / "trace.json.gz")
    work = work_table(trace)
    log_path = folder / "torch_trace.log.gz"
    twin = twin_sequences(corpus / GRAPHED[workload]) if workload in GRAPHED else None
    log = read_provenance(log_path)
    found = truths(trace, work, log, twin)
    attribution = attribute(
        trace,
        work,
        generated=folder / "generated.tar.gz",
        provenance=log_path if with_log else None,
        source_roots=[(RECORDED_ROOT, str(folder))],
    )
    return {
        "forward": score(work, attribution, found, log, folder, backward=False),
        "backward": score(work, attribution, found, log, folder, backward=True),
    }


def main() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    corpus = Path(
        sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RIDGELINE_CORPUS") or root.parent / "shared" / "corpus"
    )
    if (corpus / "h200").is_dir():
        corpus = corpus / "h200"
    print(
        f"{'workload':<20} {'pass':<9} {'log':<8} {'us':>9} {'lines':>7} {'coarse':>7} {'none':>7} {'wrong':>7} {'call':>7}"
    )
    for workload in WORKLOADS:
        for with_log in (True, False):
            for name, one in evaluate(corpus, workload, with_log=with_log).items():
                if not one.total:
                    continue
                none = one.total - one.lines - one.coarse
                values = " ".join(f"{one.percent(v):6.2f}%" for v in (one.lines, one.coarse, none, one.wrong, one.call))
                print(f"{workload:<20} {name:<9} {'with' if with_log else 'without':<8} {one.total:9.1f} {values}")
                for example in one.examples[:2]:
                    print(f"    {example}")


if __name__ == "__main__":
    main()
