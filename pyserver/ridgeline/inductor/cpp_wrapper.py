"""Reading a wrapper module whose ``call`` is C++ (``torch._inductor.config.cpp_wrapper``) as text.

The file is Python around one string of C++. Kernels are called by name there, operators through torch's stable C
interface (``aoti_torch_cpu_mm_out``); what says which call is which is the provenance comment above each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE = 200_000
"""Characters; a longer line is passed over."""

_HANDLE = re.compile(r"^\s*//\s*\[Provenance debug handles\]\s*(?P<name>\S+):(?P<number>\d+)\s*$")
_NODES = re.compile(
    r"^\s*//\s*(?:Topologically Sorted |Unsorted )?Source Nodes: \[(?P<nodes>.*?)\], Original ATen: \[(?P<aten>.*?)\]"
)
_SHIM = re.compile(r"^aoti_torch_(?:cpu|cuda|xpu|mps|mkldnn)_(?P<op>\w+?)(?:_out)?(?:_v\d+)?$")


def is_cpp_wrapper(text: str) -> bool:
    """Whether a file's text is such a module."""
    return "CppWrapperCodeCache" in text[:4000]


def shim_op(name: str) -> str | None:
    """``aoti_torch_cuda_addmm_out`` -> ``aten::addmm``; None for what is no operator of the C interface."""
    match = _SHIM.match(name)
    return f"aten::{match['op']}" if match is not None else None


@dataclass(slots=True, frozen=True)
class CppCall:
    line: int
    """1-based, of the call, or of the comment above it where the call is not found."""
    name: str
    """A kernel's, or the function of the C interface."""
    handle: str
    nodes: str
    aten: str


def calls_of(rows: list[str]) -> Iterator[CppCall]:
    """The calls of the C++ in order. Never raises on odd content."""
    nodes = aten = ""
    waiting: tuple[int, str, str, str, str] | None = None
    for number, row in enumerate(rows, start=1):
        if len(row) > MAX_LINE:
            continue
        if (found := _NODES.match(row)) is not None:
            nodes, aten = found["nodes"], found["aten"]
        elif (handle := _HANDLE.match(row)) is not None:
            if waiting is not None:
                yield CppCall(*waiting)
            name = handle["name"]
            waiting = (number, name, f"{name}:{handle['number']}", nodes, aten)
            nodes = aten = ""
        elif waiting is not None and _calls(row, waiting[1]):
            yield CppCall(number, *waiting[1:])
            waiting = None
        elif waiting is not None and row.startswith("}"):
            yield CppCall(*waiting)
            waiting = None
    if waiting is not None:
        yield CppCall(*waiting)


def _calls(row: str, name: str) -> bool:
    """``NAME(``, ``call_NAME(``, ``launchKernel(kernels.NAME, …``: not the scope's declaration, which quotes the name."""
    at = row.find(name)
    return at >= 0 and f'"{name}"' not in row and "(" in row and not row.lstrip().startswith(("//", "static ", "auto "))
