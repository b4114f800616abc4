"""Triton kernels that the program launches itself: their source, and with which arguments, for ``ridgeline bench``.

A launch costs a counter; what it was given is looked at for the first few and then for every power of two, so that the
loop that is measured is left alone. While the profiler records, every launch is glanced at (a few microseconds beside what
the profiler itself takes): which of the known arguments it had. Tensors are described; of integer ones, which may be
indices, ``triton_values`` notes what they held. Trials of ``triton.autotune`` do not count.
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from .triton_values import Values

KERNELS, CALLS, TEXT = 200, 8, 200_000
"""Kernels kept; different arguments kept of one; characters of a kernel with all that it needs."""
FIRST = 4
"""Launches of a kernel that are looked at in any case; then every power of two."""
REMEMBERED = 10_000
"""Latest launches of a kernel whose arguments can be told apart."""


class _Kernel:
    """What is known of one kernel: its row of the sidecar, and which launch had which arguments."""

    __slots__ = ("known", "latest", "row")

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.known: dict[Any, int] = {}
        """Shapes and values of a launch -> index of its call, -1 where the sidecar has no more room for it."""
        self.latest: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        """(time_ns, index of the call)"""


class TritonCalls:
    """Rows of ``Sidecar.triton_calls``."""

    def __init__(self, complain: Callable[[str, BaseException | str], None]) -> None:
        self._complain = complain
        self._counts: dict[int, int] = {}
        self._rows: dict[int, _Kernel] = {}
        self._kept: list[Any] = []
        """The kernels themselves: an id stays one kernel's as long as it lives."""
        self._failed: set[int] = set()
        self._trial = threading.local()
        self._values = Values()
        self._unread: dict[int, list[str]] = {}
        """Kernel -> integer arguments of its calls that are still to be looked at, as ``CALL:NAME``."""

    def on_runtime(self, module: ModuleType) -> None:
        """``triton.runtime.jit`` and ``triton.runtime.interpreter``: both kinds of kernels have ``run``."""
        for name in ("JITFunction", "InterpretedFunction"):
            kind: Any = getattr(module, name, None)
            # The one class imports the other's module in some versions: each is wrapped where it is defined.
            if kind is None or kind.__module__ != module.__name__:
                continue
            if "run" in vars(kind):
                kind.run = self._wrapped(kind.run)
            elif "__getitem__" in vars(kind):
                kind.__getitem__ = self._indexed(kind.__getitem__)

    def on_autotuner(self, module: ModuleType) -> None:
        """``triton.runtime.autotuner``: what it tries out is not what the program launches."""
        tuner: Any = getattr(module, "Autotuner", None)
        bench = getattr(tuner, "_bench", None)
        if bench is None:
            return
        trial = self._trial

        def _bench(*args: Any, **kwargs: Any) -> Any:
            trial.on = True
            try:
                return bench(*args, **kwargs)
            finally:
                trial.on = False

        tuner._bench = _bench

    def _wrapped(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def ridgeline_run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self._launched(kernel, args, kwargs)
            return run(kernel, *args, **kwargs)

        return ridgeline_run

    def _indexed(self, getitem: Callable[..., Any]) -> Callable[..., Any]:
        """``kernel[grid]`` of an interpreter that launches from there (Triton before 3.6)."""

        def ridgeline_getitem(kernel: Any, grid: Any) -> Any:
            inner = getitem(kernel, grid)

            def launch(*args: Any, **kwargs: Any) -> Any:
                self._launched(kernel, args, {**kwargs, "grid": grid})
                return inner(*args, **kwargs)

            return launch

        return ridgeline_getitem

    def _launched(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        count = self._counts[id(kernel)] = self._counts.get(id(kernel), 0) + 1
        try:
            if count <= FIRST or not count & (count - 1) or id(kernel) in self._unread or profiling():
                self._look(kernel, args, kwargs)
        except Exception as error:  # noqa: BLE001 - private attributes of Triton; the launch itself must go on
            if id(kernel) not in self._failed:
                self._failed.add(id(kernel))
                self._complain("arguments of a Triton kernel", error)

    def _look(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kwargs.get("warmup") or getattr(self._trial, "on", False):
            self._counts[id(kernel)] -= 1  # a trial is not one of the first launches
            return
        if id(kernel) in self._failed:
            return
        known = self._rows.get(id(kernel))
        if known is None:
            if len(self._rows) >= KERNELS:
                return
            self._kept.append(kernel)
            known = self._rows[id(kernel)] = _Kernel({**described_kernel(kernel), "calls": []})
        key = glance(args, kwargs)
        index = known.known.get(key) if key is not None else None
        if index is None:
            index = self._describe(known, kernel, args, kwargs)
            if key is not None and len(known.known) < REMEMBERED:
                known.known[key] = index
        known.latest.append((time.time_ns(), index))
        if id(kernel) in self._unread:
            self._read(id(kernel), known.row["calls"], index, named_arguments(kernel, args, kwargs))

    def _read(self, key: int, calls: list[dict[str, Any]], index: int, given: Mapping[str, Any]) -> None:
        """Note what the integer arguments of this call hold, where that is not known yet and may be looked at now."""
        recording, rest = profiling(), []
        for wanted in self._unread[key]:
            call, _, name = wanted.partition(":")
            if int(call) == index and name in given:
                argument = next(one for one in calls[index]["arguments"] if one["name"] == name)
                if self._values.note(argument, given[name], recording):
                    continue
            rest.append(wanted)
        self._unread[key] = rest
        if not rest and self._values.arrived(recording):
            del self._unread[key]

    def _describe(self, known: _Kernel, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Index of the call among the kernel's; -1 where there is no more room for another."""
        calls = known.row["calls"]
        if len(calls) >= CALLS:
            return -1
        call = described_call(kernel, args, kwargs)
        index = next((i for i, other in enumerate(calls) if without_content(other) == call), len(calls))
        if index == len(calls):
            calls.append(call)
            integral = [one["name"] for one in call["arguments"] if str(one.get("dtype")).startswith(("int", "uint"))]
            if integral:
                self._unread.setdefault(id(kernel), []).extend(f"{index}:{name}" for name in integral)
        return index

    def rows(self, windows: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
        """With which launch within one of the windows had which arguments, where there were different ones."""
        rows = []
        for key, known in list(self._rows.items()):
            latest = [
                [at, index]
                for at, index in (list(known.latest) if len(known.row["calls"]) > 1 else ())
                if any(window["start_ns"] <= at <= window["end_ns"] for window in windows)
            ]
            rows.append({**known.row, "launches": self._counts.get(key, 0), "recorded": latest})
        return rows


def profiling() -> bool:
    """Whether torch's profiler records at the moment."""
    torch = sys.modules.get("torch")
    enabled = getattr(getattr(torch, "autograd", None), "_profiler_enabled", None)
    return bool(enabled is not None and enabled())


def glance(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What tells one launch from another at little cost: shapes and types of tensors, values of all else. None where a
    value cannot be compared."""
    try:
        shown = tuple([(v.shape, v.dtype) if hasattr(v, "data_ptr") else v for v in args])
        named = tuple(
            [
                (name, (v.shape, v.dtype) if hasattr(v, "data_ptr") else v)
                for name, v in kwargs.items()
                if name not in ("grid", "stream")
            ]
        )
        hash((shown, named))
    except TypeError:
        return None
    return shown, named


def described_kernel(kernel: Any) -> dict[str, Any]:
    """Where it stands and a text that stands alone: ``needs`` names what could not be put into it."""
    function = kernel.fn
    code = function.__code__
    text, needs = standalone(function)
    return {
        "name": function.__name__,
        "file": code.co_filename,
        "line": _def_line(function),
        "text": text if len(text) <= TEXT else "",
        "needs": needs if len(text) <= TEXT else [*needs, "its source is too long"],
    }


def _def_line(function: Any) -> int:
    rows, first = inspect.getsourcelines(function)
    return first + next((n for n, row in enumerate(rows) if row.lstrip().startswith("def ")), 0)


def without_content(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call as it was described, without what its arguments turned out to hold."""
    plain = [{name: value for name, value in one.items() if name != "content"} for one in call["arguments"]]
    return {**call, "arguments": plain}


def named_arguments(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a launch gives each parameter, defaults included."""
    parameters = inspect.signature(kernel.fn).parameters
    given = {
        name: parameter.default for name, parameter in parameters.items() if parameter.default is not inspect._empty
    }
    given.update(zip(parameters, args))
    given.update({name: value for name, value in kwargs.items() if name in parameters})
    return given


def described_call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments in the order of the signature, grid and options of one launch; plain data."""
    parameters = inspect.signature(kernel.fn).parameters
    given = named_arguments(kernel, args, kwargs)
    grid = kwargs.get("grid")
    if callable(grid):
        grid = grid(dict(given))
    tensors: list[tuple[str, Any]] = []
    arguments = []
    for name in parameters:
        value = given.get(name)
        if hasattr(value, "data_ptr"):
            twin = next((one for one, other in tensors if other is value), None)
            tensors.append((name, value))
            arguments.append({"name": name, **described_tensor(value), "same_as": twin})
        else:
            arguments.append({"name": name, **described_value(value)})
    plain = (int, float, bool, str, type(None))
    return {
        "arguments": arguments,
        "grid": [int(size) for size in (grid or ())],
        "options": {
            name: value
            for name, value in kwargs.items()
            if name not in parameters and name not in ("grid", "warmup", "stream") and isinstance(value, plain)
        },
    }


def described_tensor(value: Any) -> dict[str, Any]:
    """Shape, strides (elements), type, device; nothing of its content is read."""
    return {
        "size": [int(n) for n in value.shape],
        "stride": [int(n) for n in value.stride()],
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": str(value.device),
    }


def described_value(value: Any) -> dict[str, Any]:
    """A plain value as it is; Triton's and torch's types by their place; of anything else only its type."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and value - value == 0):
        return {"value": value}
    if type(value).__name__ == "dtype":
        module = type(value).__module__
        if module.startswith("triton"):
            # Its own name is short ("fp32"); what a file can say is the name in the module ("float32").
            known = vars(sys.modules["triton.language"]).items()
            found = next((name for name, one in known if type(one) is type(value) and one == value), None)
            return {"type": "triton.language" if found else "unknown", "value": found or str(value)}
        return {"type": "torch", "value": str(value).removeprefix("torch.")}
    described: dict[str, Any] = {"type": "unknown", "value": type(value).__name__}
    base, block = getattr(value, "base", None), getattr(value, "block_shape", None)
    if hasattr(base, "data_ptr") and isinstance(block, (list, tuple)):  # a tensor descriptor made on the host
        tensor = {
            **described_tensor(base),
            "size": [int(n) for n in value.shape],
            "stride": [int(n) for n in value.strides],
        }
        described |= {"of": tensor, "block": [int(n) for n in block]}
    return described


def standalone(function: Any) -> tuple[str, list[str]]:
    """(a module's text with the kernel first, what it refers to that could not be put in, as ``helper NAME``)."""
    done: dict[str, str] = {}
    imports = {"import triton": None, "import triton.language as tl": None}
    constants: dict[str, str] = {}
    needs: dict[str, None] = {}
    waiting = [function]
    while waiting:
        one = waiting.pop(0)
        if one.__name__ in done:
            continue
        source = textwrap.dedent(inspect.getsource(one))
        source = source[source.index("def ") :] if "def " in source else source
        done[one.__name__] = f"@triton.jit\n{source.rstrip()}\n"
        for name, value in _named(one, source):
            if isinstance(value, ModuleType):
                imports[f"import {value.__name__} as {name}"] = None
            elif hasattr(getattr(value, "fn", None), "__code__"):
                waiting.append(value.fn)
                if value.fn.__name__ != name:
                    constants[name] = ""  # an alias, written below the helpers
                    done.setdefault(f"\0{name}", f"{name} = {value.fn.__name__}\n")
            elif (literal := _literal(value)) is not None:
                constants[name] = f"{name} = {literal}"
            elif callable(value) and getattr(value, "__module__", "").partition(".")[0] in ("triton", "torch"):
                imports[f"from {value.__module__} import {value.__name__} as {name}"] = None
            else:
                needs[f"{'helper' if callable(value) else 'constant'} {name}"] = None
    parts = ["\n".join(imports), "\n".join(text for text in constants.values() if text), *done.values()]
    return "\n\n\n".join(part for part in parts if part), list(needs)


def _named(function: Any, source: str) -> Iterator[tuple[str, Any]]:
    """Names of the module (or of an enclosing function) that the function reads, with their values."""
    code, names = function.__code__, function.__globals__
    read = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    # Annotations and defaults are evaluated when the function is defined: only modules matter there (``tl.constexpr``).
    read |= {
        n for n, v in list(names.items()) if isinstance(v, ModuleType) and re.search(rf"\b{re.escape(n)}\b", source)
    }
    for name in sorted(read & names.keys()):
        yield name, names[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        yield name, cell.cell_contents


def _literal(value: Any) -> str | None:
    described = described_value(value)
    if described.get("type") == "triton.language":
        return f"tl.{described['value']}"
    if "type" in described:
        return None
    text = repr(described["value"])
    return f"tl.constexpr({text})" if type(value).__name__ == "constexpr" else text
