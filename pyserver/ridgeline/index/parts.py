"""What the index files hold: rows, places, and short forms of kernels, taken from the profile document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ridgeline.index import HOT, INDEX_SCHEMA, Json, snapshot_text
from ridgeline.index.structure import bound_of, functions_of
from ridgeline.steps import undisturbed_us

MAX_HOT_KERNELS = 200
MAX_HOT_LINES = 200
MAX_FINDINGS = 500
TOP_KERNELS_OF_LINE = 5
MAX_SOURCES = 6
MAX_CALL_LINES = 8


def index_document(document: Mapping[str, Any], run_folder: Path | None = None) -> tuple[Json, dict[str, Json]]:
    """The manifest (without the stamp) and the index files by name, from a document as ``json.loads`` gives it."""
    kernels: dict[str, Json] = {kernel["id"]: kernel for kernel in document.get("kernels") or []}
    files: dict[str, Json] = {entry["path"]: dict(entry) for entry in document.get("files") or []}
    parts_by_path: dict[str, Json] = defaultdict(lambda: {"rows": [], "places": [], "findings": [], "events": []})

    for line in document.get("lines") or []:
        parts_by_path[line["file"]]["rows"].append(_row(line, kernels))
    for kernel in document.get("kernels") or []:
        for reference in kernel.get("generated") or []:
            parts_by_path[reference["file"]]["places"].extend(_places(kernel, reference))
    for finding in document.get("findings") or []:
        if finding.get("file"):
            parts_by_path[finding["file"]]["findings"].append(finding)
    for event in document.get("compile_events") or []:
        if event.get("file"):
            parts_by_path[event["file"]]["events"].append(event)
    for module in document.get("modules") or []:
        parts_by_path[module["file"]]["module"] = {k: v for k, v in module.items() if k != "kernels"}

    parts: dict[str, Json] = {}
    for number, path in enumerate(sorted(parts_by_path)):
        entry = files.setdefault(path, {"path": path, "kind": "generated" if parts_by_path[path]["places"] else "user"})
        entry["key"] = f"f{number:05d}.json"
        parts[entry["key"]] = _file_part(entry, parts_by_path[path], kernels, run_folder)
        entry["rows"] = len(parts_by_path[path]["rows"])
        entry["places"] = len(parts_by_path[path]["places"])

    step = step_us(document)
    hot_lines = sorted(document.get("lines") or [], key=lambda line: -(line.get("unsplit_us") or 0.0))[:MAX_HOT_LINES]
    parts[HOT] = {
        "kernels": [brief(kernel) for kernel in (document.get("kernels") or [])[:MAX_HOT_KERNELS]],
        "lines": [{"file": line["file"], **_row(line, kernels)} for line in hot_lines],
        "findings": (document.get("findings") or [])[:MAX_FINDINGS],
        "idle": document.get("idle"),
        "modules": [{k: v for k, v in m.items() if k != "kernels"} for m in document.get("modules") or []],
    }
    manifest: Json = {
        "index": INDEX_SCHEMA,
        "source": document.get("source") or {},
        "totals": document.get("totals") or {},
        "steps": steps(document),
        "step_us": step,
        "devices": [
            {k: v for k, v in device.items() if k in ("id", "name", "kind", "window_idle_pct", "idle_pct", "busy_us")}
            for device in document.get("devices") or []
        ],
        "quality": document.get("quality") or {},
        "unattributed": document.get("unattributed") or {},
        "counts": {
            "kernels": len(kernels),
            "lines": len(document.get("lines") or []),
            "findings": len(document.get("findings") or []),
        },
        "files": sorted(files.values(), key=lambda entry: str(entry["path"])),
    }
    return manifest, parts


def steps(document: Mapping[str, Any]) -> int | None:
    """Number of recorded steps, or ``None`` where the program has none."""
    declared = (document.get("source") or {}).get("steps")
    count = declared if isinstance(declared, int) and declared > 0 else len(document.get("steps") or [])
    return count or None


def step_us(document: Mapping[str, Any]) -> float | None:
    """A step in microseconds, the one that shares are of: as it is without the profiler, or the recorded steps' mean."""
    on_cpu = any(device.get("kind") == "cpu" for device in document.get("devices") or [])
    plain = (document.get("totals") or {}).get("plain_step_us")
    return undisturbed_us(_recorded_step_us(document), float(plain) if plain else None, on_cpu=on_cpu)


def _recorded_step_us(document: Mapping[str, Any]) -> float | None:
    walls = [step["wall_us"] for step in document.get("steps") or [] if step.get("wall_us")]
    if walls:
        return float(sum(walls) / len(walls))
    totals = document.get("totals") or {}
    if totals.get("profiled_step_us"):
        return float(totals["profiled_step_us"])
    count = steps(document)
    wall = totals.get("wall_us")
    return float(wall) / count if wall and count else None


