"""Runs an Inductor-generated wrapper module with its own harness inputs, step after step, for the recorder to watch.

Inputs are made as the supervisor read them from the module's text; where that does not say all, the module's ``get_args``
(torch 2.11 and newer) or, before, what its ``benchmark_compiled_module`` hands to the timer gives them. Integer inputs would
be zeros, which makes a gather look free: they get random values within the bounds that the module itself asserts. What
cannot be run is said in one line with its place.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .made import CannotMake, make, make_all

if TYPE_CHECKING:
    from .agent import Agent

SECONDS = 20.0
"""A module runs until its window is recorded, at most this long."""
MAX_STEPS = 2_000
# Triton: tl.device_assert((0 <= tmp4) & (tmp4 < 512), …); C++: AOTI_TORCH_CHECK((0 <= tmp4) & (tmp4 < 512L), …)
_BOUND = re.compile(r"<\s*(\d+)L?\)?\s*[),|&]?.*index out of bounds|index out of bounds: 0 <= \w+ < (\d+)")
_UNBACKED = re.compile(r"^\s*(u\d+)\s*=", re.MULTILINE)
_MISSING_OP = re.compile(r"'_OpNamespace' '(?P<space>\w+)' object has no attribute '(?P<op>\w+)'")


def is_generated(source: bytes) -> bool:
    """Whether a file's content is a wrapper module that Inductor wrote (not the file of one kernel, not a script)."""
    head = source[:200].lstrip()
    if b"\ninductor_entry = CppWrapperCodeCache." in source:  # cpp_wrapper: the calls are in C++, the harness is Python
        return True
    return head.startswith(b"# AOT ID:") or (
        b"async_compile = AsyncCompile()" in source
        and re.search(rb"^(?:    )?def call\(", source, re.MULTILINE) is not None
    )


class CannotRun(Exception):
    """One line: what, where, what to do."""


