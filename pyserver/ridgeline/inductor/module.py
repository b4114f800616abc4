"""Reading a generated wrapper module (what Inductor calls the output code) as text.

A generated file is untrusted and has no contract ("formatting aids" is what its comments are called upstream), so it is
scanned line by line: never imported, never evaluated, and a line that is not understood is skipped. What comes out:
the kernels it defines, the call sites in the order in which ``call`` runs them (partitions and subgraphs expanded), and
what the comments above each say. Line numbers are 1-based.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ridgeline.inductor.cpp_wrapper import calls_of, is_cpp_wrapper, shim_op

SiteKind = Literal["kernel", "extern", "fallback", "copy"]

MAX_LINES = 2_000_000
"""Beyond this a file is not a wrapper module that anybody could use; the rest is ignored."""

MAX_LINE = 200_000
"""Characters; a longer line is passed over."""

_AOT_ID = re.compile(r"^# AOT ID: \[(?P<ids>[^\]]*)\]")
_KERNEL_PATH = re.compile(r"^\s*# kernel path: (?P<path>.+?)\s*$")
_ORIGINAL_PATH = re.compile(r"^\s*# Original path: (?P<path>.+?):(?P<line>\d{1,9})\s*$")
_NODES = re.compile(
    r"^\s*(?:#|//)\s*(?:Topologically Sorted|Unsorted) Source Nodes: \[(?P<nodes>.*?)\], Original ATen: \[(?P<aten>.*?)\]"
)
_OLD_NODES = re.compile(r"^\s*(?:#|//)\s*Source Nodes: \[(?P<nodes>.*?)\], Original ATen: \[(?P<aten>.*?)\]")
_HANDLE = re.compile(r"^\s*(?:#|//)\s*\[Provenance debug handles\]\s*(?P<name>\S+):(?P<number>\d+)\s*$")
_DEFINITION = re.compile(r"^(?P<name>[A-Za-z_]\w*) = (?:async_compile|AsyncCompile\(\))\.(?P<how>\w+)\((?P<rest>.*)$")
_FUNCTION = re.compile(r"^(?P<indent>\s*)(?:async )?def (?P<name>\w+)\(")
_CALL = re.compile(r"^\s+(?:[\w\s,()\[\]]+? = )?(?P<callee>[A-Za-z_][\w.]*(?:\[\d+\])?(?:\.\w+)*)\(")
_QUOTED = re.compile(r"""^\s*(['"])(?P<text>[^'"]+)\1""")
_PARTITION = re.compile(r"^(?:self\.)?partitions\[(?P<number>\d+)\]$")

_NOT_ENTRIES = frozenset(
    {"get_args", "benchmark_compiled_module", "benchmark_all_configs", "recursively_apply_fns", "__init__"}
)
_COPY_METHODS = ("copy_", "zero_", "fill_")


@dataclass(slots=True, kw_only=True)
class KernelDefinition:
    """A kernel that the module compiles: ``NAME = async_compile.triton('SYMBOL', '''…``."""

    name: str
    symbol: str
    """The function inside, which is what a device event is called (differs from ``name`` for user kernels)."""
    how: str
    """triton | cpp_pybinding | cpp | cuda | cutedsl | multi_kernel | …"""
    line: int
    end_line: int
    body_line: int | None = None
    """Of the jitted function's ``def`` inside the string, where there is one."""
    path: str | None = None
    """The single-kernel file, from ``# kernel path:``."""
    original_path: str | None = None
    original_line: int | None = None
    """Where the user wrote it (``# Original path:``), for a ``@triton.jit`` kernel of the user's."""
    nodes: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    """Of a multi-kernel: the names it chooses from."""


@dataclass(slots=True, frozen=True, kw_only=True)
class CallSite:
    """One launching statement of the module."""

    line: int
    callee: str
    """``triton_poi_fused_add_0``, ``extern_kernels.mm``, ``torch.ops.aten.sort.stable``…, without ``.run``."""
    kind: SiteKind
    function: str
    handle: str | None = None
    """``kernel:number``, the key of Inductor's stack traces."""
    nodes: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()

    @property
    def op(self) -> str | None:
        """The dispatcher op that this call shows as in a trace, where it is one."""
        return op_name(self.callee)


@dataclass(slots=True, kw_only=True)
class WrapperModule:
    path: str
    aot_id: str | None
    kernels: dict[str, KernelDefinition] = field(default_factory=dict)
    calls: list[CallSite] = field(default_factory=list)
    """In the order of execution, every call once (a partition that is called twice contributes once)."""
    lines: int = 0
    cpp: bool = False
    """``call`` is C++: operators go past the dispatcher, so that a trace shows their kernels and not them."""

    @property
    def kind(self) -> Literal["forward", "backward", "inference"]:
        text = self.aot_id or ""
        if "backward" in text:
            return "backward"
        return "inference" if "inference" in text else "forward"


def op_name(callee: str) -> str | None:
    """``extern_kernels.addmm`` -> ``aten::addmm``; ``torch.ops.aten.sort.stable`` -> ``aten::sort``; None for a kernel."""
    if (shim := shim_op(callee)) is not None:
        return shim
    parts = callee.split(".")
    if parts[0] == "extern_kernels" and len(parts) == 2:
        return f"aten::{parts[1]}"
    if parts[:2] == ["torch", "ops"] and len(parts) >= 4:
        return f"{parts[2]}::{parts[3]}"
    if parts[0] in ("aten", "inductor_ops", "_quantized") and len(parts) >= 2:
        return f"{ {'inductor_ops': 'inductor'}.get(parts[0], parts[0]) }::{parts[1]}"
    if parts[-1] in _COPY_METHODS and len(parts) == 2:
        return f"aten::{parts[1]}"
    return None


def is_wrapper(text: str) -> bool:
    """Whether a file's text is a wrapper module (and not a single-kernel file)."""
    head = text[:4000]
    return head.lstrip().startswith("# AOT ID:") or "AsyncCompile()" in head or is_cpp_wrapper(text)


def parse_wrapper(text: str, path: str) -> WrapperModule:
    """The module of ``text``; ``path`` is only carried along. Never raises on odd content."""
    return _cpp_module(text, path) if is_cpp_wrapper(text) else _Scanner(text, path).scan()


def _cpp_module(text: str, path: str) -> WrapperModule:
    rows = text.splitlines()[:MAX_LINES]
    module = WrapperModule(path=path, aot_id=None, lines=len(rows), cpp=True)
    for call in calls_of(rows):
        extern = shim_op(call.name) is not None or call.name.startswith(
            ("aoti_torch_", "torch.ops.", "extern_kernels.")
        )
        module.calls.append(
            CallSite(
                line=call.line,
                callee=call.name,
                kind="extern" if extern else "kernel",
                function="inductor_entry_impl",
                handle=call.handle,
                nodes=_items(call.nodes),
                aten=_items(call.aten),
            )
        )
    return module


class _Scanner:
    def __init__(self, text: str, path: str) -> None:
        self.rows = text.splitlines()[:MAX_LINES]
        self.module = WrapperModule(path=path, aot_id=None, lines=len(self.rows))
        self.functions: dict[str, list[CallSite | str]] = {}
        """Calls of each function in source order; a string names another function of the module."""
        self._forget()

    def _forget(self) -> None:
        self.path: str | None = None
        self.original: tuple[str, int] | None = None
        self.nodes: tuple[str, ...] = ()
        self.aten: tuple[str, ...] = ()
        self.handles: list[tuple[str, str]] = []

    def scan(self) -> WrapperModule:
        function: str | None = None
        indent = 0
        index = 0
        while index < len(self.rows):
            row = self.rows[index]
            if len(row) > MAX_LINE:
                index += 1
                continue
            stripped = row.lstrip()
            if stripped.startswith(("#", "//")):
                self._comment(row)
            elif (definition := _DEFINITION.match(row)) is not None:
                index = self._define(definition, index)
                function = None
            elif (entered := _FUNCTION.match(row)) is not None:
                function, indent = entered["name"], len(entered["indent"])
                if function in _NOT_ENTRIES:
                    function = None
                else:
                    self.functions.setdefault(function, [])
                self._forget()
            elif stripped and function is not None:
                if len(row) - len(stripped) <= indent:
                    function = None
                else:
                    self._statement(row, index + 1, function)
            elif stripped and not row.startswith((" ", "\t")):
                self._forget()
            index += 1
        seen: set[str] = set()
        self.module.calls.extend(self._expand("call", seen))
        for name in self.functions:
            if name not in seen:
                self.module.calls.extend(self._expand(name, seen))
        return self.module

    def _comment(self, row: str) -> None:
        if (match := _HANDLE.match(row)) is not None:
            self.handles.append((match["name"], f"{match['name']}:{match['number']}"))
        elif (match := _NODES.match(row) or _OLD_NODES.match(row)) is not None:
            self.nodes, self.aten = _items(match["nodes"]), _items(match["aten"])
        elif (match := _KERNEL_PATH.match(row)) is not None:
            self.path = match["path"]
        elif (match := _ORIGINAL_PATH.match(row)) is not None:
            self.original = (match["path"], int(match["line"]))
        elif (match := _AOT_ID.match(row)) is not None and self.module.aot_id is None:
            self.module.aot_id = match["ids"].strip().strip("'\"") or None

    def _define(self, match: re.Match[str], index: int) -> int:
        """Record the definition that starts at ``index`` and return the index of its last line."""
        end = index
        quote = next((q for q in ("'''", '"""') if q in match["rest"]), None)
        if quote is not None and match["rest"].count(quote) % 2:
            end = next((i for i in range(index + 1, len(self.rows)) if quote in self.rows[i]), len(self.rows) - 1)
        body = (
            next((i + 1 for i in range(index + 1, end) if self.rows[i].startswith("def ")), None)
            if end > index
            else None
        )
        symbol = (quoted := _QUOTED.match(match["rest"])) and quoted["text"]
        members = (
            tuple(re.findall(r"\btriton_\w+", match["rest"].partition("[")[2]))
            if match["how"] == "multi_kernel"
            else ()
        )
        self.module.kernels[match["name"]] = KernelDefinition(
            name=match["name"],
            symbol=symbol or match["name"],
            how=match["how"],
            line=index + 1,
            end_line=end + 1,
            body_line=body,
            path=self.path,
            original_path=self.original[0] if self.original else None,
            original_line=self.original[1] if self.original else None,
            nodes=self.nodes,
            aten=self.aten,
            members=members,
        )
        self._forget()
        return end

    def _statement(self, row: str, line: int, function: str) -> None:
        match = _CALL.match(row)
        if match is None:
            return
        callee = match["callee"]
        if (partition := _PARTITION.match(callee)) is not None:
            self.functions[function].append(f"partition_{partition['number']}")
            self._forget()
            return
        if callee.removeprefix("self.") in self.functions and callee.removeprefix("self.") != function:
            self.functions[function].append(callee.removeprefix("self."))
            self._forget()
            return
        kind, name = self._kind(callee)
        if kind is None:
            return
        wanted = [full for short, full in self.handles if short == name] or [full for _, full in self.handles]
        self.functions[function].append(
            CallSite(
                line=line,
                callee=name,
                kind=kind,
                function=function,
                handle=wanted[-1] if wanted else None,
                nodes=self.nodes,
                aten=self.aten,
            )
        )
        self._forget()

    def _kind(self, callee: str) -> tuple[SiteKind | None, str]:
        if callee.endswith(".run"):
            return "kernel", callee[: -len(".run")]
        if callee in self.module.kernels:
            return "kernel", callee
        if callee.startswith("extern_kernels."):
            return "extern", callee
        if callee.startswith(("torch.ops.", "aten.", "inductor_ops.", "_quantized.")):
            # Bookkeeping that launches nothing and has no handle: views of a buffer.
            return ("fallback", callee) if ".set_." not in callee else (None, callee)
        if callee.endswith(tuple(f".{name}" for name in _COPY_METHODS)) and callee.count(".") == 1:
            return "copy", callee
        return None, callee

    def _expand(self, name: str, seen: set[str]) -> Iterator[CallSite]:
        if name in seen:
            return
        seen.add(name)
        for item in self.functions.get(name, ()):
            if isinstance(item, str):
                yield from self._expand(item, seen)
            else:
                yield item


def _items(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in (item.strip() for item in text.split(",")) if part))