def _file_part(entry: Json, part: Json, kernels: Mapping[str, Json], run_folder: Path | None) -> Json:
    rows = sorted(part["rows"], key=lambda row: int(row["line"]))
    places = sorted(part["places"], key=lambda place: (int(place["line"]), str(place["kernel"])))
    wanted = {identity for row in rows for identity in row["top"]} | {place["kernel"] for place in places}
    functions: list[Json] = []
    if rows and run_folder is not None:
        functions = functions_of(rows, snapshot_text(run_folder, entry))
    return {
        "path": entry["path"],
        "kind": entry.get("kind") or "user",
        "sha256": entry.get("sha256"),
        "snapshot": entry.get("snapshot"),
        "rows": rows,
        "functions": functions,
        "places": places,
        "kernels": {identity: _slim(kernels[identity]) for identity in sorted(wanted) if identity in kernels},
        "findings": part["findings"],
        "events": part["events"],
        "module": part.get("module"),
    }


KEPT = [
    "id",
    "name",
    "symbol",
    "device",
    "category",
    "count",
    "total_us",
    "median_us",
    "share_pct",
    "step_share_pct",
    "gb_per_s",
    "tflop_per_s",
    "arithmetic_intensity",
    "bound",
    "borderline",
    "bound_resource",
    "bound_cause",
    "bound_reason",
    "bound_confidence",
    "compute_pct",
    "memory_pct",
    "bound_source",
    "aten",
    "slice",
    "autotune",
]


def brief(kernel: Mapping[str, Any]) -> Json:
    """What a view shows of a kernel; unknown values are left out."""
    short: Json = {key: kernel[key] for key in KEPT if kernel.get(key) not in (None, [], False)}
    launch = {k: v for k, v in (kernel.get("launch") or {}).items() if v is not None}
    if launch:
        short["launch"] = launch
    sources = [
        {k: s[k] for k in ("file", "line", "function", "text", "library", "method", "confidence") if s.get(k)}
        for s in (kernel.get("source") or [])[:MAX_SOURCES]
    ]
    if sources:
        short["source"] = sources
    generated = [
        {
            "file": g["file"],
            "line": g.get("line"),
            "calls": [c["line"] for c in (g.get("call_lines") or [])[:MAX_CALL_LINES]],
        }
        for g in kernel.get("generated") or []
    ]
    if generated:
        short["generated"] = generated
    return short


IN_FILES = (
    "id name category count total_us share_pct step_share_pct bound bound_reason compute_pct memory_pct bound_source "
    "autotune source generated"
).split()


def _slim(kernel: Mapping[str, Any]) -> Json:
    """What a lens, a hover or a jump in a file needs: one file may name thousands of kernels, and is read before its
    first lens. Floats keep six digits."""
    short = brief(kernel)
    for source in short.get("source", ()):
        for key in ("text", "method", "confidence"):
            source.pop(key, None)
    return {key: _six(short[key]) for key in IN_FILES if key in short}


def _six(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _row(line: Mapping[str, Any], kernels: Mapping[str, Json]) -> Json:
    own = [kernels[identity] for identity in line.get("kernels") or [] if identity in kernels]
    own.sort(key=lambda kernel: -float(kernel["total_us"]))
    row: Json = {k: v for k, v in line.items() if k not in ("file", "kernels") and v not in (None, [])}
    row["top"] = [kernel["id"] for kernel in own[:TOP_KERNELS_OF_LINE]]
    row["kernel_count"] = len(line.get("kernels") or [])
    row.update(bound_of(own))
    tuned = _autotune(own)
    if tuned:
        row["autotune"] = tuned
    return row


def _autotune(kernels: Iterable[Mapping[str, Any]]) -> Json | None:
    """The kernel of a line with most to gain from another configuration; a verified gain goes before a predicted one."""
    best: tuple[bool, float, Json] | None = None
    for kernel in kernels:
        tuned = kernel.get("autotune")
        if not tuned or tuned.get("status") not in ("candidate", "verified"):
            continue
        speedup = tuned.get("speedup")
        gain = float(kernel["total_us"]) * (1.0 - 1.0 / speedup) if speedup and speedup > 1.0 else 0.0
        entry = (tuned["status"] == "verified", gain, {"kernel": kernel["id"], "gain_us": gain, **tuned})
        if best is None or entry[:2] > best[:2]:
            best = entry
    return best[2] if best else None


def _places(kernel: Mapping[str, Any], reference: Mapping[str, Any]) -> list[Json]:
    calls = reference.get("call_lines") or []
    places: list[Json] = [
        {"line": call["line"], "kernel": kernel["id"], "time_us": call.get("time_us"), "count": call.get("count")}
        for call in calls
    ]
    if reference.get("line"):
        # The definition's line: it has the kernel's whole time where no call is known (a single-kernel file).
        whole = {} if calls else {"time_us": kernel["total_us"], "count": kernel["count"]}
        places.append({"line": reference["line"], "kernel": kernel["id"], "definition": True, **whole})
    return [place for place in places if isinstance(place["line"], int) and place["line"] > 0]