def run(path: str, source: str, agent: Agent) -> None:
    """Load the module, make its inputs, call it until the recorder has its window. Raises ``SystemExit`` with a line."""
    try:
        _run(path, source, agent)
    except CannotRun as error:
        print(f"ridgeline: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _run(path: str, source: str, agent: Agent) -> None:
    import torch

    key = os.path.basename(path).removesuffix(".py")
    module = _load(torch, path, key, source)
    agent.capture.adopt(path, source, key)
    call = _call_of(torch, module, source, path, agent.notes, agent.spec.module_inputs)
    name = f"## Call CompiledFxGraph {key} ##"
    synchronize = torch.cuda.synchronize if torch.cuda.is_available() and "cuda" in source else None
    if "CppWrapperCodeCache" in source and "ecordFunction" not in source and synchronize is None:
        agent.notes.append(
            "the module calls its kernels from C++, and C++ kernels leave no events of their own: only the whole call is known"
            " (compiled with TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE=1 they would)"
        )
    since = time.monotonic()
    for _ in range(MAX_STEPS):
        agent.step_of_module(id(module))
        with torch.profiler.record_function(name), torch.no_grad():
            call()
        if synchronize is not None:
            # One call at a time: the device's time and the wall come from the same steady run, without a queue between.
            synchronize()
        if agent.captured() or time.monotonic() - since > SECONDS:
            break
    agent.step_of_module(id(module))


def _load(torch: Any, path: str, key: str, source: str) -> Any:
    from torch._inductor.codecache import PyCodeCache

    try:
        return PyCodeCache.load_by_key_path(key, path)
    except AttributeError as error:
        raise CannotRun(_unregistered(error, source, path) or f"{path} cannot be loaded: {error}") from error
    except (SyntaxError, ImportError, NameError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise CannotRun(
            f"{path}{line} cannot be loaded by torch {torch.__version__} ({type(error).__name__}: {error}); "
            "it was written by another version, or is damaged"
        ) from error


def _unregistered(error: AttributeError, source: str, path: str) -> str | None:
    """``torch.ops.test.baz`` where nothing registered it."""
    found = _MISSING_OP.search(str(error))
    if found is None:
        return None
    name = f"{found['space']}.{found['op']}"
    line = next((n for n, text in enumerate(source.splitlines(), 1) if f"ops.{name}" in text), 1)
    return (
        f"{path}:{line}: op {name} not registered: import the module that defines it (PYTHONPATH, or profile the program itself);"
        " `ridgeline bench` measures the kernels that can do without it"
    )


def _call_of(
    torch: Any, module: Any, source: str, path: str, notes: list[str], described: dict[str, Any] | None
) -> Callable[[], Any]:
    """A function that runs the module once on fresh lists of the same inputs."""
    entry = getattr(module, "call", None)
    if not callable(entry):
        raise CannotRun(f"{path} defines no call(): it is no wrapper module of this torch's shape")
    if described is not None:
        _fill_constants(torch, module, described, path)
        inputs = _made(torch, described, path, notes)
        return _checked(lambda: entry(list(inputs)), source, path, notes, known=not described["unbacked"])
    if callable(getattr(module, "get_args", None)):
        try:
            inputs = list(module.get_args())
        except (RuntimeError, NameError, TypeError, ValueError, NotImplementedError) as error:
            raise CannotRun(f"{path}: its get_args() fails ({type(error).__name__}: {error})") from error
        _fill(torch, inputs, source, notes)
        return _checked(lambda: entry(list(inputs)), source, path, notes)
    if not callable(getattr(module, "benchmark_compiled_module", None)):
        raise CannotRun(
            f"{path} carries no harness (torch._inductor.config.benchmark_harness was off): nothing says its inputs"
        )
    return _checked(_captured(torch, module, path), source, path, notes)


def _fill_constants(torch: Any, module: Any, described: dict[str, Any], path: str) -> None:
    """What the program held under names of the module (frozen weights): the file says shapes, so any values of theirs."""
    for seed, (name, one) in enumerate(described.get("constants", {}).items()):
        if getattr(module, name, None) is not None:
            continue
        try:
            setattr(module, name, make(torch, one, described["bound"], seed))
        except (CannotMake, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise CannotRun(f"{path}: its {name} cannot be made ({type(error).__name__}: {error})") from error


def _made(torch: Any, described: dict[str, Any], path: str, notes: list[str]) -> list[Any]:
    """The inputs that the text of the module says, with what a person should know of them."""
    bound = described["bound"]
    try:
        inputs = make_all(torch, described["inputs"], bound)
    except (CannotMake, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise CannotRun(f"{path}: its inputs cannot be made ({type(error).__name__}: {error})") from error
    notes.extend(described["notes"])
    bounds = [
        one.get("bound", bound)
        for one, tensor in zip(described["inputs"], inputs)
        if isinstance(tensor, torch.Tensor) and tensor.dim() and tensor.dtype in (torch.int64, torch.int32)
    ]
    stated = [one for one in bounds if one]
    if stated:
        low, high = min(stated), max(stated)
        below = f"{low}, the bound that" if low == high else f"{low} to {high}, the bounds that"
        notes.append(f"{_integers(len(stated), 'has', 'have')} random values below {below} the module states")
    if len(stated) < len(bounds):
        notes.append(_zeros(len(bounds) - len(stated)))
    return inputs


def _integers(count: int, one: str, several: str) -> str:
    return f"1 integer input {one}" if count == 1 else f"{count} integer inputs {several}"


def _zeros(count: int) -> str:
    what, them = ("zeros", "it") if count == 1 else ("all zeros", "them")
    return f"{_integers(count, 'is', 'are')} {what}: the module states no bounds for {them}"


def _captured(torch: Any, module: Any, path: str) -> Callable[[], Any]:
    """Before 2.11 the inputs are made inside ``benchmark_compiled_module``; it hands the timer a function: take that."""
    from torch._inductor import utils

    taken: list[Callable[[], Any]] = []
    original = utils.print_performance

    def take(function: Callable[[], Any], *args: Any, **kwargs: Any) -> float:
        taken.append(function)
        return 0.0

    utils.print_performance = take
    try:
        module.benchmark_compiled_module(times=1, repeat=1)
    except (RuntimeError, NameError, TypeError, NotImplementedError) as error:
        raise CannotRun(f"{path}: its benchmark_compiled_module() fails ({type(error).__name__}: {error})") from error
    finally:
        utils.print_performance = original
    if not taken:
        raise CannotRun(f"{path}: its harness never called the timer")
    return taken[0]


def _checked(
    function: Callable[[], Any], source: str, path: str, notes: list[str], *, known: bool = False
) -> Callable[[], Any]:
    """The first call tells whether it runs at all, and on what."""
    try:
        function()
    except AttributeError as error:
        raise CannotRun(_unregistered(error, source, path) or f"{path} cannot be run: {error}") from error
    except (RuntimeError, AssertionError, NameError, TypeError, IndexError) as error:
        said = (str(error).splitlines() or [""])[0]
        size = re.search(r"\b[su]\d+\b", said)
        raise CannotRun(
            f"{path} cannot be run on its harness inputs ({type(error).__name__}: {said})"
            + (f"; give the size (--size {size[0]}=VALUE)" if size else "")
        ) from error
    names = [] if known else sorted(set(_UNBACKED.findall(source)))
    if names:
        notes.append(
            f"{'the size' if len(names) == 1 else 'the sizes'} {', '.join(names)} {'depends' if len(names) == 1 else 'depend'} on "
            "data that the harness invents: times of what follows may be of empty work; "
            f"give the real one (--size {names[0]}=VALUE), or profile the program itself"
        )
    return function


def _fill(torch: Any, inputs: list[Any], source: str, notes: list[str]) -> None:
    """Random indices within the asserted bounds in place of zeros, in the same storage."""
    bounds = [int(a or b) for a, b in _BOUND.findall(source)]
    integral = [
        t
        for t in inputs
        if isinstance(t, torch.Tensor) and t.numel() and t.dtype in (torch.int64, torch.int32) and not t.any().item()
    ]
    if not integral:
        return
    if not bounds:
        notes.append(_zeros(len(integral)))
        return
    generator = torch.Generator(device="cpu").manual_seed(0)
    for tensor in integral:
        if tensor.dim() == 0:
            continue  # seeds and counters of the random number generator, not indices
        values = torch.randint(0, min(bounds), tuple(tensor.shape), generator=generator, dtype=tensor.dtype)
        tensor.copy_(values)
    notes.append(
        f"{_integers(len(integral), 'was', 'were')} given random values below {min(bounds)}, the bound that the module asserts"
    )
