"""Packs the run folders of ``record_device.py`` for ``frozen/``, small enough for the repository.

    python tests/seeded/pack.py RUNS.tar.xz… tests/seeded/frozen/runs.tar.xz

Left out: recordings of programs whose text is another by now (they prove nothing about it, and the suite passes them
over), recordings without a sidecar, and of every trace what the analysis does not read: the flow arrows between events
(``ph`` s, t, f) and some numbers of the recorder's own. The inner ``trace.json.gz`` are stored, not compressed, so that xz sees the text. Every analysis is run
before and after; if a finding differs, nothing is written. Of a recording of many events only the beginning is kept, of one
with steps the first four; there code, line and severity of every finding must stay, its numbers are those of the shorter recording.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import markers  # noqa: E402
import suite  # noqa: E402

FLOWS = ("s", "t", "f")
UNREAD = ("Ev Idx", "Record function id", "cbid", "context", "queued")
"""Arguments of events."""


MANY = 40_000
"""Events of one recording. A second of small kernels has more than all other recordings together."""
CUT_US = 40_000.0
MANY_OF_STEPS, STEPS = 16_000, 4
"""The same of a recording with steps, and how many of them are kept then."""


def cut(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first moments of a recording without steps: what begins in them, with the kernels that were launched in them."""
    timed = [e for e in events if e.get("ph") == "X"]
    stepped = any(str(e.get("name", "")).startswith(("ProfilerStep#", "Optimizer.step#")) for e in timed)
    if stepped or len(timed) <= MANY:
        return events
    end = min(float(e["ts"]) for e in timed) + CUT_US
    launched = {e["args"]["correlation"] for e in timed if "correlation" in e.get("args", {}) and float(e["ts"]) < end}
    return [
        e for e in events if "ts" not in e or float(e["ts"]) < end or e.get("args", {}).get("correlation") in launched
    ]


def cut_steps(trace: dict[str, Any], sidecar: dict[str, Any], keep: int = STEPS) -> bool:
    """Only the first steps of a recording of many events: what begins in them, with the kernels that were launched in them.
    Changes both; whether it did."""
    windows = sidecar.get("windows") or []
    timed = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    if len(windows) != 1 or len(windows[0]["steps"]) <= keep or len(timed) <= MANY_OF_STEPS:
        return False
    window = windows[0]
    window["steps"] = window["steps"][:keep]
    window["end_ns"] = window["steps"][-1]["end_ns"]
    end = (window["end_ns"] - trace["baseTimeNanoseconds"]) / 1000
    launched = {e["args"]["correlation"] for e in timed if "correlation" in e.get("args", {}) and float(e["ts"]) < end}
    trace["traceEvents"] = [
        e
        for e in trace["traceEvents"]
        if "ts" not in e or float(e["ts"]) < end or e.get("args", {}).get("correlation") in launched
    ]
    return True


def trim(path: Path) -> bool:
    """A trace without what is not read, gzip without compression and without a time stamp; whether it was cut."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    beside = path.with_name("sidecar.json")
    sidecar = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    stepped = cut_steps(trace, sidecar)
    if stepped:
        beside.write_text(json.dumps(sidecar), encoding="utf-8")
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("ph") not in FLOWS]
    events = cut(trace["traceEvents"])
    was_cut = len(events) < len(trace["traceEvents"])
    trace["traceEvents"] = events
    for event in trace["traceEvents"]:
        for name in UNREAD:
            event.get("args", {}).pop(name, None)
    text = json.dumps(trace, separators=(",", ":"), ensure_ascii=False).encode()
    with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=0, fileobj=raw, mtime=0) as out:
        out.write(text)
    return was_cut or stepped


def findings(run: Path) -> list[dict[str, Any]]:
    from ridgeline import profile_io
    from ridgeline.analysis import analyze_run

    found: list[dict[str, Any]] = json.loads(profile_io.to_json(analyze_run(run)))["findings"]
    return found


def _places(found: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(f["code"], f["line"], f["severity"]) for f in found}


def keep(runs: Path, programs: Sequence[markers.Seeded]) -> list[Path]:
    """Folders of recordings of programs as they stand now."""
    known = {p.name: p for p in programs}
    return [
        run
        for run in sorted(runs.iterdir())
        if run.name in known and (run / "sidecar.json").is_file() and suite.is_of(known[run.name], run)
    ]


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without owner and time: the same recordings give the same archive."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def main(arguments: Sequence[str]) -> int:
    *sources, target = map(Path, arguments)
    with tempfile.TemporaryDirectory(prefix="pack_") as folder:
        for source in sources:
            with tarfile.open(source) as packed:
                packed.extractall(folder, filter="data")
        runs = keep(Path(folder) / "runs", markers.read_all(HERE / "device"))
        for run in runs:
            before = findings(run)
            was_cut = trim(run / "trace.json.gz")
            (run / "profile.json").unlink(missing_ok=True)
            after = findings(run)
            if after != before and (not was_cut or _places(after) != _places(before)):
                print(f"{run.name}: other findings after trimming; nothing written", file=sys.stderr)
                return 1
        partial = target.with_suffix(".part")
        with tarfile.open(partial, "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
            for run in runs:
                archive.add(run, f"runs/{run.name}", filter=plain)
        partial.replace(target)
    print(f"{len(runs)} recordings, {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
