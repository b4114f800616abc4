"""The harness of a generated file, read as text: which inputs it makes, and of what sizes. Nothing of it is executed.

Versions of torch have written harnesses that are no Python (``device=cuda:0`` without quotes, sizes in C++ braces) or
that import what is gone, and ``benchmark_harness = False`` writes none. Their statements say the inputs all the same.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

_START = re.compile(
    r"^def (?:get_args|benchmark_compiled_module|benchmark_all_configs)\(|^if __name__ == ", re.MULTILINE
)
_TENSOR = re.compile(
    r"^\s+(?P<name>\w+) = rand_strided\(\s*[({\[](?P<size>[^)}\]]*)[)}\]]\s*,\s*[({\[](?P<stride>[^)}\]]*)[)}\]]\s*,"
    r"\s*device=(?P<device>['\"]?\w+(?::\d+)?['\"]?)\s*,\s*dtype=torch\.(?P<dtype>\w+)\s*\)\s*$"
)
_VIEW = re.compile(
    r"^\s+(?P<name>\w+) = torch\.as_strided\((?P<of>\w+), \((?P<size>[^)]*)\), \((?P<stride>[^)]*)\)(?:, (?P<offset>\d+))?\)\s*$"
)
"""Inputs that share memory (torch 2.13 and newer): views of one buffer."""
_NUMBER = re.compile(r"^\s+(?P<name>\w+) = (?P<value>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|None|True|False)\s*$")
_RETURN = re.compile(r"^\s+return (?P<names>[\[(]?[\w., \-]*[\])]?)\s*$")
_LAMBDA = re.compile(r"call\(\[(?P<names>[\w., \-]*)\]\)")
_ASSIGNED = re.compile(r"^\s+(?P<name>\w+) = ")
_GLOBAL = re.compile(r"^\s+global (?P<name>\w+)\s*$")
_CONSTANT = re.compile(
    r"^(?P<name>\w+) = None  # device\(type='(?P<device>\w+)'(?:, index=(?P<index>\d+))?\) torch\.(?P<dtype>\w+)"
    r" \((?P<size>[^)]*)\) \((?P<stride>[^)]*)\)",
    re.MULTILINE,
)
"""A tensor of the program's that the module has as a name of its own (a frozen weight), described in a comment."""
_GONE = re.compile(r"^\s+from torch\._inductor\.utils import (?P<names>.*\bdo_bench\b.*)$", re.MULTILINE)


@dataclass(slots=True)
class Harness:
    """Inputs in the order in which ``call`` takes them; a value is a tensor's description or a plain number."""

    first_line: int | None = None
    """Where the harness starts (1-based); None where the file has none."""
    inputs: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    """Tensors that the module reads by names of its own: the file says their shapes, not what they held."""
    complete: bool = False
    """Whether every input was understood."""
    notes: list[str] = field(default_factory=list)


def tensor(size: Any, stride: Any, dtype: str | None, device: str) -> dict[str, Any]:
    """The description of a strided tensor, as the measuring side makes it."""
    return {"size": list(size), "stride": list(stride), "dtype": dtype, "device": device}


def split(text: str) -> tuple[str, str, int | None]:
    """(the file without its harness, the harness, the line where it starts)."""
    # What stands inside a kernel's string is no harness of the file: only what follows the last string counts.
    after = max(text.rfind("'''"), text.rfind('"""'), 0)
    found = _START.search(text, after)
    if found is None:
        return text, "", None
    return text[: found.start()], text[found.start() :], text.count("\n", 0, found.start()) + 1


def read(text: str) -> Harness:
    """The inputs of ``text``'s harness. Never raises; ``complete`` is False where something was not understood."""
    _, source, line = split(text)
    harness = Harness(first_line=line, constants=_constants(text))
    if line is None:
        harness.notes.append("the file carries no harness: inputs are made from the sizes that the module asserts")
        return harness
    values: dict[str, Any] = {}
    unknown: set[str] = set()
    constants: set[str] = set()
    order: list[str] | None = None
    for row in source.splitlines():
        if (match := _TENSOR.match(row)) is not None:
            size, stride = _numbers(match["size"]), _numbers(match["stride"])
            if size is None or stride is None:
                unknown.add(match["name"])
            else:
                values[match["name"]] = tensor(size, stride, match["dtype"], match["device"].strip("'\""))
        elif (match := _VIEW.match(row)) is not None:
            size, stride, base = _numbers(match["size"]), _numbers(match["stride"]), values.get(match["of"])
            if size is None or stride is None or not isinstance(base, dict):
                unknown.add(match["name"])
            else:
                view = tensor(size, stride, base["dtype"], base["device"])
                view["of"] = {"name": match["of"], "size": base["size"], "offset": int(match["offset"] or 0)}
                values[match["name"]] = view
        elif (match := _GLOBAL.match(row)) is not None:
            constants.add(match["name"])
        elif (match := _NUMBER.match(row)) is not None:
            values[match["name"]] = ast.literal_eval(match["value"])
        elif (match := _RETURN.match(row) or _LAMBDA.search(row)) is not None:
            order = order or [part.strip() for part in match["names"].strip("[]()").split(",") if part.strip()]
        elif (match := _ASSIGNED.match(row)) is not None:
            unknown.add(match["name"])
    harness.constants.update({name: values[name] for name in constants if name in values})
    for name in order or []:
        if name in values:
            harness.inputs.append(values[name])
        elif re.fullmatch(r"-?\d+", name):
            harness.inputs.append(int(name))
        else:
            break
        harness.names.append(name)
    harness.complete = order is not None and len(harness.inputs) == len(order)
    harness.notes.extend(_faults(source, line))
    return harness


def _constants(text: str) -> dict[str, Any]:
    found = {}
    for match in _CONSTANT.finditer(text):
        size, stride = _numbers(match["size"]), _numbers(match["stride"])
        if size is not None and stride is not None:
            device = match["device"] if match["index"] is None else f"{match['device']}:{match['index']}"
            found[match["name"]] = tensor(size, stride, match["dtype"], device)
    return found


def _faults(source: str, first: int) -> list[str]:
    """What keeps the harness from running, in one line."""
    if (match := _GONE.search(source)) is not None:
        line = first + source.count("\n", 0, match.start())
        return [f"line {line}: the harness imports do_bench, which this torch does not have; read instead of run"]
    try:
        ast.parse(source)
    except SyntaxError as error:
        line = first + (error.lineno or 1) - 1
        row = source.splitlines()[(error.lineno or 1) - 1].strip()[:100]
        return [f"line {line}: the harness is no valid Python ({row}); its sizes were read as text"]
    for number, row in enumerate(source.splitlines()):
        if (match := re.search(r"rand_strided\(\s*\{", row)) is not None:
            return [f"line {first + number}: the harness gives sizes in C++ braces; they were read as text"]
    return []


def _numbers(text: str) -> list[int] | None:
    parts = [part.strip().rstrip("L") for part in text.split(",") if part.strip()]
    return [int(part) for part in parts] if all(re.fullmatch(r"-?\d+", part) for part in parts) else None
