"""Makes a capture small: what scoring does not read is left out, and what it reads lies plain in one xz archive.

usage: repack.py OUT CAPTURE… [--last-step]     writes OUT/CAPTURE.tar.xz of each .tar.gz (or .tar.xz), and says the sizes

Left out: Nsight Compute's raw page, ``info.json``, Python frames, arrows and instants of the trace, numbers that follow
from others (blocks a multiprocessor, rates of copies), and the names of its temporary files. What is kept is kept as it is, so that the scores are the same to the bit (``test_capture_repack.py``). With ``--last-step`` the trace keeps its last step alone, the one that is scored: a
quarter less, and times of one launch instead of the mean over the steps, so that a few verdicts near a limit move.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

DROPPED_CATEGORIES = {"python_function", "ac2g", "fwdbwd", "Trace", "overhead"}
DROPPED_PHASES = {"s", "f", "t", "i"}
DROPPED_ARGUMENTS = {
    "Ev Idx",
    "Record function id",
    "blocks per SM",
    "warps per SM",
    "queued",
    "context",
    "memory bandwidth (GB/s)",
    "cbid",
}
DROPPED_HEADERS = {"traceName", "trace_id"}
PLAIN = ("ncu.csv", "triton_calls.json")
FILTERS: list[dict[str, int]] = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26, "lc": 4, "lp": 0, "pb": 0}
]


def slim(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without the events that no score depends on; the rest in its order."""
    kept = [
        _without(event)
        for event in trace["traceEvents"]
        if event.get("ph") not in DROPPED_PHASES and event.get("cat") not in DROPPED_CATEGORIES
    ]
    return {**{k: v for k, v in trace.items() if k not in DROPPED_HEADERS}, "traceEvents": kept}


def last_step(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace from the start of its last step on; launches of earlier steps go with their device work."""
    events = trace["traceEvents"]
    starts = [e["ts"] for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")]
    if not starts:
        return trace
    start = max(starts)
    calls = ("cuda_runtime", "cuda_driver")
    earlier = {e["args"].get("correlation") for e in events if e.get("cat") in calls and e["ts"] < start}

    def stays(event: dict[str, Any]) -> bool:
        if event.get("ph") != "X":
            return True
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            return event["args"].get("correlation") not in earlier
        return bool(event["ts"] >= start)

    return {**trace, "traceEvents": [e for e in events if stays(e)]}


def _without(event: dict[str, Any]) -> dict[str, Any]:
    """The event without the arguments that nothing reads."""
    if not DROPPED_ARGUMENTS & event.get("args", {}).keys():
        return event
    return {**event, "args": {k: v for k, v in event["args"].items() if k not in DROPPED_ARGUMENTS}}


def contents(archive: Path, *, last: bool = False) -> dict[str, bytes]:
    """Name in the small archive to content, of a capture as ``run.sh`` or an earlier run of this writes it."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        given = {Path(m.name).name: stream.read() for m in tar if m.isfile() and (stream := tar.extractfile(m))}
    trace = json.loads(given["trace.json"] if "trace.json" in given else gzip.decompress(given["trace.json.gz"]))
    trace = last_step(trace) if last else trace
    files["trace.json"] = json.dumps(slim(trace), separators=(",", ":")).encode()
    files |= {name: given[name] for name in PLAIN if name in given}
    if "generated.tar.gz" in given:
        with tarfile.open(fileobj=io.BytesIO(given["generated.tar.gz"])) as tar:
            generated = {m.name: stream.read() for m in tar if m.isfile() and (stream := tar.extractfile(m))}
        files["generated.tar"] = packed(generated)
    elif "generated.tar" in given:
        files["generated.tar"] = given["generated.tar"]
    return files


def packed(files: dict[str, bytes]) -> bytes:
    """A plain archive of the files, without owners and times."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def repack(archive: Path, out: Path, *, last: bool = False) -> Path:
    """Writes ``out/NAME.tar.xz``: the same bytes whenever it is run."""
    small = out / f"{archive.name.split('.')[0]}.tar.xz"
    small.write_bytes(lzma.compress(packed(contents(archive, last=last)), format=lzma.FORMAT_XZ, filters=FILTERS))
    return small


def main(argv: list[str]) -> int:
    last = "--last-step" in argv
    argv = [a for a in argv if a != "--last-step"]
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(argv[0])
    out.mkdir(parents=True, exist_ok=True)
    for path in map(Path, argv[1:]):
        small = repack(path, out, last=last)
        print(f"{small.name}: {path.stat().st_size} -> {small.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
