"""From a finished recording to files in the run folder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from typing import Any

from .runfolder import RunFolder
from .take import Take
from .timeline import Recorded

_FRAME = re.compile(r'File "([^"]+)", line \d+')
_KERNEL_PATH = re.compile(r"^\s*# kernel path: (\S.*?)\s*$", re.MULTILINE)


def trace_name(index: int) -> str:
    return "trace.json.gz" if index == 0 else f"trace_{index}.json.gz"


def save_raw(folder: RunFolder, take: Take, index: int) -> str:
    """Let Kineto write the trace, in the calling thread; returns the path of the plain JSON for :func:`pack`."""
    raw = folder.file(f"{trace_name(index).removesuffix('.gz')}.part")
    take.recording.save(raw)
    return raw


def pack(folder: RunFolder, raw: str, index: int) -> str:
    """Compress a plain trace into its place; the name for ``Window.trace``. May run beside the program."""
    name = trace_name(index)
    folder.compress(raw, name)
    os.unlink(raw)
    return name


def write_timeline(folder: RunFolder, lines: Recorded) -> dict[str, Any]:
    """``timeline.bin`` and its row in the sidecar."""
    chunks, threads = lines.pack()
    folder.write_bytes("timeline.bin", chunks)
    return {"file": "timeline.bin", "codes": lines.codes, "threads": threads}


def stack_files(graphs: Iterable[dict[str, Any]]) -> set[str]:
    """Every file that a kernel's stacks or a region's call stack name."""
    found: set[str] = set()
    for graph in graphs:
        for stacks in graph["kernel_stacks"].values():
            for stack in stacks if isinstance(stacks, list) else [stacks]:
                found.update(_FRAME.findall(str(stack)))
        found.update(str(frame[0]) for frame in graph["call_stack"])
    return found


def kernel_files(sources: Iterable[str]) -> set[str]:
    """Files of single kernels that generated wrapper modules name in their comments."""
    found: set[str] = set()
    for source in sources:
        found.update(_KERNEL_PATH.findall(source))
    return found


def mark_captured(folder: RunFolder, windows: list[dict[str, Any]]) -> None:
    """The word to the supervisor that all of a result is on disk."""
    folder.write_json("captured", {"at": time.time(), "traces": [window["trace"] for window in windows]})
